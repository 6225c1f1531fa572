#include "metrics/comparison.h"

#include <array>
#include <cmath>

namespace vllm {
namespace {

TEST(Comparison, DifferenceIsRelativeToTheRealSide) {
  EXPECT_DOUBLE_EQ(difference_pct(200, 190), -5);
  EXPECT_DOUBLE_EQ(difference_pct(200, 210), 5);
  EXPECT_TRUE(std::isnan(difference_pct(0, 1)));
}

TEST(Comparison, KolmogorovSmirnovByHand) {
  // F_a steps by a quarter at 1, 2, 3, 4; F_b by a half at 2 and 5. Distances behind 1, 2, 3, 4: 1/4, 0, 1/4,
  // 1/2.
  EXPECT_DOUBLE_EQ(ks_distance({4, 2, 3, 1}, {5, 2}), 0.5);
  EXPECT_DOUBLE_EQ(ks_distance({1, 2}, {2, 1}), 0);
  EXPECT_DOUBLE_EQ(ks_distance({1, 2}, {3, 4, 5}), 1);
  EXPECT_DOUBLE_EQ(ks_distance({1, 1, 1}, {1}), 0);
  EXPECT_TRUE(std::isnan(ks_distance({}, {1})));
}

TEST(Comparison, SpreadIsThatOfTheSample) {
  const std::array<double, 3> values = {90, 100, 110};
  const Spread s = spread(values);
  EXPECT_EQ(s.count, 3);
  EXPECT_DOUBLE_EQ(s.mean, 100);
  EXPECT_DOUBLE_EQ(s.sd, 10);  // sqrt((100 + 0 + 100) / 2)
  EXPECT_DOUBLE_EQ(s.sd_pct, 10);
  const std::array<double, 1> one = {5};
  EXPECT_DOUBLE_EQ(spread(one).mean, 5);
  EXPECT_TRUE(std::isnan(spread(one).sd));
  EXPECT_TRUE(std::isnan(spread({}).mean));
}

TEST(Comparison, MatchedErrorByHand) {
  const std::array<double, 3> real = {100, 200, 0};
  const std::array<double, 3> sim = {110, 180, 3};
  const MatchedError e = matched_error(real, sim);
  EXPECT_EQ(e.count, 3);
  EXPECT_DOUBLE_EQ(e.mean_abs, 11);      // (10 + 20 + 3) / 3
  EXPECT_DOUBLE_EQ(e.bias, -7.0 / 3);    // (10 - 20 + 3) / 3
  EXPECT_DOUBLE_EQ(e.mean_abs_pct, 10);  // (10 % + 10 %) / 2: there is no share of nothing
  EXPECT_TRUE(std::isnan(matched_error({}, {}).mean_abs));
}

}  // namespace
}  // namespace vllm
