#include "bench/send_lag.h"
#include "formats/json.h"

namespace vllm {
namespace {

// n requests, one every `gap_ns`, each late by what `lag_ns` says.
std::vector<IssueTime> schedule(int n, TimeNs gap_ns, const std::function<TimeNs(int)>& lag_ns) {
  std::vector<IssueTime> out;
  for (int i = 0; i < n; ++i) out.push_back({i * gap_ns, i * gap_ns + lag_ns(i)});
  return out;
}

TEST(SendLagTest, TheLimitIsOneMillisecondAndOnePercentOfTheMeanGap) {
  const SendLag lag = assess_send_lag(schedule(101, 200 * kNsPerMs, [](int) { return 2 * kNsPerMs; }));
  EXPECT_DOUBLE_EQ(lag.mean_gap_ms, 200.0);
  EXPECT_DOUBLE_EQ(lag.limit_ms, 3.0);
  EXPECT_DOUBLE_EQ(lag.lag_ms.p99, 2.0);
  EXPECT_FALSE(lag.client_limited);
  ASSERT_TRUE(lag.offered_rate.has_value());
  EXPECT_DOUBLE_EQ(*lag.offered_rate, 5.0);
  EXPECT_DOUBLE_EQ(*lag.achieved_rate, 5.0);
}

TEST(SendLagTest, AboveTheLimitTheRunIsClientLimited) {
  EXPECT_TRUE(assess_send_lag(schedule(101, 0, [](int) { return kNsPerMs + 1; })).client_limited);
  EXPECT_FALSE(assess_send_lag(schedule(101, 0, [](int) { return kNsPerMs; })).client_limited);
}

TEST(SendLagTest, TheVerdictIsThatOfP99NotOfTheWorst) {
  // 10,000 requests: 50 of them (0.5 %) are very late, then 200 (2 %).
  const auto some_late = [](int every) {
    return schedule(10000, kNsPerMs, [every](int i) { return i % every == 0 ? 500 * kNsPerMs : TimeNs{0}; });
  };
  EXPECT_FALSE(assess_send_lag(some_late(200)).client_limited);
  EXPECT_TRUE(assess_send_lag(some_late(50)).client_limited);
}

TEST(SendLagTest, RatesNeedASpan) {
  EXPECT_FALSE(assess_send_lag(schedule(1, 0, [](int) { return 0; })).offered_rate.has_value());
  const SendLag at_once = assess_send_lag(schedule(10, 0, [](int i) { return i * kNsPerMs; }));
  EXPECT_FALSE(at_once.offered_rate.has_value());
  ASSERT_TRUE(at_once.achieved_rate.has_value());
  EXPECT_DOUBLE_EQ(*at_once.achieved_rate, 1000.0);
  EXPECT_EQ(assess_send_lag({}).lag_ms.count, 0);
}

TEST(SendLagTest, JsonNamesEveryFigure) {
  const Json json = send_lag_json(assess_send_lag(schedule(3, kNsPerSecond, [](int) { return kNsPerMs; })));
  EXPECT_EQ(json.dump(),
            R"({"count":3,"mean_ms":1.0,"p50_ms":1.0,"p90_ms":1.0,"p95_ms":1.0,"p99_ms":1.0,"max_ms":1.0,)"
            R"("mean_gap_ms":1000.0,"limit_ms":11.0})");
}

}  // namespace
}  // namespace vllm
