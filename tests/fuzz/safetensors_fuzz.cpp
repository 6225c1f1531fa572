#include "formats/tensor_file.h"
#include "fuzz_file.h"

// Whatever is accepted covers the data section byte by byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = vllm::parse_safetensors({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!file) return 0;
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | data[i];
  int64_t covered = 0;
  for (const auto& [name, t] : file->tensors) covered += t.bytes;
  vllm::fuzzing::require(covered == static_cast<int64_t>(size - 8 - header_bytes));
  return 0;
}
