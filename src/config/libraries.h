#pragma once

// What this build was made from besides our own source (base/version.h), for --version and meta.json.

#include <string>
#include <utility>
#include <vector>

namespace vllm {

// Name and version of every library that is linked, in alphabetical order.
std::vector<std::pair<std::string, std::string>> linked_libraries();

std::string compiler_version();  // "GCC 12.2.0"

}  // namespace vllm
