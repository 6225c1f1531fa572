#include "fuzz_file.h"
#include "sim/architecture.h"

// The layers of a step, in YAML.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto architecture = vllm::parse_architecture({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!architecture) return 0;
  for (const auto* names : {&architecture->prologue, &architecture->mlp_moe, &architecture->head}) {
    for (const std::string& name : *names) vllm::fuzzing::require(architecture->find(name) != nullptr);
  }
  return 0;
}
