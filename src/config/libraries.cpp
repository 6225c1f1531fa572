#include "config/libraries.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <simdjson.h>
#include <spdlog/version.h>
#include <xxhash.h>
#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace vllm {

// Asked from the library itself where it tells; header-only ones, and those that do not, from the headers
// that this build was made with. yaml-cpp has no version in either.
std::vector<std::pair<std::string, std::string>> linked_libraries() {
  return {
      {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                    NLOHMANN_JSON_VERSION_PATCH)},
      {"OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING)},
      {"simdjson", fmt::format("{}.{}.{}", static_cast<int>(simdjson::SIMDJSON_VERSION_MAJOR),
                               static_cast<int>(simdjson::SIMDJSON_VERSION_MINOR),
                               static_cast<int>(simdjson::SIMDJSON_VERSION_REVISION))},
      {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
      {"xxHash", fmt::format("{}.{}.{}", XXH_versionNumber() / 10000, XXH_versionNumber() / 100 % 100,
                             XXH_versionNumber() % 100)},
      {"yaml-cpp", VLLM_YAML_CPP_VERSION},
      {"zlib", zlibVersion()},
  };
}

std::string compiler_version() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

}  // namespace vllm
