// The loop's rules one by one, on a virtual clock with a scripted executor.

#include "engine/core_loop.h"

#include "engine/support.h"

namespace vllm {
namespace {

using testing::add_to;
using ::testing::ElementsAre;
using testing::FakeExecutor;
using ::testing::HasSubstr;
using testing::kEos;
using testing::prompt_of;
using testing::Recorder;
using testing::replay;
using testing::scheduler_config;
using testing::TestRequest;

struct Fixture {
  explicit Fixture(const SchedulerConfig& config, FakeExecutor::Script script = {})
      : executor(clock, std::move(script)), loop(config, executor, clock, &recorder) {}
  bool turn() {
    const Result<bool> worked = loop.turn();
    EXPECT_TRUE(worked.is_ok()) << worked.status().message();
    return worked.is_ok() && worked.value();
  }
  void run() {
    while (turn()) {
    }
  }

  VirtualClock clock{1000};
  Recorder recorder;
  FakeExecutor executor;
  CoreLoop loop;
};

// ---- the two halves of a turn

TEST(CoreLoopHalves, ADriverDecidesWhenAStepStartsAndWhenItIsDone) {
  SchedulerConfig config = scheduler_config(64, 1);
  config.flight.max_plans = 3;
  config.flight.known_tokens_only = true;
  Fixture f(config, {.max_in_flight = 3});
  EXPECT_EQ(f.loop.max_in_flight(), 3);
  for (RequestId id = 1; id <= 2; ++id) {
    EXPECT_TRUE(add_to(f.loop, {.id = id, .prompt = prompt_of(3), .max_tokens = 2}).is_ok());
    EXPECT_NE(f.loop.plan_step(CoreLoop::EmptyPlans::kDrop).value(), nullptr);
  }
  // Everything is in flight, so there is nothing to plan: nothing is launched or counted.
  EXPECT_EQ(f.loop.plan_step(CoreLoop::EmptyPlans::kDrop).value(), nullptr);
  EXPECT_EQ(f.loop.num_in_flight(), 2);
  EXPECT_TRUE(f.loop.process_oldest().is_ok());
  EXPECT_THAT(f.recorder.tokens[1].size(), 1u);
  EXPECT_TRUE(f.recorder.tokens[2].empty());
  EXPECT_EQ(f.loop.plan_step(CoreLoop::EmptyPlans::kDrop).value()->step, 2);
  EXPECT_THAT(f.executor.calls, ElementsAre("L0", "L1", "C0", "L2"));
}

TEST(CoreLoopHalves, WhatADroppedPlanHadToTellComesWithTheNext) {
  SchedulerConfig config = scheduler_config(64, 1);
  Fixture f(config);
  EXPECT_TRUE(add_to(f.loop, {.id = 1, .prompt = prompt_of(3), .max_tokens = 1}).is_ok());
  EXPECT_NE(f.loop.plan_step(CoreLoop::EmptyPlans::kDrop).value(), nullptr);
  EXPECT_TRUE(f.loop.process_oldest().is_ok());
  EXPECT_EQ(f.loop.plan_step(CoreLoop::EmptyPlans::kDrop).value(), nullptr);
  EXPECT_EQ(f.executor.num_known(), 1u);
  EXPECT_TRUE(add_to(f.loop, {.id = 2, .prompt = prompt_of(3), .max_tokens = 1}).is_ok());
  const StepPlan* plan = f.loop.plan_step(CoreLoop::EmptyPlans::kDrop).value();
  EXPECT_THAT(plan->ended, ElementsAre(1u));
  EXPECT_EQ(plan->step, 1);
}

// ---- the order of calls

TEST(CoreLoop, DepthOneWaitsForEachStepAndTellsTheExecutorOfTheLastEnd) {
  Fixture f(scheduler_config(64, 1));
  replay(f.loop, f.clock, {{.id = 1, .prompt = prompt_of(3), .max_tokens = 2}});
  EXPECT_THAT(f.executor.calls, ElementsAre("L0", "C0", "L1", "C1", "L2", "C2"));
  EXPECT_EQ(f.recorder.steps[2].total_tokens, 0);
  EXPECT_EQ(f.executor.num_known(), 0u);
  EXPECT_TRUE(f.loop.idle());
}

TEST(CoreLoop, DepthTwoPlansTwoStepsBackToBackFromIdle) {
  Fixture f(scheduler_config(64, 2));
  replay(f.loop, f.clock, {{.id = 1, .prompt = prompt_of(3), .max_tokens = 2}});
  // Step 2 is empty, since the only request waits for its last token; step 3 tells of its end.
  EXPECT_THAT(f.executor.calls, ElementsAre("L0", "L1", "C0", "L2", "C1", "L3", "C2", "C3"));
  std::vector<int64_t> totals;
  for (const StepRecord& step : f.recorder.steps) totals.push_back(step.total_tokens);
  EXPECT_THAT(totals, ElementsAre(3, 1, 0, 0));
  EXPECT_EQ(f.recorder.steps[0].t_sched_ns, f.recorder.steps[1].t_sched_ns);
  EXPECT_EQ(f.recorder.steps[2].running, 1);
  EXPECT_EQ(f.executor.num_known(), 0u);
}

TEST(CoreLoop, ALoneEmptyStepIsWaitedForBeforeTheNextPlan) {
  Fixture f(scheduler_config(64, 2));
  ASSERT_TRUE(add_to(f.loop, {.id = 1, .prompt = prompt_of(3), .max_tokens = 2}).is_ok());
  EXPECT_TRUE(f.loop.abort(1));
  EXPECT_TRUE(f.turn());
  ASSERT_TRUE(add_to(f.loop, {.id = 2, .prompt = prompt_of(3), .max_tokens = 1}).is_ok());
  EXPECT_TRUE(f.turn());
  EXPECT_THAT(f.executor.calls, ElementsAre("L0", "C0"));
  f.run();
  EXPECT_EQ(f.recorder.ends.size(), 2u);
}

TEST(CoreLoop, NothingToDoIsSaidWithoutACall) {
  for (const int depth : {1, 2}) {
    Fixture f(scheduler_config(64, depth));
    EXPECT_TRUE(f.loop.idle());
    EXPECT_FALSE(f.turn());
    EXPECT_TRUE(f.executor.calls.empty());
  }
}

TEST(CoreLoop, AnArrivalIsSeenByTheFirstPlanThatStartsAfterIt) {
  for (const int depth : {1, 2}) {
    Fixture f(scheduler_config(64, depth));
    const TimeNs t0 = 1000;
    replay(f.loop, f.clock,
           {{.arrival_ns = t0, .id = 1, .prompt = prompt_of(8), .max_tokens = 12},
            {.arrival_ns = t0 + 5 * kNsPerMs / 2, .id = 2, .prompt = prompt_of(8), .max_tokens = 3}});
    for (const StepRecord& step : f.recorder.steps) {
      const bool has_second = std::any_of(step.entries.begin(), step.entries.end(),
                                          [](const StepRecord::Entry& e) { return e.request_id == "r2"; });
      EXPECT_FALSE(has_second && step.t_sched_ns < t0 + 5 * kNsPerMs / 2) << "depth " << depth;
    }
    // Steps end at whole milliseconds, so the first plan after 2.5 ms is at 3 ms.
    EXPECT_EQ(f.recorder.ends.at(2).times.scheduled_ns, t0 + 3 * kNsPerMs) << "depth " << depth;
    EXPECT_EQ(f.recorder.ends.at(2).times.first_token_ns, t0 + (depth + 3) * kNsPerMs) << "depth " << depth;
  }
}

// ---- ends

TEST(CoreLoop, ATokenComesBeforeItsEndAndTheStepAfterBoth) {
  Fixture f(scheduler_config(64, 1));
  replay(f.loop, f.clock, {{.id = 1, .prompt = prompt_of(3), .max_tokens = 1}});
  EXPECT_THAT(f.recorder.events, ElementsAre("token 1", "end 1 length", "step 0", "step 1"));
}

TEST(CoreLoop, EndByEosAtDepthTwoDropsTheSurplusRow) {
  FakeExecutor::Script script;
  script.token = [](RequestId, int32_t position) { return position == 5 ? kEos : 50; };
  Fixture f(scheduler_config(64, 2), script);
  replay(f.loop, f.clock, {{.id = 1, .prompt = prompt_of(4), .max_tokens = 10, .ignore_eos = false}});
  EXPECT_THAT(f.recorder.tokens.at(1), ElementsAre(50, kEos));
  EXPECT_EQ(f.recorder.ends.at(1).reason, EndReason::kStop);
  // Known with the outputs of step 1, when step 2 already had its row.
  EXPECT_EQ(f.recorder.steps[2].total_tokens, 1);
  EXPECT_EQ(f.loop.counters().generation_tokens, 2);
  EXPECT_EQ(f.loop.counters().used_blocks, 0);
}

TEST(CoreLoop, AnAbortInFlightEndsAtOnceAndLaterOutputsAreDropped) {
  for (const int depth : {1, 2}) {
    Fixture f(scheduler_config(64, depth));
    ASSERT_TRUE(add_to(f.loop, {.id = 1, .prompt = prompt_of(20), .max_tokens = 10}).is_ok());
    for (int i = 0; i < depth; ++i) EXPECT_TRUE(f.turn());
    EXPECT_EQ(f.loop.num_in_flight(), depth);
    EXPECT_TRUE(f.loop.abort(1));
    EXPECT_EQ(f.recorder.ends.at(1).reason, EndReason::kAborted);
    EXPECT_EQ(f.loop.counters().used_blocks, 0);
    EXPECT_FALSE(f.loop.abort(1));
    f.run();
    EXPECT_TRUE(f.recorder.tokens.empty());
    EXPECT_TRUE(f.loop.idle());
    EXPECT_EQ(f.recorder.steps.front().entries.front().request_id, "r1");
    EXPECT_EQ(f.executor.num_known(), 0u);
  }
}

TEST(CoreLoop, AbortsThatComeWhileAStepRunsGoBeforeItsOutputs) {
  Fixture f(scheduler_config(64, 1));
  ASSERT_TRUE(add_to(f.loop, {.id = 1, .prompt = prompt_of(4), .max_tokens = 10}).is_ok());
  f.recorder.collected_hook = [&f] { f.loop.abort(1); };
  f.run();
  EXPECT_TRUE(f.recorder.tokens.empty());
  EXPECT_EQ(f.recorder.ends.at(1).reason, EndReason::kAborted);
}

TEST(CoreLoop, AnObserverMayAbortTheRequestThatItHearsOf) {
  Fixture f(scheduler_config(64, 2));
  f.recorder.token_hook = [&f](RequestId id, int32_t) {
    const bool aborts = f.recorder.tokens[id].size() == 3;
    EXPECT_EQ(aborts && f.loop.abort(id), aborts);
  };
  replay(f.loop, f.clock,
         {{.id = 1, .prompt = prompt_of(4), .max_tokens = 10},
          {.id = 2, .prompt = prompt_of(4), .max_tokens = 10}});
  EXPECT_EQ(f.recorder.tokens.at(1).size(), 3u);
  EXPECT_EQ(f.recorder.tokens.at(2).size(), 3u);
  EXPECT_EQ(f.recorder.ends.at(2).reason, EndReason::kAborted);
}

TEST(CoreLoop, AnObserverMayAbortANeighbourOfTheSameStep) {
  Fixture f(scheduler_config(64, 1));
  f.recorder.token_hook = [&f](RequestId id, int32_t) {
    if (id == 1) f.loop.abort(2);
  };
  replay(f.loop, f.clock,
         {{.id = 1, .prompt = prompt_of(4), .max_tokens = 3},
          {.id = 2, .prompt = prompt_of(4), .max_tokens = 3}});
  EXPECT_EQ(f.recorder.tokens.count(2), 0u);
  EXPECT_EQ(f.recorder.ends.at(1).reason, EndReason::kLength);
  EXPECT_EQ(f.recorder.ends.at(2).reason, EndReason::kAborted);
}

TEST(CoreLoop, AnAbortOfARequestThatEndsInTheSameOutputsChangesNothing) {
  Fixture f(scheduler_config(64, 1));
  f.recorder.token_hook = [&f](RequestId id, int32_t) { EXPECT_FALSE(f.loop.abort(id)); };
  replay(f.loop, f.clock, {{.id = 1, .prompt = prompt_of(4), .max_tokens = 1}});
  EXPECT_EQ(f.recorder.ends.at(1).reason, EndReason::kLength);
}

TEST(CoreLoop, AnObserverMayAddWhenARequestEnds) {
  Fixture f(scheduler_config(64, 2));
  f.recorder.end_hook = [&f](RequestId id) {
    if (id == 4) return;
    EXPECT_TRUE(add_to(f.loop, {.id = id + 1, .prompt = prompt_of(4), .max_tokens = 2}).is_ok());
  };
  replay(f.loop, f.clock, {{.id = 1, .prompt = prompt_of(4), .max_tokens = 2}});
  EXPECT_EQ(f.recorder.ends.size(), 4u);
}

// ---- times

// Every look at it takes 10 ns, so that no two events have one time.
class TickingClock final : public Clock {
 public:
  TimeNs now_ns() const override { return now_ns_ += 10; }
  TimeNs epoch_ns() const override { return now_ns_; }
  void sleep_until_ns(TimeNs deadline_ns) override { now_ns_ = std::max(now_ns_, deadline_ns); }

 private:
  mutable TimeNs now_ns_ = 0;
};

TEST(CoreLoop, TimesAreThoseOfTheStepStartAndOfTheTokens) {
  for (const int depth : {1, 2}) {
    TickingClock clock;
    Recorder recorder;
    FakeExecutor executor(clock, {});
    CoreLoop loop(scheduler_config(64, depth), executor, clock, &recorder);
    ASSERT_TRUE(add_to(loop, {.id = 1, .prompt = prompt_of(100), .max_tokens = 3}).is_ok());
    while (loop.turn().value()) {
    }
    const RequestTimes& times = recorder.ends.at(1).times;
    EXPECT_GT(times.queued_ns, 0);
    EXPECT_LT(times.queued_ns, times.scheduled_ns);
    EXPECT_EQ(times.scheduled_ns, recorder.steps[0].t_sched_ns);
    EXPECT_LT(recorder.steps[0].t_sched_ns, recorder.steps[0].t_sched_end_ns);
    // 100 tokens take two steps of 64; the first token comes with the second.
    EXPECT_EQ(times.first_token_ns, recorder.steps[1].t_out_ns);
    EXPECT_EQ(times.last_token_ns, recorder.steps[3].t_out_ns);
    EXPECT_LT(times.last_token_ns, times.finished_ns);
    EXPECT_EQ(recorder.token_times.at(1).size(), 3u);
    EXPECT_EQ(recorder.token_times.at(1)[1], recorder.steps[2].t_out_ns);
  }
}

TEST(CoreLoop, StampsAtTheZeroOfAVirtualClockCount) {
  VirtualClock clock(0);
  Recorder recorder;
  FakeExecutor::Script script;
  script.step_ns = [](const StepPlan&) { return TimeNs{0}; };
  FakeExecutor executor(clock, script);
  CoreLoop loop(scheduler_config(64, 1), executor, clock, &recorder);
  replay(loop, clock, {{.id = 1, .prompt = prompt_of(4), .max_tokens = 5}});
  EXPECT_EQ(loop.counters().prompt_tokens, 4);
  EXPECT_EQ(loop.counters().generation_tokens, 5);
}

TEST(CoreLoop, PreemptionKeepsTheFirstAdmissionAndIsCounted) {
  for (const int depth : {1, 2}) {
    // Five usable blocks: two requests that grow to 3 blocks each.
    Fixture f(scheduler_config(6, depth));
    replay(f.loop, f.clock,
           {{.id = 1, .prompt = prompt_of(16), .max_tokens = 30},
            {.id = 2, .prompt = prompt_of(16, 5000), .max_tokens = 30}});
    ASSERT_EQ(f.recorder.ends.size(), 2u);
    EXPECT_EQ(f.recorder.ends.at(1).times.num_preemptions, 0);
    EXPECT_EQ(f.recorder.ends.at(2).times.num_preemptions, 1) << "depth " << depth;
    EXPECT_EQ(f.recorder.ends.at(2).times.scheduled_ns, f.recorder.steps[0].t_sched_ns);
    EXPECT_EQ(f.recorder.tokens.at(2).size(), 30u);
    EXPECT_EQ(f.loop.counters().preemptions, 1);
    EXPECT_EQ(f.loop.counters().prompt_tokens, 32);
    EXPECT_EQ(f.loop.counters().generation_tokens, 60);
    const auto step = std::find_if(f.recorder.steps.begin(), f.recorder.steps.end(),
                                   [](const StepRecord& s) { return !s.preempted.empty(); });
    ASSERT_NE(step, f.recorder.steps.end());
    EXPECT_THAT(step->preempted, ElementsAre("r2"));
    EXPECT_EQ(step->waiting, 1);
  }
}

// ---- counters and records

TEST(CoreLoop, APromptCountsOnceWholeWhenItsPrefillIsComplete) {
  Fixture f(scheduler_config(64, 1));
  ASSERT_TRUE(add_to(f.loop, {.id = 1, .prompt = prompt_of(100), .max_tokens = 2}).is_ok());
  f.turn();
  f.turn();
  EXPECT_EQ(f.loop.counters().prompt_tokens, 0);  // 64 of 100 are computed
  EXPECT_EQ(f.loop.counters().running, 1);
  EXPECT_EQ(f.loop.counters().used_blocks, 4);
  f.turn();
  f.turn();
  EXPECT_EQ(f.loop.counters().prompt_tokens, 100);
  f.run();
  EXPECT_EQ(f.loop.counters().prompt_tokens, 100);

  // The same prompt again: 96 of its tokens lie in full blocks.
  ASSERT_TRUE(add_to(f.loop, {.id = 2, .prompt = prompt_of(100), .max_tokens = 2}).is_ok());
  f.run();
  const CoreCounters& counters = f.loop.counters();
  EXPECT_EQ(f.recorder.ends.at(2).times.cached_tokens, 96);
  EXPECT_EQ(counters.prompt_tokens, 200);
  EXPECT_EQ(counters.prompt_tokens_cached, 96);
  EXPECT_EQ(counters.prompt_tokens_computed, 104);
  EXPECT_EQ(counters.generation_tokens, 4);
  EXPECT_EQ(counters.requests_ended, 2);
  EXPECT_EQ(counters.running, 0);
  EXPECT_EQ(counters.waiting, 0);
  EXPECT_EQ(counters.used_blocks, 0);
  EXPECT_EQ(counters.usable_blocks, 63);
  EXPECT_EQ(counters.steps, static_cast<int64_t>(f.recorder.steps.size()));
}

TEST(CoreLoop, RecordsHaveNamesTokensAndComputedLengths) {
  Fixture f(scheduler_config(64, 1));
  replay(f.loop, f.clock,
         {{.id = 1, .prompt = prompt_of(70), .max_tokens = 2},
          {.id = 2, .prompt = prompt_of(5, 900), .max_tokens = 2}});
  const StepRecord& first = f.recorder.steps[0];
  EXPECT_THAT(first.entries, ElementsAre(StepRecord::Entry{"r1", 64, 0}));
  EXPECT_EQ(first.total_tokens, 64);
  EXPECT_EQ(first.running, 1);
  EXPECT_EQ(first.waiting, 1);
  EXPECT_EQ(first.free_blocks, 59);
  EXPECT_THAT(f.recorder.steps[1].entries,
              ElementsAre(StepRecord::Entry{"r1", 6, 64}, StepRecord::Entry{"r2", 5, 0}));
  EXPECT_THAT(f.recorder.steps[2].entries,
              ElementsAre(StepRecord::Entry{"r1", 1, 70}, StepRecord::Entry{"r2", 1, 5}));
}

TEST(CoreLoop, AResetStartsCountersCacheAndStepNumbersAnew) {
  Fixture f(scheduler_config(64, 1));
  replay(f.loop, f.clock, {{.id = 1, .prompt = prompt_of(40), .max_tokens = 4}});
  const std::vector<StepRecord> before = f.recorder.steps;
  const std::vector<std::string> plans = f.executor.digests;
  f.recorder.steps.clear();
  f.executor.digests.clear();
  ASSERT_TRUE(f.loop.reset_prefix_cache());
  f.loop.reset_counters();
  EXPECT_EQ(f.loop.counters().steps, 0);
  EXPECT_EQ(f.loop.counters().usable_blocks, 63);
  ASSERT_TRUE(add_to(f.loop, {.id = 2, .prompt = prompt_of(40), .max_tokens = 4}).is_ok());
  f.run();
  EXPECT_EQ(f.recorder.ends.at(2).times.cached_tokens, 0);
  ASSERT_EQ(f.recorder.steps.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(f.recorder.steps[i].step, static_cast<int64_t>(i));
}

TEST(CoreLoop, TheCacheIsNotResetWhileARequestLives) {
  Fixture f(scheduler_config(64, 1));
  ASSERT_TRUE(add_to(f.loop, {.id = 1, .prompt = prompt_of(40), .max_tokens = 4}).is_ok());
  f.turn();
  EXPECT_FALSE(f.loop.reset_prefix_cache());
}

TEST(CoreLoop, AnObserverWithoutUseForStepsGetsNone) {
  class Quiet : public Recorder {
   public:
    bool wants_steps() const override { return false; }
    void on_step(const StepPlan&, const StepRecord&) override { FAIL(); }
  };
  VirtualClock clock;
  Quiet quiet;
  FakeExecutor executor(clock, {});
  CoreLoop loop(scheduler_config(64, 1), executor, clock, &quiet);
  replay(loop, clock, {{.id = 1, .prompt = prompt_of(4), .max_tokens = 3}});
  EXPECT_EQ(quiet.ends.size(), 1u);
  EXPECT_EQ(loop.counters().steps, 4);
  CoreLoop alone(scheduler_config(64, 1), executor, clock, nullptr);
  replay(alone, clock, {{.id = 2, .prompt = prompt_of(4), .max_tokens = 3}});
  EXPECT_EQ(alone.counters().requests_ended, 1);
}

// ---- refusals and failures

TEST(CoreLoop, ARefusedRequestLeavesNoTrace) {
  Fixture f(scheduler_config(4, 1));
  const Status refusal = add_to(f.loop, {.id = 1, .prompt = prompt_of(60), .max_tokens = 10});
  EXPECT_EQ(refusal.code(), StatusCode::kRefused);
  EXPECT_THAT(refusal.message(), HasSubstr("3 usable blocks"));
  EXPECT_FALSE(f.loop.has_request(1));
  EXPECT_EQ(f.executor.num_known(), 0u);
  EXPECT_TRUE(f.loop.idle());
  EXPECT_TRUE(f.recorder.ends.empty());
}

TEST(CoreLoop, SamplingParametersAreCheckedAtTheDoor) {
  Fixture f(scheduler_config(64, 1));
  const std::vector<int32_t> prompt = prompt_of(4);
  RequestInput input;
  input.id = 1;
  input.prompt = prompt;
  SamplingParams params;
  params.top_p = 1.5;
  const Status refusal = f.loop.add(input, params, "r1");
  EXPECT_FALSE(refusal.is_ok());
  EXPECT_THAT(refusal.message(), HasSubstr("top_p"));
  EXPECT_EQ(f.loop.num_requests(), 0);
}

void expect_failed_loop(Fixture& f, const std::string& message) {
  const Result<bool> again = f.loop.turn();
  ASSERT_FALSE(again.is_ok());
  EXPECT_THAT(again.status().message(), HasSubstr(message));
  EXPECT_THAT(f.loop.failure().message(), HasSubstr(message));
  ASSERT_EQ(f.recorder.ends.size(), 3u);
  for (const auto& [id, end] : f.recorder.ends) EXPECT_EQ(end.reason, EndReason::kAborted);
  EXPECT_TRUE(f.loop.idle());
  EXPECT_EQ(f.loop.num_requests(), 0);
  EXPECT_EQ(f.loop.counters().used_blocks, 0);
  EXPECT_THAT(add_to(f.loop, {.id = 9, .prompt = prompt_of(4)}).message(), HasSubstr(message));
}

TEST(CoreLoop, AnExecutorFailureEndsEverythingWithItsStatus) {
  const std::vector<std::pair<FakeExecutor::Script, std::string>> cases = {
      {{.fail_launch_at = 2}, "scripted failure of launch 2"},
      {{.fail_collect_at = 2}, "scripted failure of collect 2"},
      {{.short_result_at = 2}, "the executor fake returned 0 tokens for a step of 3 entries"},
  };
  for (const int depth : {1, 2}) {
    for (const auto& [script, message] : cases) {
      Fixture f(scheduler_config(64, depth), script);
      for (const RequestId id : {1, 2, 3}) {
        ASSERT_TRUE(add_to(f.loop, {.id = id, .prompt = prompt_of(4), .max_tokens = 10}).is_ok());
      }
      Result<bool> worked = true;
      while (worked.is_ok() && worked.value()) worked = f.loop.turn();
      EXPECT_FALSE(worked.is_ok());
      expect_failed_loop(f, message);
    }
  }
}

}  // namespace
}  // namespace vllm
