#include "bench/load_summary.h"

#include "bench/fake_target.h"
#include "formats/json.h"

namespace vllm {
namespace {

using testing::make_input;

CallTrace call(TimeNs due_ns, TimeNs issued_ns, std::vector<TimeNs> tokens_ns) {
  CallTrace trace;
  trace.issued = trace.finished = trace.ended = true;
  trace.due_ns = due_ns;
  trace.issued_ns = issued_ns;
  trace.times.queued_ns = trace.times.scheduled_ns = issued_ns;
  trace.times.first_token_ns = tokens_ns.front();
  trace.times.last_token_ns = trace.times.finished_ns = tokens_ns.back();
  trace.token_ns = std::move(tokens_ns);
  return trace;
}

constexpr TimeNs ms(int64_t n) { return n * kNsPerMs; }

TEST(LoadSummaryTest, LatencyCountsFromTheInstantAtWhichARequestWasDue) {
  const ReplayInput input = make_input({0});
  const LoadSummary s = summarise_load(input, {call(ms(0), ms(40), {ms(100), ms(150), ms(300)})});
  EXPECT_DOUBLE_EQ(s.ttft_ms.mean, 100.0);
  EXPECT_DOUBLE_EQ(s.e2el_ms.mean, 300.0);
  EXPECT_DOUBLE_EQ(s.tpot_ms.mean, 100.0);
  EXPECT_EQ(s.itl_ms.count, 2);
  EXPECT_DOUBLE_EQ(s.itl_ms.max, 150.0);
  EXPECT_DOUBLE_EQ(s.send_lag.lag_ms.max, 40.0);
}

TEST(LoadSummaryTest, ARequestOfOneTokenHasNoTpot) {
  const ReplayInput input = make_input({0, 0});
  const LoadSummary s = summarise_load(input, {call(0, 0, {ms(10)}), call(0, 0, {ms(10), ms(30)})});
  EXPECT_EQ(s.ttft_ms.count, 2);
  EXPECT_EQ(s.tpot_ms.count, 1);
}

TEST(LoadSummaryTest, DurationRunsFromTheFirstIssueToTheLastCompletion) {
  const ReplayInput input = make_input({0, 0});  // 2 + 3 prompt tokens
  const LoadSummary s = summarise_load(input, {call(ms(1000), ms(1000), {ms(1500), ms(3000)}),
                                               call(ms(1200), ms(1200), {ms(1400), ms(1600)})});
  EXPECT_DOUBLE_EQ(s.duration_s, 2.0);
  EXPECT_DOUBLE_EQ(s.request_throughput, 1.0);
  EXPECT_DOUBLE_EQ(s.output_throughput, 2.0);
  EXPECT_DOUBLE_EQ(s.total_throughput, 4.5);
  EXPECT_EQ(s.input_tokens, 5);
}

TEST(LoadSummaryTest, PeakConcurrencySweepsExactIntervalsWithEndsFirst) {
  const ReplayInput input = make_input({0, 0, 0});
  // The second begins in the very instant in which the first ends.
  const LoadSummary s =
      summarise_load(input, {call(0, ms(0), {ms(10)}), call(0, ms(10), {ms(20)}), call(0, ms(15), {ms(18)})});
  EXPECT_EQ(s.peak_concurrency, 2);
}

TEST(LoadSummaryTest, PeakThroughputIsTheFullestSecondFromTheFirstIssue) {
  const ReplayInput input = make_input({0});
  const LoadSummary s =
      summarise_load(input, {call(0, ms(500), {ms(600), ms(1400), ms(1499), ms(1500), ms(1600)})});
  EXPECT_DOUBLE_EQ(s.peak_output_throughput, 3.0);
}

TEST(LoadSummaryTest, UnfinishedCallsCountAsFailedAndNowhereElse) {
  const ReplayInput input = make_input({0, 0});
  CallTrace cut = call(0, 0, {ms(10), ms(20)});
  cut.finished = false;
  const LoadSummary s = summarise_load(input, {call(0, 0, {ms(10)}), cut});
  EXPECT_EQ(s.completed, 1);
  EXPECT_EQ(s.failed, 1);
  EXPECT_EQ(s.output_tokens, 1);
  EXPECT_EQ(s.input_tokens, 2);
}

TEST(LoadSummaryTest, TheTableLooksAsItsReadersKnowIt) {
  const ReplayInput input = make_input({0, 0});
  LoadSummary s = summarise_load(
      input, {call(ms(0), ms(0), {ms(100), ms(200)}), call(ms(1000), ms(1000), {ms(1100), ms(2000)})});
  s.cached_tokens = 1;
  KvPlan plan;
  plan.blocks = 512;
  plan.spec.block_size = 16;
  plan.pool_bytes = int64_t{256} << 20;
  plan.decided_by = "kv-cache-memory";
  ReportFooter footer;
  footer.plan = &plan;
  footer.process_peak_bytes = int64_t{3} << 30;
  footer.memory = {{"weights", 1, int64_t{100} << 20}};
  footer.diagnostic = "null executor: no model was computed";
  footer.output_dir = "results/a";
  EXPECT_EQ(
      load_report(s, footer),
      "============ Serving Benchmark Result ============\n"
      "Successful requests:                     2         \n"
      "Failed requests:                         0         \n"
      "Benchmark duration (s):                  2.00      \n"
      "Total input tokens:                      5         \n"
      "Total generated tokens:                  4         \n"
      "Request throughput (req/s):              1.00      \n"
      "Output token throughput (tok/s):         2.00      \n"
      "Peak output token throughput (tok/s):    2.00      \n"
      "Peak concurrent requests:                1.00      \n"
      "Total token throughput (tok/s):          4.50      \n"
      "---------------Time to First Token----------------\n"
      "Mean TTFT (ms):                          100.00    \n"
      "Median TTFT (ms):                        100.00    \n"
      "P90 TTFT (ms):                           100.00    \n"
      "P95 TTFT (ms):                           100.00    \n"
      "P99 TTFT (ms):                           100.00    \n"
      "-----Time per Output Token (excl. 1st token)------\n"
      "Mean TPOT (ms):                          500.00    \n"
      "Median TPOT (ms):                        500.00    \n"
      "P90 TPOT (ms):                           820.00    \n"
      "P95 TPOT (ms):                           860.00    \n"
      "P99 TPOT (ms):                           892.00    \n"
      "---------------Inter-token Latency----------------\n"
      "Mean ITL (ms):                           500.00    \n"
      "Median ITL (ms):                         500.00    \n"
      "P90 ITL (ms):                            820.00    \n"
      "P95 ITL (ms):                            860.00    \n"
      "P99 ITL (ms):                            892.00    \n"
      "----------------End-to-end Latency----------------\n"
      "Mean E2EL (ms):                          600.00    \n"
      "Median E2EL (ms):                        600.00    \n"
      "P90 E2EL (ms):                           920.00    \n"
      "P95 E2EL (ms):                           960.00    \n"
      "P99 E2EL (ms):                           992.00    \n"
      "----------------------Replay----------------------\n"
      "Offered request rate (req/s):            1.00\n"
      "Achieved request rate (req/s):           1.00\n"
      "Send lag P50 / P99 (ms):                 0.000 / 0.000\n"
      "Prompt tokens from the prefix cache:     1 (20.0 %)\n"
      "Preemptions:                             0         \n"
      "KV plan:                                 512 blocks of 16 tokens, 256.0 MiB, by kv-cache-memory\n"
      "Peak memory of the process:              3.00 GiB, weights 100.0 MiB\n"
      "Verdict:                                 schedule kept (P99 send lag within 11.000 ms); every request "
      "gave exactly the tokens asked for\n"
      "Diagnostic run:                          null executor: no model was computed\n"
      "Results:                                 results/a\n"
      "==================================================\n");
}

TEST(LoadSummaryTest, AClientLimitedRunSaysSoAndWhatToDo) {
  const ReplayInput input = make_input({0});
  const LoadSummary s = summarise_load(input, {call(0, ms(50), {ms(100)})});
  const std::string report = load_report(s, {});
  EXPECT_THAT(report, ::testing::HasSubstr("client-limited: P99 send lag is above 1.000 ms"));
  EXPECT_THAT(report, ::testing::HasSubstr("Offered request rate (req/s):            all at once"));
  EXPECT_THAT(report, ::testing::HasSubstr("TPOT                                     no request has one"));
}

TEST(LoadSummaryTest, JsonUsesTheKnownNames) {
  const Json json = load_summary_json(summarise_load(make_input({0}), {call(0, 0, {ms(10), ms(20)})}));
  for (const char* key : {"completed", "failed", "duration", "total_input_tokens", "total_output_tokens",
                          "request_throughput", "output_throughput", "total_token_throughput",
                          "max_output_tokens_per_s", "max_concurrent_requests"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["ttft_ms"]["mean"], 10.0);
  EXPECT_EQ(json["itl_ms"]["count"], 1);
}

}  // namespace
}  // namespace vllm
