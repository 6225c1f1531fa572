#include "formats/dtype.h"

#include <array>

#include "base/units.h"

namespace vllm {
namespace {

struct DTypeInfo {
  DType type;
  const char* name;
  int64_t block_elements;
  int64_t block_bytes;
};

// In the order of the enum, so that a type is its own index; the static_assert below keeps it so.
constexpr std::array kInfos = {
    DTypeInfo{DType::kF32, "float32", 1, 4},
    DTypeInfo{DType::kF16, "float16", 1, 2},
    DTypeInfo{DType::kBF16, "bfloat16", 1, 2},
    DTypeInfo{DType::kF64, "float64", 1, 8},
    DTypeInfo{DType::kF8E4M3, "float8_e4m3", 1, 1},
    DTypeInfo{DType::kF8E5M2, "float8_e5m2", 1, 1},
    DTypeInfo{DType::kI8, "int8", 1, 1},
    DTypeInfo{DType::kU8, "uint8", 1, 1},
    DTypeInfo{DType::kI16, "int16", 1, 2},
    DTypeInfo{DType::kI32, "int32", 1, 4},
    DTypeInfo{DType::kI64, "int64", 1, 8},
    DTypeInfo{DType::kBool, "bool", 1, 1},
    // 32 elements: a half-precision scale (and a minimum for the _1 types), then 4, 5 or 8 bits an element.
    DTypeInfo{DType::kQ4_0, "Q4_0", 32, 18},
    DTypeInfo{DType::kQ4_1, "Q4_1", 32, 20},
    DTypeInfo{DType::kQ5_0, "Q5_0", 32, 22},
    DTypeInfo{DType::kQ5_1, "Q5_1", 32, 24},
    DTypeInfo{DType::kQ8_0, "Q8_0", 32, 34},
    // 256 elements: two levels of scales.
    DTypeInfo{DType::kQ2_K, "Q2_K", 256, 84},
    DTypeInfo{DType::kQ3_K, "Q3_K", 256, 110},
    DTypeInfo{DType::kQ4_K, "Q4_K", 256, 144},
    DTypeInfo{DType::kQ5_K, "Q5_K", 256, 176},
    DTypeInfo{DType::kQ6_K, "Q6_K", 256, 210},
    DTypeInfo{DType::kQ8_K, "Q8_K", 256, 292},
};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < kInfos.size(); ++i) {
    if (static_cast<size_t>(kInfos[i].type) != i) return false;
  }
  return kInfos.size() == static_cast<size_t>(DType::kQ8_K) + 1;
}
static_assert(in_enum_order());

const DTypeInfo& info(DType t) { return kInfos[static_cast<size_t>(t)]; }

}  // namespace

const char* dtype_name(DType t) { return info(t).name; }
int64_t dtype_block_elements(DType t) { return info(t).block_elements; }
int64_t dtype_block_bytes(DType t) { return info(t).block_bytes; }
bool dtype_is_quantised(DType t) { return info(t).block_elements > 1; }

std::optional<DType> parse_float_dtype(std::string_view name) {
  static constexpr std::string_view kTorch = "torch.";
  if (name.starts_with(kTorch)) name.remove_prefix(kTorch.size());
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16" || name == "half") return DType::kF16;
  if (name == "float32" || name == "float") return DType::kF32;
  return std::nullopt;
}

std::optional<int64_t> dtype_bytes(DType t, int64_t elements) {
  const DTypeInfo& i = info(t);
  if (elements < 0 || elements % i.block_elements != 0) return std::nullopt;
  return checked_mul(elements / i.block_elements, i.block_bytes);
}

}  // namespace vllm
