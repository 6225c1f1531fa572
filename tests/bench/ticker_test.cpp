#include "bench/ticker.h"

namespace vllm {
namespace {

CoreCounters counters(int64_t prompt, int64_t cached, int64_t generated, int64_t preempted = 0) {
  CoreCounters c;
  c.prompt_tokens = prompt;
  c.prompt_tokens_cached = cached;
  c.prompt_tokens_computed = prompt - cached;
  c.generation_tokens = generated;
  c.preemptions = preempted;
  return c;
}

CoreCounters state(int32_t running, int32_t waiting, int64_t used, int64_t usable) {
  CoreCounters c;
  c.running = running;
  c.waiting = waiting;
  c.used_blocks = used;
  c.usable_blocks = usable;
  return c;
}

TEST(TickerTest, RowsStandAtTheEndOfTheirTickAndSumToTheCounters) {
  Ticker ticker(kNsPerSecond);
  ticker.set_start_ns(100);
  ticker.sample(0, 100, counters(10, 4, 1));
  ticker.sample(0, 100 + kNsPerSecond - 1, counters(30, 4, 3, 1));
  ticker.sample(0, 100 + kNsPerSecond, counters(30, 4, 10, 3));
  const auto rows = ticker.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].t_s, 1.0);
  EXPECT_EQ(rows[0].prompt_throughput, 30.0);
  EXPECT_EQ(rows[0].prompt_compute_throughput, 26.0);
  EXPECT_EQ(rows[0].prompt_cached_throughput, 4.0);
  EXPECT_EQ(rows[0].gen_throughput, 3.0);
  EXPECT_EQ(rows[0].preempted, 1);
  EXPECT_EQ(rows[1].t_s, 2.0);
  EXPECT_EQ(rows[1].prompt_throughput, 0.0);
  EXPECT_EQ(rows[1].gen_throughput, 7.0);
  EXPECT_EQ(rows[1].preempted, 2);
}

TEST(TickerTest, ATickWithoutASampleGivesNoRow) {
  Ticker ticker(kNsPerSecond);
  ticker.sample(0, 0, counters(1, 0, 1));
  ticker.sample(0, 5 * kNsPerSecond, counters(1, 0, 2));
  const auto rows = ticker.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].t_s, 6.0);
}

TEST(TickerTest, ThroughputIsPerSecondWhateverTheTick) {
  Ticker ticker(250 * kNsPerMs);
  ticker.sample(0, 0, counters(5, 0, 2));
  EXPECT_EQ(ticker.rows()[0].prompt_throughput, 20.0);
  EXPECT_EQ(ticker.rows()[0].t_s, 0.25);
}

TEST(TickerTest, TheLastSampleOfEachEngineCountsAndUseIsTheirMean) {
  Ticker ticker(kNsPerSecond);
  ticker.sample(0, 1, state(9, 9, 99, 100));
  ticker.sample(0, 2, state(3, 1, 50, 100));
  ticker.sample(1, 3, state(4, 0, 10, 40));
  const auto rows = ticker.rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].running, 7);
  EXPECT_EQ(rows[0].waiting, 1);
  EXPECT_DOUBLE_EQ(rows[0].kv_cache_pct, 37.5);
}

TEST(TickerTest, AnEngineWithoutASampleInTheTickContributesNothing) {
  Ticker ticker(kNsPerSecond);
  ticker.sample(0, 1, state(3, 0, 50, 100));
  ticker.sample(1, 1, state(5, 0, 0, 100));
  ticker.sample(1, kNsPerSecond + 1, state(2, 0, 20, 100));
  EXPECT_EQ(ticker.rows()[1].running, 2);
  EXPECT_DOUBLE_EQ(ticker.rows()[1].kv_cache_pct, 20.0);
}

TEST(TickerTest, SamplesBeforeTheStartFallIntoTheFirstTick) {
  Ticker ticker(kNsPerSecond);
  ticker.set_start_ns(10 * kNsPerSecond);
  ticker.sample(0, 3 * kNsPerSecond, counters(1, 0, 1));
  ASSERT_EQ(ticker.rows().size(), 1u);
  EXPECT_EQ(ticker.rows()[0].t_s, 1.0);
}

}  // namespace
}  // namespace vllm
