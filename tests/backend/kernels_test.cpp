// Every instruction set's kernels against plain twins written here: sums in double, one element at a time.

#include "backend/cpu/kernels.h"

#include <cmath>

#include "base/random.h"
#include "model/float_convert.h"

namespace vllm {
namespace {

std::vector<float> random_floats(int64_t n, uint64_t seed, double scale = 1.0) {
  Random random(seed);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& f : out) f = static_cast<float>(random.normal() * scale);
  return out;
}

std::vector<std::byte> random_bytes(int64_t n, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> out(static_cast<size_t>(n));
  for (std::byte& b : out) b = static_cast<std::byte>(random.below(256));
  return out;
}

class KernelsTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > best_isa()) GTEST_SKIP() << "this processor has no " << isa_name(GetParam());
  }
  const CpuKernels& kernels() const { return cpu_kernels(GetParam()); }
};

// A sum of k products of rounding error 2^-24 each, in lanes: far below this bound.
double dot_tolerance(int64_t k) { return 1e-6 * std::sqrt(static_cast<double>(k)); }

TEST_P(KernelsTest, DotsEqualThePlainSumWithinRounding) {
  for (const int64_t k : {1, 7, 8, 15, 16, 17, 64, 100, 576}) {
    for (const int64_t rows : {1, 3, 4, 8, 9, 13}) {
      for (const int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 13}) {
        const int64_t ldw = k + 3, ldx = k + 5, ldy = rows + 2;
        const auto w = random_floats(rows * ldw, 1), x = random_floats(tokens * ldx, 2);
        std::vector<float> y(static_cast<size_t>(tokens * ldy), -7.0f);
        kernels().dots(w.data(), ldw, rows, x.data(), ldx, tokens, k, y.data(), ldy);
        for (int64_t t = 0; t < tokens; ++t) {
          for (int64_t r = 0; r < rows; ++r) {
            double sum = 0;
            for (int64_t i = 0; i < k; ++i) sum += double{w[r * ldw + i]} * double{x[t * ldx + i]};
            ASSERT_NEAR(y[t * ldy + r], sum, dot_tolerance(k)) << k << " " << rows << " " << tokens;
          }
          for (int64_t r = rows; r < ldy; ++r) ASSERT_EQ(y[t * ldy + r], -7.0f) << "written beyond the rows";
        }
      }
    }
  }
}

// The property that batching, chunking and threads rest on.
TEST_P(KernelsTest, ADotIsTheSameBitForBitWhateverIsComputedBesideIt) {
  for (const int64_t k : {5, 64, 100, 576}) {
    const int64_t rows = 21, tokens = 17;
    const auto w = random_floats(rows * k, 3), x = random_floats(tokens * k, 4);
    std::vector<float> all(static_cast<size_t>(rows * tokens));
    kernels().dots(w.data(), k, rows, x.data(), k, tokens, k, all.data(), rows);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t r = 0; r < rows; ++r) {
        float alone = 0;
        kernels().dots(w.data() + r * k, k, 1, x.data() + t * k, k, 1, k, &alone, 1);
        ASSERT_EQ(alone, all[t * rows + r]) << "row " << r << " token " << t << " k " << k;
      }
    }
  }
}

TEST_P(KernelsTest, RmsNorm) {
  for (const int64_t n : {1, 8, 13, 64, 576}) {
    auto x = random_floats(n, 5);
    const auto weight = random_floats(n, 6);
    double squares = 0;
    for (const float f : x) squares += double{f} * double{f};
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    std::vector<float> y(x.size());
    kernels().rms_norm(x.data(), weight.data(), 1e-5f, n, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = double{x[i]} * factor * double{weight[i]};
      ASSERT_NEAR(y[i], expected, 1e-6 * std::abs(expected) + 1e-9);
    }
    kernels().rms_norm(x.data(), weight.data(), 1e-5f, n, x.data());
    EXPECT_EQ(x, y) << "in place";
  }
}

TEST_P(KernelsTest, SiluTimesUp) {
  for (const int64_t n : {1, 9, 64, 301}) {
    auto gate = random_floats(n, 7, 8.0);
    const auto up = random_floats(n, 8), before = gate;
    kernels().silu_multiply(gate.data(), up.data(), n);
    for (size_t i = 0; i < gate.size(); ++i) {
      const double g = double{before[i]}, expected = g / (1.0 + std::exp(-g)) * double{up[i]};
      ASSERT_NEAR(gate[i], expected, 2e-6 * std::abs(expected) + 1e-9) << before[i];
    }
  }
  float gate[3] = {-200.0f, 200.0f, std::nanf("")};
  const float up[3] = {1.0f, 1.0f, 1.0f};
  kernels().silu_multiply(gate, up, 3);
  EXPECT_NEAR(gate[0], 0.0f, 1e-30);
  EXPECT_EQ(gate[1], 200.0f);
  EXPECT_TRUE(std::isnan(gate[2])) << "a NaN must stay visible";
}

TEST_P(KernelsTest, ExponentialsAndTheirSum) {
  for (const int64_t n : {1, 7, 8, 33, 64}) {
    auto scores = random_floats(n, 9, 10.0);
    const float greatest = kernels().largest(scores.data(), n);
    EXPECT_EQ(greatest, *std::max_element(scores.begin(), scores.end()));
    const auto before = scores;
    const float sum = kernels().exponentials(scores.data(), greatest, n);
    double expected_sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double expected = std::exp(double{before[i] - greatest});
      expected_sum += expected;
      ASSERT_NEAR(scores[i], expected, 4e-7 * expected + 1e-37);
    }
    EXPECT_NEAR(sum, expected_sum, 1e-6 * expected_sum);
  }
}

TEST_P(KernelsTest, WeightedSumAndAdd) {
  for (const int64_t width : {1, 8, 20, 64, 80, 128, 133}) {
    const int64_t rows = 11;
    const auto weights = random_floats(rows, 10), values = random_floats(rows * width, 11);
    auto sum = random_floats(width, 12);
    const auto before = sum;
    kernels().weighted_sum(sum.data(), 0.5f, weights.data(), values.data(), rows, width);
    for (int64_t i = 0; i < width; ++i) {
      double expected = 0.5 * double{before[i]};
      for (int64_t r = 0; r < rows; ++r) expected += double{weights[r]} * double{values[r * width + i]};
      ASSERT_NEAR(sum[i], expected, 1e-5);
    }
    auto y = before;
    kernels().add(y.data(), values.data(), width);
    for (int64_t i = 0; i < width; ++i) ASSERT_EQ(y[i], before[i] + values[i]);
  }
}

// Dequantisation is exact: every instruction set gives the bits that the formats define.
TEST_P(KernelsTest, DequantisedRowsAreExact) {
  const int64_t n = 96;
  auto source = random_bytes(4 * n + 1, 13);
  const std::byte* unaligned = source.data() + 1;
  std::vector<float> out(n);
  const auto half_at = [&](int64_t offset) {
    uint16_t bits;
    std::memcpy(&bits, unaligned + offset, 2);
    return bits;
  };
  const auto expect = [&](DType type, const std::function<float(int64_t)>& value) {
    kernels().dequantise_row(type, unaligned, out.data(), n);
    for (int64_t i = 0; i < n; ++i) {
      const float expected = value(i);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(out[i])) << dtype_name(type) << " " << i;
      } else {
        ASSERT_EQ(out[i], expected) << dtype_name(type) << " " << i;
      }
    }
  };
  expect(DType::kF16, [&](int64_t i) { return f16_to_f32(half_at(2 * i)); });
  expect(DType::kBF16, [&](int64_t i) { return bf16_to_f32(half_at(2 * i)); });
  expect(DType::kF8E4M3, [&](int64_t i) { return e4m3_to_f32(static_cast<uint8_t>(unaligned[i])); });
  expect(DType::kF32, [&](int64_t i) {
    float f;
    std::memcpy(&f, unaligned + 4 * i, 4);
    return f;
  });
  // Scales that are ordinary numbers: random bits would often be infinite.
  for (int64_t block = 0; block < n / 32; ++block) {
    const uint16_t scale = f32_to_f16(0.01f * static_cast<float>(block + 1));
    std::memcpy(source.data() + 1 + 34 * block, &scale, 2);
  }
  expect(DType::kQ8_0, [&](int64_t i) {
    const int64_t block = i / 32;
    return f16_to_f32(half_at(34 * block)) *
           static_cast<float>(static_cast<int8_t>(unaligned[34 * block + 2 + i % 32]));
  });
  for (int64_t block = 0; block < n / 32; ++block) {
    const uint16_t scale = f32_to_f16(0.01f * static_cast<float>(block + 1)), minimum = f32_to_f16(-0.3f);
    std::memcpy(source.data() + 1 + 20 * block, &scale, 2);
    std::memcpy(source.data() + 3 + 20 * block, &minimum, 2);
  }
  expect(DType::kQ4_1, [&](int64_t i) {
    const int64_t block = i / 32, digit = i % 32;
    const auto both = static_cast<unsigned>(unaligned[20 * block + 4 + digit % 16]);
    const unsigned q = digit < 16 ? both & 15u : both >> 4;
    const float product = static_cast<float>(q) * f16_to_f32(half_at(20 * block));
    return product + f16_to_f32(half_at(20 * block + 2));
  });
}

INSTANTIATE_TEST_SUITE_P(AllIsas, KernelsTest, ::testing::Values(Isa::kGeneric, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& isa) { return isa_name(isa.param); });

// ---- conversions
// ----------------------------------------------------------------------------------------------

TEST(FloatConvertTest, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto h = static_cast<uint16_t>(bits);
    if (!std::isnan(f16_to_f32(h))) {
      ASSERT_EQ(f32_to_f16(f16_to_f32(h)), h);
    }
    if (!std::isnan(bf16_to_f32(h))) {
      ASSERT_EQ(f32_to_bf16(bf16_to_f32(h)), h);
    }
  }
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(e4m3_to_f32(f32_to_e4m3(std::nanf("")))));
}

TEST(FloatConvertTest, E4m3SurvivesTheRoundTripAndSaturates) {
  for (uint32_t bits = 0; bits < 0x100; ++bits) {
    const auto b = static_cast<uint8_t>(bits);
    if (!std::isnan(e4m3_to_f32(b))) {
      ASSERT_EQ(f32_to_e4m3(e4m3_to_f32(b)), b) << bits;
    }
  }
  EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(1e9f)), 448.0f);
  EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(-460.0f)), -448.0f);
  EXPECT_EQ(e4m3_to_f32(0x01), 0x1p-9f);
}

// Between two neighbours the nearer one is taken, and half-way the one with the even last bit.
template <typename Narrow, typename Encode, typename Decode>
void expect_nearest_even(Narrow greatest_finite, Encode encode, Decode decode) {
  for (uint32_t bits = 0; bits < greatest_finite; ++bits) {
    const auto low = static_cast<Narrow>(bits), high = static_cast<Narrow>(bits + 1);
    const double a = double{decode(low)}, b = double{decode(high)};
    const auto middle = static_cast<float>((a + b) / 2);
    ASSERT_EQ(encode(middle), low % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(encode(std::nextafter(middle, 0.0f)), low) << bits;
    ASSERT_EQ(encode(std::nextafter(middle, INFINITY)), high) << bits;
    ASSERT_EQ(decode(encode(-middle)), -decode(encode(middle))) << bits;
  }
}

TEST(FloatConvertTest, RoundsToNearestEven) {
  expect_nearest_even<uint16_t>(
      0x7bff, [](float f) { return f32_to_f16(f); }, [](uint16_t h) { return f16_to_f32(h); });
  // The smallest bfloat16 neighbours are float32 subnormals, exact all the same.
  expect_nearest_even<uint16_t>(
      0x7f7e, [](float f) { return f32_to_bf16(f); }, [](uint16_t h) { return bf16_to_f32(h); });
  expect_nearest_even<uint8_t>(
      0x7e, [](float f) { return f32_to_e4m3(f); }, [](uint8_t b) { return e4m3_to_f32(b); });
}

}  // namespace
}  // namespace vllm
