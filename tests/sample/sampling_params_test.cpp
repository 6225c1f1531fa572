#include "sample/sampling_params.h"

#include <cmath>

namespace vllm {
namespace {

SamplingParams with(void (*change)(SamplingParams&)) {
  SamplingParams params;
  params.temperature = 1.0;
  change(params);
  return params;
}

TEST(NormaliseTest, TheLowestTemperaturesAreGreedyAndMakeTheRestMeaningless) {
  SamplingParams params{.temperature = 9e-6, .top_p = 0.5, .top_k = 3, .min_p = 0.1, .seed = 4};
  const SamplingParams out = normalise(params).value();
  EXPECT_EQ(out.temperature, 0.0);
  EXPECT_EQ(out.top_p, 1.0);
  EXPECT_EQ(out.top_k, 0);
  EXPECT_EQ(out.min_p, 0.0);
  EXPECT_EQ(out.seed, 4);
}

TEST(NormaliseTest, SmallTemperaturesAreRaised) {
  EXPECT_EQ(normalise(with([](SamplingParams& p) { p.temperature = 1e-5; }))->temperature, 0.01);
  EXPECT_EQ(normalise(with([](SamplingParams& p) { p.temperature = 0.0099; }))->temperature, 0.01);
  EXPECT_EQ(normalise(with([](SamplingParams& p) { p.temperature = 0.01; }))->temperature, 0.01);
  EXPECT_EQ(normalise(with([](SamplingParams& p) { p.temperature = 0.7; }))->temperature, 0.7);
}

TEST(NormaliseTest, OffHasOneSpelling) {
  EXPECT_EQ(normalise(with([](SamplingParams& p) { p.top_k = -1; }))->top_k, 0);
  EXPECT_EQ(normalise(with([](SamplingParams& p) { p.seed = -1; }))->seed, std::nullopt);
  EXPECT_EQ(normalise(with([](SamplingParams& p) { p.seed = -2; }))->seed, -2);
}

TEST(NormaliseTest, RangesAreInclusiveWhereTheySaySo) {
  EXPECT_TRUE(normalise(with([](SamplingParams& p) { p.temperature = 2; })).is_ok());
  EXPECT_TRUE(normalise(with([](SamplingParams& p) { p.top_p = 1; })).is_ok());
  EXPECT_TRUE(normalise(with([](SamplingParams& p) { p.top_p = 1e-9; })).is_ok());
  EXPECT_TRUE(normalise(with([](SamplingParams& p) { p.min_p = 1; })).is_ok());
  EXPECT_TRUE(normalise(with([](SamplingParams& p) { p.top_k = 1 << 30; })).is_ok());
}

void expect_refused(const SamplingParams& params, const std::string& message) {
  const auto result = normalise(params);
  ASSERT_FALSE(result.is_ok()) << message;
  EXPECT_EQ(result.status().code(), StatusCode::kUsage);
  EXPECT_EQ(result.status().message(), message);
}

TEST(NormaliseTest, ErrorsNameTheFieldTheValueAndTheRange) {
  const std::string temperature = " is not accepted: it must be a number from 0 (greedy) to 2";
  expect_refused(with([](SamplingParams& p) { p.temperature = -0.5; }), "temperature -0.5" + temperature);
  expect_refused(with([](SamplingParams& p) { p.temperature = 2.5; }), "temperature 2.5" + temperature);
  expect_refused(with([](SamplingParams& p) { p.temperature = std::nan(""); }),
                 "temperature nan" + temperature);
  expect_refused(with([](SamplingParams& p) { p.temperature = INFINITY; }), "temperature inf" + temperature);
  const std::string top_p = " is not accepted: it must be greater than 0 and at most 1";
  expect_refused(with([](SamplingParams& p) { p.top_p = 0; }), "top_p 0" + top_p);
  expect_refused(with([](SamplingParams& p) { p.top_p = 1.5; }), "top_p 1.5" + top_p);
  expect_refused(with([](SamplingParams& p) { p.top_p = std::nan(""); }), "top_p nan" + top_p);
  expect_refused(with([](SamplingParams& p) { p.top_k = -2; }),
                 "top_k -2 is not accepted: it must be at least 1, or 0 or -1 for all tokens");
  const std::string min_p = " is not accepted: it must be a number from 0 to 1";
  expect_refused(with([](SamplingParams& p) { p.min_p = -0.1; }), "min_p -0.1" + min_p);
  expect_refused(with([](SamplingParams& p) { p.min_p = std::nan(""); }), "min_p nan" + min_p);
}

// A greedy request is judged by the same ranges: a wrong value is wrong whether it would be used or not.
TEST(NormaliseTest, GreedyDoesNotHideAWrongValue) {
  SamplingParams params;
  params.top_p = 2;
  EXPECT_FALSE(normalise(params).is_ok());
}

}  // namespace
}  // namespace vllm
