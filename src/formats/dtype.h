#pragma once

// Element types of stored tensors and of computation, with the exact bytes that they take.

#include <cstdint>
#include <optional>
#include <string_view>

namespace vllm {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kF8E4M3,
  kF8E5M2,
  kI8,
  kU8,
  kI16,
  kI32,
  kI64,
  kBool,
  // Block types of GGUF: see dtype_block_elements and dtype_block_bytes.
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
};

const char* dtype_name(DType t);        // "bfloat16", "float32", "Q4_1", ...
int64_t dtype_block_elements(DType t);  // 1 for plain types, 32 or 256 for block types
int64_t dtype_block_bytes(DType t);     // bytes of that many elements
bool dtype_is_quantised(DType t);

// Accepts "bfloat16", "float16", "float32", "torch.bfloat16", "half", "float"; nullopt for others.
std::optional<DType> parse_float_dtype(std::string_view name);

// Bytes of `elements` elements; nullopt on overflow or when they do not fill whole blocks.
std::optional<int64_t> dtype_bytes(DType t, int64_t elements);

}  // namespace vllm
