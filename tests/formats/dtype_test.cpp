#include "formats/dtype.h"

namespace vllm {
namespace {

TEST(DType, BlockTypesHaveTheSizesOfGguf) {
  const struct {
    DType type;
    int64_t elements, bytes;
  } cases[] = {
      {DType::kQ4_0, 32, 18},   {DType::kQ4_1, 32, 20},   {DType::kQ5_0, 32, 22},   {DType::kQ5_1, 32, 24},
      {DType::kQ8_0, 32, 34},   {DType::kQ2_K, 256, 84},  {DType::kQ3_K, 256, 110}, {DType::kQ4_K, 256, 144},
      {DType::kQ5_K, 256, 176}, {DType::kQ6_K, 256, 210}, {DType::kQ8_K, 256, 292},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(dtype_block_elements(c.type), c.elements) << dtype_name(c.type);
    EXPECT_EQ(dtype_block_bytes(c.type), c.bytes) << dtype_name(c.type);
    EXPECT_TRUE(dtype_is_quantised(c.type));
    EXPECT_EQ(dtype_bytes(c.type, c.elements * 3), c.bytes * 3);
    EXPECT_EQ(dtype_bytes(c.type, c.elements + 1), std::nullopt);
  }
}

TEST(DType, PlainTypes) {
  EXPECT_EQ(dtype_bytes(DType::kF32, 5), 20);
  EXPECT_EQ(dtype_bytes(DType::kF16, 5), 10);
  EXPECT_EQ(dtype_bytes(DType::kBF16, 5), 10);
  EXPECT_EQ(dtype_bytes(DType::kF64, 5), 40);
  EXPECT_EQ(dtype_bytes(DType::kF8E4M3, 5), 5);
  EXPECT_EQ(dtype_bytes(DType::kI64, 5), 40);
  EXPECT_EQ(dtype_bytes(DType::kBool, 0), 0);
  EXPECT_FALSE(dtype_is_quantised(DType::kI8));
  EXPECT_STREQ(dtype_name(DType::kBF16), "bfloat16");
  EXPECT_STREQ(dtype_name(DType::kQ4_1), "Q4_1");
}

TEST(DType, RefusesOverflowAndNegativeCounts) {
  EXPECT_EQ(dtype_bytes(DType::kF64, INT64_MAX / 8 + 1), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::kF64, INT64_MAX / 8), INT64_MAX / 8 * 8);
  EXPECT_EQ(dtype_bytes(DType::kF32, -4), std::nullopt);
}

TEST(DType, ParsesTheNamesOfConfigs) {
  EXPECT_EQ(parse_float_dtype("bfloat16"), DType::kBF16);
  EXPECT_EQ(parse_float_dtype("torch.bfloat16"), DType::kBF16);
  EXPECT_EQ(parse_float_dtype("half"), DType::kF16);
  EXPECT_EQ(parse_float_dtype("float16"), DType::kF16);
  EXPECT_EQ(parse_float_dtype("float"), DType::kF32);
  EXPECT_EQ(parse_float_dtype("float32"), DType::kF32);
  EXPECT_EQ(parse_float_dtype("int8"), std::nullopt);
  EXPECT_EQ(parse_float_dtype(""), std::nullopt);
}

}  // namespace
}  // namespace vllm
