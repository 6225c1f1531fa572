#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace vllm {
namespace {

// The expected words come from another implementation of the published algorithms (in Python, which first
// reproduced xoshiro256++'s own test vector 41943041, 58720359, 3588806011781223 for the state 1, 2, 3, 4).
TEST(Random, WordsAreThoseOfTheAlgorithm) {
  const struct {
    uint64_t seed, stream;
    uint64_t words[3];
  } cases[] = {
      {42, 0, {0xd0764d4f4476689f, 0x519e4174576f3791, 0xfbe07cfb0c24ed8c}},
      {42, 1, {0x4d508bae6104bff7, 0x534b2b63a88304f1, 0x3ac1b4daf5b49882}},
      {0, 0, {0x53175d61490b23df, 0x61da6f3dc380d507, 0x5c0fdf91ec9a7bfc}},
  };
  for (const auto& c : cases) {
    Random random(c.seed, c.stream);
    for (const uint64_t word : c.words) EXPECT_EQ(random.next(), word);
  }
}

TEST(Random, LogAndExpAgreeWithTheLibrary) {
  Random random(3);
  for (int i = 0; i < 100'000; ++i) {
    const double x = std::ldexp(random.uniform_positive(), static_cast<int>(random.between(-1000, 1000)));
    const double expected = std::log(x);
    EXPECT_NEAR(portable_log(x), expected, std::abs(expected) * 4.5e-16) << x;
    const double y = (random.uniform() - 0.5) * 1400;
    EXPECT_NEAR(portable_exp(y) / std::exp(y), 1, 4.5e-16) << y;
  }
  EXPECT_EQ(portable_log(1), 0);
  EXPECT_EQ(portable_exp(0), 1);
  EXPECT_EQ(portable_exp(1000), std::numeric_limits<double>::infinity());
  EXPECT_EQ(portable_exp(-1000), 0);
}

TEST(Random, BelowIsUniformAndCoversTheRange) {
  Random random(7);
  std::vector<int> counts(6);
  for (int i = 0; i < 60'000; ++i) ++counts.at(random.below(6));
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 400);
  EXPECT_EQ(random.below(1), 0u);
  std::set<int64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.between(-2, 2));
  EXPECT_EQ(seen, (std::set<int64_t>{-2, -1, 0, 1, 2}));
  EXPECT_EQ(random.between(5, 5), 5);
  random.between(INT64_MIN, INT64_MAX);
}

TEST(Random, UniformStaysInItsInterval) {
  Random random(9);
  double low = 1, high = 0, sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double u = random.uniform();
    low = std::min(low, u);
    high = std::max(high, u);
    sum += u;
    const double p = random.uniform_positive();
    ASSERT_TRUE(p > 0 && p <= 1);
  }
  EXPECT_GE(low, 0);
  EXPECT_LT(high, 1);
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
}

TEST(Random, MomentsOfTheTransforms) {
  constexpr int kDraws = 200'000;
  const auto moments = [](auto draw) {
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = draw();
      sum += x;
      squares += x * x;
    }
    const double mean = sum / kDraws;
    return std::pair{mean, squares / kDraws - mean * mean};
  };
  Random random(11);
  const auto [normal_mean, normal_variance] = moments([&] { return random.normal(); });
  EXPECT_NEAR(normal_mean, 0, 0.01);
  EXPECT_NEAR(normal_variance, 1, 0.02);
  // Mean and variance of Gamma(shape, 1) are both the shape.
  for (const double shape : {0.3, 1.0, 2.5, 30.0}) {
    const auto [mean, variance] = moments([&] { return random.gamma(shape); });
    EXPECT_NEAR(mean, shape, 0.02 * shape + 0.005) << shape;
    EXPECT_NEAR(variance, shape, 0.05 * shape + 0.01) << shape;
  }
}

// The same formulas in Python, with its own log and exp: equal but for the last bits.
TEST(Random, TransformsAgreeWithAnotherImplementation) {
  {
    Random random(42);
    for (const double expected : {0x1.f679d98b6ab7bp-1, -0x1.21a610c887574p-1, 0x1.571f94d19c30ap+0})
      EXPECT_NEAR(random.normal() / expected, 1, 4e-15);
  }
  {
    Random random(42);
    for (const double expected : {0x1.a4b34cba2d5cap-3, 0x1.24a3dcafc0e0bp+0, 0x1.0a06a9fa9eb62p-6})
      EXPECT_NEAR(random.gamma(1) / expected, 1, 4e-15);
  }
  {
    Random random(42);
    for (const double expected : {0x1.b57542535da59p+0, 0x1.2a32e8049936bp-3, 0x1.0460af0f7f024p-2})
      EXPECT_NEAR(random.gamma(0.7) / expected, 1, 4e-15);
  }
  {
    Random random(42);
    for (const double expected : {0x1.78a7a2a827d10p+2, 0x1.57e19f867e0d4p+1, 0x1.b83ad959435aep+2})
      EXPECT_NEAR(random.gamma(4) / expected, 1, 4e-15);
  }
}

}  // namespace
}  // namespace vllm
