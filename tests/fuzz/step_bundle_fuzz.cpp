#include "formats/step_bundle.h"
#include "fuzz_file.h"

// What is accepted can be written and reads back equal.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto bundle = vllm::parse_step_bundle(text, "fuzz");
  if (!bundle) return 0;
  const auto back = vllm::parse_step_bundle(vllm::step_bundle_json(*bundle), "back");
  vllm::fuzzing::require(back.is_ok() && *back == *bundle);
  return 0;
}
