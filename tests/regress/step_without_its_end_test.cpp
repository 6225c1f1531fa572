// A step log with a step that never ended before others were planned made the comparison hold ever more steps
// in flight, beyond what the scheduler's tables are cut for: memory was overwritten.

#include "bench/schedule_comparison.h"

namespace vllm {
namespace {

// One request of two prompt and `steps` output tokens, alone.
RecordedRun single_request(int steps) {
  RecordedRun run;
  run.dir = "recorded";
  run.limits.num_blocks = 8;
  run.limits.block_size = 4;
  run.limits.max_num_seqs = 2;
  run.limits.max_num_batched_tokens = 16;
  run.limits.max_model_len = 20;
  WorkloadRequest row;
  row.line = 1;
  row.input_tok_ids = {1, 2};
  row.input_toks = 2;
  row.output_toks = steps;
  run.workload.requests = {row};
  RecordedRequest request;
  request.output_tokens = steps;
  run.requests = {request};
  for (int k = 0; k < steps; ++k) {
    StepRecord step;
    step.step = k;
    step.t_sched_ns = 100 * (k + 1);
    step.t_out_ns = step.t_sched_ns + 50;
    step.total_tokens = k == 0 ? 2 : 1;
    step.running = 1;
    step.free_blocks = 7 - (2 + k + 3) / 4;
    step.entries = {{.request_id = "x-0", .num_tokens = k == 0 ? 2 : 1}};
    run.steps.push_back(step);
    run.entry_rows.push_back({0});
    run.preempted_rows.emplace_back();
  }
  return run;
}

TEST(StepWithoutItsEnd, InTheMiddleOfALogIsRefused) {
  for (const TimeNs t_out : {TimeNs{0}, TimeNs{-1}}) {
    RecordedRun run = single_request(6);
    run.steps[2].t_out_ns = t_out;
    const auto compared = compare_schedule(run, 1, 10);
    ASSERT_FALSE(compared.is_ok());
    EXPECT_EQ(exit_code(compared.status()), 2);
    EXPECT_EQ(
        compared.status().message(),
        "recorded: step 2 of the step log has no t_out, but step 3 was planned after it; at depth 1 only the "
        "last step may be without one");
    const auto two = compare_schedule(run, 2, 10);
    ASSERT_FALSE(two.is_ok());
    EXPECT_EQ(
        two.status().message(),
        "recorded: step 2 of the step log has no t_out, but step 4 was planned after it; at depth 2 only the "
        "last 2 steps may be without one");
  }
}

TEST(StepWithoutItsEnd, AtTheEndOfALogIsARecordingThatEndedBefore) {
  RecordedRun run = single_request(6);
  run.steps.back().t_out_ns = 0;
  const auto compared = compare_schedule(run, 1, 10);
  ASSERT_TRUE(compared.is_ok()) << compared.status().message();
  EXPECT_EQ(compared->equal_steps, 6);
}

TEST(StepWithoutItsEnd, AStepThatComputedNothingNeedsNone) {
  RecordedRun run = single_request(4);
  StepRecord idle;
  idle.step = 4;
  idle.t_sched_ns = 1000;
  idle.free_blocks = 7;
  for (int k = 0; k < 3; ++k, idle.t_sched_ns += 100, ++idle.step) {
    run.steps.push_back(idle);
    run.entry_rows.emplace_back();
    run.preempted_rows.emplace_back();
  }
  const auto compared = compare_schedule(run, 1, 10);
  ASSERT_TRUE(compared.is_ok()) << compared.status().message();
  EXPECT_EQ(compared->equal_steps, 7);
}

}  // namespace
}  // namespace vllm
