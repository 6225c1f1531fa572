#include "config/model_config.h"
#include "formats/json.h"
#include "fuzz_file.h"

// A config.json of anybody.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = vllm::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!json) return 0;
  const auto config = vllm::model_config_from_json(*json, "fuzz");
  if (config) config->num_parameters();
  return 0;
}
