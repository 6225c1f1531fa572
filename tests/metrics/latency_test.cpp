#include "metrics/latency.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "formats/recording.h"
#include "support/reference.h"

namespace vllm {
namespace {

TEST(RequestLatency, ByHand) {
  // Arrives at 10, first of five tokens at 10.25, last at 10.65.
  const RequestLatency l = request_latency(10, 10.25, 10.65, 5);
  EXPECT_NEAR(l.ttft_ms, 250, 1e-9);
  ASSERT_TRUE(l.tpot_ms);
  EXPECT_NEAR(*l.tpot_ms, 100, 1e-9);
  EXPECT_NEAR(l.latency_ms, 650, 1e-9);
}

TEST(RequestLatency, OneTokenHasNoTpot) {
  EXPECT_FALSE(request_latency(0, 1, 1, 1).tpot_ms);
  EXPECT_FALSE(request_latency(0, 1, 1, 0).tpot_ms);
  EXPECT_NEAR(*request_latency(0, 1, 2, 2).tpot_ms, 1000, 1e-9);
}

TEST(Percentile, ByHand) {
  const std::vector<double> v = {1, 2, 4, 8};
  EXPECT_EQ(percentile(v, 0), 1);
  EXPECT_EQ(percentile(v, 100), 8);
  EXPECT_DOUBLE_EQ(percentile(v, 50), 3);            // index 1.5
  EXPECT_DOUBLE_EQ(percentile(v, 90), 4 + 0.7 * 4);  // index 2.7
  EXPECT_EQ(percentile(std::vector<double>{5}, 99), 5);
  EXPECT_TRUE(std::isnan(percentile({}, 50)));
}

// Made with numpy 2.2.6: np.percentile, np.mean, np.std of this list.
TEST(Summary, AgreesWithNumpy) {
  const std::vector<double> v = {3.5, -1.25, 7, 0.1, 2.2, 9.75, 4.4, 4.4, 100.5, 0.003};
  std::vector<double> sorted = v;
  std::sort(sorted.begin(), sorted.end());
  const std::pair<double, double> percentiles[] = {{0, -1.25},
                                                   {10, -0.12229999999999996},
                                                   {25, 0.625},
                                                   {50, 3.95},
                                                   {90, 18.824999999999967},
                                                   {95, 59.6624999999999},
                                                   {99, 92.33250000000001},
                                                   {99.9, 99.68325000000013},
                                                   {100, 100.5}};
  for (const auto& [q, expected] : percentiles) EXPECT_NEAR(percentile(sorted, q), expected, 1e-12) << q;
  const Summary s = summarise(v);
  EXPECT_EQ(s.count, 10);
  EXPECT_NEAR(s.mean, 13.060299999999998, 1e-12);
  EXPECT_NEAR(s.std, 29.31890285822442, 1e-12);
  EXPECT_NEAR(s.median, 3.95, 1e-12);
  EXPECT_EQ(s.min, -1.25);
  EXPECT_EQ(s.max, 100.5);
  EXPECT_EQ(s.p90, percentile(sorted, 90));
  EXPECT_EQ(s.p95, percentile(sorted, 95));
  EXPECT_EQ(s.p99, percentile(sorted, 99));
}

TEST(Summary, OfNothingAndOfOneValue) {
  const Summary none = summarise({});
  EXPECT_EQ(none.count, 0);
  for (const double v :
       {none.mean, none.median, none.p90, none.p95, none.p99, none.min, none.max, none.std}) {
    EXPECT_TRUE(std::isnan(v));
  }
  const Summary one = summarise({7});
  EXPECT_EQ(one.count, 1);
  for (const double v : {one.mean, one.median, one.p90, one.p95, one.p99, one.min, one.max}) EXPECT_EQ(v, 7);
  EXPECT_EQ(one.std, 0);
}

TEST(Summary, KeepsItsDigitsFarFromZero) {
  // Variance 1 around 1e9: the difference of squares would have lost it.
  EXPECT_NEAR(summarise({1e9 - 1, 1e9 + 1}).std, 1, 1e-9);
}

// The column `vLLM` of the reference comparisons, which were made with the time of queueing as arrival.
TEST(LatencyReference, RecordingsGiveThePublishedStatistics) {
  for (const char* name : {"Llama-3.1-8B", "Qwen3-32B"}) {
    const auto dir = testing::shared_path(fmt::format("reference/examples/RTXPRO6000/{}", name));
    if (!dir) GTEST_SKIP() << "the reference recordings are not beside the checkout";
    const auto records = read_requests_jsonl(*dir + "/vllm/requests.jsonl");
    ASSERT_TRUE(records) << records.status().message();
    std::vector<double> ttft, tpot, latency;
    for (const RequestRecord& r : *records) {
      const auto l = request_latency(*r.queued_ts_s, *r.first_token_ts_s, *r.last_token_ts_s, r.output_toks);
      ttft.push_back(l.ttft_ms);
      if (l.tpot_ms) tpot.push_back(*l.tpot_ms);
      latency.push_back(l.latency_ms);
    }
    const std::map<std::string, Summary> ours = {
        {"TTFT", summarise(ttft)}, {"TPOT", summarise(tpot)}, {"Latency", summarise(latency)}};
    std::ifstream summary(*dir + "/validation/summary.txt");
    std::string line;
    int compared = 0;
    while (std::getline(summary, line)) {
      std::istringstream fields(line);
      std::string metric, statistic, published;
      fields >> metric >> statistic >> published;
      const auto it = ours.find(metric);
      if (it == ours.end()) continue;
      const Summary& s = it->second;
      const std::map<std::string, double> values = {
          {"Mean", s.mean}, {"Median", s.median}, {"P90", s.p90}, {"P95", s.p95}, {"P99", s.p99}};
      EXPECT_EQ(fmt::format("{:.1f}", values.at(statistic)), published) << name << ": " << line;
      ++compared;
    }
    EXPECT_EQ(compared, 15);
  }
}

}  // namespace
}  // namespace vllm
