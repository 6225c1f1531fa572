#include "formats/tensor_file.h"
#include "fuzz_file.h"

// Whatever is accepted lies inside of the file, and can be touched.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = vllm::parse_gguf({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!file) {
    vllm::fuzzing::require(file.status().message().starts_with("fuzz: "));
    return 0;
  }
  volatile unsigned sum = 0;
  for (const auto& [name, t] : file->tensors) {
    for (int64_t i = 0; i < t.bytes; ++i) sum = sum + static_cast<unsigned>(t.data[i]);
  }
  for (const auto& [key, value] : file->metadata) {
    file->integer(key);
    file->number(key);
    file->string(key);
  }
  return 0;
}
