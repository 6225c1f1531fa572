#include "sim/request_ledger.h"

#include "base/random.h"
#include "metrics/latency.h"
#include "sim/request_router.h"

namespace vllm {
namespace {

TEST(ItlCounts, GivesTheStatisticsOfTheValues) {
  Random random(3);
  for (int trial = 0; trial < 200; ++trial) {
    ItlCounts counts;
    std::vector<double> values;
    const int64_t n = random.between(1, 60);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t ns = random.between(0, 8);
      counts.add(ns);
      values.push_back(static_cast<double>(ns));
    }
    const Summary summary = summarise(values);
    EXPECT_EQ(counts.count(), n);
    EXPECT_NEAR(counts.mean_ns(), summary.mean, 1e-9);
    EXPECT_NEAR(counts.percentile_ns(50), summary.median, 1e-9);
    EXPECT_NEAR(counts.percentile_ns(99), summary.p99, 1e-9);
  }
}

TEST(RequestRouter, TheLeastLoadedWinsAndEqualOnesTakeTurns) {
  RequestRouter router(RequestRouting::kLoad, 3);
  std::vector<InstanceLoad> loads = {{0, 0, 128}, {0, 0, 128}, {0, 0, 128}};
  const auto load = [&](size_t i) { return loads[i]; };
  EXPECT_EQ(router.pick(load), 0u);
  EXPECT_EQ(router.pick(load), 1u);
  EXPECT_EQ(router.pick(load), 2u);
  loads[0] = {1, 0, 128};  // one that waits counts as four that run
  loads[1] = {0, 3, 128};
  loads[2] = {0, 6, 256};
  EXPECT_EQ(router.pick(load), 1u);  // 4/128, 3/128, 6/256: the scan begins at 0
  loads[2] = {0, 5, 256};
  EXPECT_EQ(router.pick(load), 2u);
}

TEST(RequestRouter, InTurnAndAtRandom) {
  RequestRouter turn(RequestRouting::kRoundRobin, 2);
  EXPECT_EQ(turn.pick({}), 0u);
  EXPECT_EQ(turn.pick({}), 1u);
  EXPECT_EQ(turn.pick({}), 0u);
  RequestRouter random(RequestRouting::kRandom, 10);
  PythonRandom python(42);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(random.pick({}), python.below(10));
}

}  // namespace
}  // namespace vllm
