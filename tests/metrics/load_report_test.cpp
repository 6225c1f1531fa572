#include "metrics/load_report.h"

#include "formats/json.h"

namespace vllm {
namespace {

TEST(PeakConcurrency, CountsOverlapsAndAnEndBeforeABeginningOfTheSameInstant) {
  EXPECT_EQ(peak_concurrency({}), 0);
  EXPECT_EQ(peak_concurrency({{0, 10}, {10, 20}}), 1);
  EXPECT_EQ(peak_concurrency({{5, 9}, {0, 10}, {8, 12}, {11, 13}}), 3);
}

TEST(TokensBySecond, PeakIsTheFullestWholeSecond) {
  TokensBySecond seconds;
  EXPECT_EQ(seconds.peak(), 0);
  // Three tokens within one second's length, but two on this side of the border and one on the other.
  for (const TimeNs at_ns : {kNsPerSecond - 2, kNsPerSecond - 1, kNsPerSecond}) seconds.add(at_ns);
  EXPECT_EQ(seconds.peak(), 2);
}

TEST(PercentilePlace, LiesBetweenTwoValues) {
  const auto [below, part] = percentile_place(5, 90);
  EXPECT_EQ(below, 3u);
  EXPECT_NEAR(part, 0.6, 1e-12);
  EXPECT_EQ(percentile_place(5, 100).below, 4u);
  EXPECT_EQ(percentile_place(1, 50).below, 0u);
}

TEST(LoadReport, RatesAndStatisticsUnderTheKnownKeys) {
  LoadReport report;
  report.endpoint_type = "simulator";
  report.backend = "b";
  report.model_id = "m";
  report.completed = 4, report.input_tokens = 100, report.output_tokens = 20, report.duration_s = 2;
  report.ttft_ms = summarise({1, 2, 3, 4});
  const Json json = load_report_json(report);
  EXPECT_EQ(json["request_throughput"], 2.0);
  EXPECT_EQ(json["output_throughput"], 10.0);
  EXPECT_EQ(json["total_token_throughput"], 60.0);
  EXPECT_EQ(json["mean_ttft_ms"], 2.5);
  EXPECT_EQ(json["p50_ttft_ms"], json["median_ttft_ms"]);
  EXPECT_TRUE(json["mean_itl_ms"].is_null()) << "no values";
  EXPECT_TRUE(json["max_output_tokens_per_s"].is_null()) << "not kept";
}

TEST(LoadReport, WithoutADurationThereAreNoRates) {
  EXPECT_TRUE(load_report_json({})["request_throughput"].is_null());
}

}  // namespace
}  // namespace vllm
