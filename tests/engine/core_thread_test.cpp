// The core's thread: every submission ends exactly once, whatever happens to it and whoever asks for it when.

#include "engine/core_thread.h"

#include <atomic>
#include <thread>

#include "backend/null_executor.h"
#include "base/random.h"
#include "engine/support.h"
#include "support/checker_kv_truth.h"

namespace vllm {
namespace {

using testing::FakeExecutor;
using ::testing::HasSubstr;
using testing::prompt_of;
using testing::scheduler_config;

// Counts what callbacks tell; any thread may wait for the ends.
class Ledger {
 public:
  EngineCallbacks callbacks() {
    EngineCallbacks c;
    c.on_token = [this](RequestId id, int32_t, TimeNs) {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(ends_.count(id), 0u) << "a token of request " << id << " after its end";
      ++tokens_[id];
    };
    c.on_end = [this](RequestId id, EngineResult result) {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(static_cast<int64_t>(result.tokens.size()), tokens_[id]);
      EXPECT_TRUE(ends_.emplace(id, std::move(result)).second) << "request " << id << " ended twice";
      changed_.notify_all();
    };
    return c;
  }
  void wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_.size() >= count; });
  }
  size_t num_ends() {
    const std::lock_guard lock(mutex_);
    return ends_.size();
  }
  EngineResult end(RequestId id) {
    const std::lock_guard lock(mutex_);
    return ends_.at(id);
  }
  std::map<RequestId, EngineResult> ends() {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, int64_t> tokens_;
  std::map<RequestId, EngineResult> ends_;
};

// Holds every step until the gate is opened.
class GatedExecutor final : public Executor {
 public:
  explicit GatedExecutor(Clock& clock) : inner_(clock, 1000) {}
  void add_request(RequestId id, const SamplingParams& params) override { inner_.add_request(id, params); }
  Status launch(const StepPlan& plan) override {
    {
      const std::lock_guard lock(mutex_);
      ++launched_;
    }
    changed_.notify_all();
    return inner_.launch(plan);
  }
  Status collect(StepResult& result) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    return inner_.collect(result);
  }
  int max_in_flight() const override { return inner_.max_in_flight(); }
  std::string name() const override { return "gated"; }

  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void wait_for_launch() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return launched_ > 0; });
  }

 private:
  NullExecutor inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int launched_ = 0;
};

CoreThreadConfig config_of(int depth = 1, int64_t blocks = 64) {
  CoreThreadConfig config;
  config.scheduler = scheduler_config(blocks, depth);
  config.vocab_size = 32000;
  config.eos_token_ids = {testing::kEos};
  return config;
}

EngineRequest request_of(int prompt, int max_tokens, std::string name = "r") {
  EngineRequest request;
  request.name = std::move(name);
  request.prompt = prompt_of(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

std::unique_ptr<Executor> null_executor(Clock& clock) { return std::make_unique<NullExecutor>(clock, 32000); }

TEST(CoreThread, ARequestEndsWithItsTokensAndTimes) {
  for (const int depth : {1, 2}) {
    RealClock clock;
    Ledger ledger;
    CoreThread core(config_of(depth), null_executor(clock), clock);
    const TimeNs before_ns = clock.now_ns();
    const Result<RequestId> id = core.submit(request_of(20, 5), ledger.callbacks());
    ASSERT_TRUE(id.is_ok());
    EXPECT_EQ(*id, 1u);
    ledger.wait_for(1);
    const EngineResult result = ledger.end(1);
    EXPECT_TRUE(result.status.is_ok());
    EXPECT_EQ(result.reason, EndReason::kLength);
    EXPECT_EQ(result.tokens.size(), 5u);
    EXPECT_LE(before_ns, result.times.queued_ns);
    EXPECT_LE(result.times.queued_ns, result.times.scheduled_ns);
    EXPECT_LE(result.times.scheduled_ns, result.times.first_token_ns);
    EXPECT_LE(result.times.first_token_ns, result.times.last_token_ns);
    EXPECT_LE(result.times.last_token_ns, result.times.finished_ns);
    // The counters already know of what the last end told.
    const CoreCounters counters = core.counters();
    EXPECT_EQ(counters.prompt_tokens, 20);
    EXPECT_EQ(counters.generation_tokens, 5);
    EXPECT_EQ(counters.requests_ended, 1);
    EXPECT_EQ(counters.used_blocks, 0);
    EXPECT_EQ(*core.submit(request_of(20, 5), ledger.callbacks()), 2u);
  }
}

TEST(CoreThread, RefusalsArriveThroughOnEnd) {
  RealClock clock;
  Ledger ledger;
  CoreThread core(config_of(1, 4), null_executor(clock), clock);
  EngineRequest bad_token = request_of(3, 5, "bad-token");
  bad_token.prompt[1] = 32000;
  EngineRequest negative = request_of(3, 5, "negative");
  negative.prompt[2] = -1;
  EngineRequest bad_sampling = request_of(3, 5, "bad-sampling");
  bad_sampling.sampling.top_p = 2;
  const std::vector<std::pair<EngineRequest, std::string>> cases = {
      {request_of(100, 5, "too-long"), "3 usable blocks"},
      {request_of(0, 5, "empty"), "empty prompt"},
      {request_of(3, 0, "none-asked"), "max_tokens 0"},
      {bad_token,
       "request bad-token: prompt token 32000 at position 1 is outside the vocabulary; accepted are 0 to "
       "31999"},
      {negative, "prompt token -1 at position 2"},
      {bad_sampling, "top_p"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const Result<RequestId> id = core.submit(cases[i].first, ledger.callbacks());
    ASSERT_TRUE(id.is_ok());
    ledger.wait_for(i + 1);
    const EngineResult result = ledger.end(*id);
    EXPECT_FALSE(result.status.is_ok());
    EXPECT_THAT(result.status.message(), HasSubstr(cases[i].second));
    EXPECT_THAT(result.status.message(), HasSubstr("request " + cases[i].first.name));
    EXPECT_EQ(result.reason, EndReason::kAborted);
    EXPECT_EQ(result.times.queued_ns, 0);
  }
  // A good one still works.
  ASSERT_TRUE(core.submit(request_of(3, 5), ledger.callbacks()).is_ok());
  ledger.wait_for(cases.size() + 1);
  EXPECT_TRUE(ledger.end(cases.size() + 1).status.is_ok());
  EXPECT_TRUE(core.health().is_ok());
}

TEST(CoreThread, TheBoundOfLivingRequestsIsNamed) {
  RealClock clock;
  Ledger ledger;
  CoreThreadConfig config = config_of();
  config.max_queued = 3;
  auto executor = std::make_unique<GatedExecutor>(clock);
  GatedExecutor& gate = *executor;
  CoreThread core(std::move(config), std::move(executor), clock);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(core.submit(request_of(4, 2), ledger.callbacks()).is_ok());
  const Result<RequestId> refusal = core.submit(request_of(4, 2, "one-more"), ledger.callbacks());
  ASSERT_FALSE(refusal.is_ok());
  EXPECT_EQ(refusal.status().code(), StatusCode::kRefused);
  EXPECT_THAT(refusal.status().message(), HasSubstr("request one-more: 3 requests"));
  EXPECT_THAT(refusal.status().message(), HasSubstr("max_queued"));
  gate.open();
  ledger.wait_for(3);
  EXPECT_TRUE(core.submit(request_of(4, 2), ledger.callbacks()).is_ok());
  ledger.wait_for(4);
}

TEST(CoreThread, AnAbortWhileAStepRunsDropsItsOutputs) {
  for (const int depth : {1, 2}) {
    RealClock clock;
    Ledger ledger;
    auto executor = std::make_unique<GatedExecutor>(clock);
    GatedExecutor& gate = *executor;
    CoreThread core(config_of(depth), std::move(executor), clock);
    ASSERT_TRUE(core.submit(request_of(4, 100), ledger.callbacks()).is_ok());
    gate.wait_for_launch();
    ASSERT_TRUE(core.submit(request_of(4, 3), ledger.callbacks()).is_ok());
    core.abort(1);
    core.abort(2);
    core.abort(77);  // no such request
    gate.open();
    ledger.wait_for(2);
    EXPECT_EQ(ledger.end(1).reason, EndReason::kAborted);
    EXPECT_TRUE(ledger.end(1).status.is_ok());
    EXPECT_TRUE(ledger.end(1).tokens.empty());
    EXPECT_TRUE(ledger.end(2).tokens.empty());
    core.abort(1);  // ended: no effect
    EXPECT_EQ(core.counters().generation_tokens, 0);
  }
}

TEST(CoreThread, CallbacksMaySubmitAbortAndReadCounters) {
  RealClock clock;
  Ledger ledger;
  CoreThread core(config_of(), null_executor(clock), clock);
  EngineCallbacks chain = ledger.callbacks();
  const auto ledger_end = chain.on_end;
  std::function<void(RequestId, EngineResult)> again = [&](RequestId id, EngineResult result) {
    EXPECT_GE(core.counters().requests_ended, 0);
    EXPECT_TRUE(core.health().is_ok());
    if (id < 20) {
      EngineCallbacks next = ledger.callbacks();
      next.on_end = again;
      EXPECT_TRUE(core.submit(request_of(4, 3), std::move(next)).is_ok());
    }
    ledger_end(id, std::move(result));
  };
  chain.on_end = again;
  const auto count = chain.on_token;
  chain.on_token = [&](RequestId id, int32_t token, TimeNs ready_ns) {
    count(id, token, ready_ns);
    core.abort(id);
  };
  ASSERT_TRUE(core.submit(request_of(4, 3), chain).is_ok());
  ledger.wait_for(20);
  EXPECT_EQ(ledger.end(1).reason, EndReason::kAborted);
  EXPECT_LT(ledger.end(1).tokens.size(), 3u);
  EXPECT_EQ(ledger.end(20).tokens.size(), 3u);
}

TEST(CoreThread, AnExecutorFailureEndsAllWithItsStatusAndTheEngineSaysWhy) {
  for (const int depth : {1, 2}) {
    RealClock clock;
    Ledger ledger;
    FakeExecutor::Script script;
    script.step_ns = [](const StepPlan&) { return TimeNs{0}; };
    script.fail_collect_at = 3;
    CoreThread core(config_of(depth), std::make_unique<FakeExecutor>(clock, script), clock);
    for (int i = 0; i < 5; ++i) {
      // The first may have failed the engine already.
      if (!core.submit(request_of(4, 50), ledger.callbacks()).is_ok()) break;
    }
    ledger.wait_for(1);
    const Status health = core.health();
    ASSERT_FALSE(health.is_ok());
    EXPECT_THAT(health.message(), HasSubstr("scripted failure of collect 3"));
    const Result<RequestId> late = core.submit(request_of(4, 50, "late"), ledger.callbacks());
    ASSERT_FALSE(late.is_ok());
    EXPECT_THAT(late.status().message(), HasSubstr("the engine stopped: scripted failure of collect 3"));
    EXPECT_FALSE(core.reset_for_measurement());
    core.shutdown(10 * kNsPerSecond);  // returns at once: nothing lives
    for (const auto& [id, result] : ledger.ends()) {
      EXPECT_THAT(result.status.message(), HasSubstr("scripted failure of collect 3")) << "request " << id;
      EXPECT_EQ(result.reason, EndReason::kAborted);
    }
  }
}

TEST(CoreThread, DestructionEndsWhatLives) {
  RealClock clock;
  Ledger ledger;
  {
    auto executor = std::make_unique<GatedExecutor>(clock);
    GatedExecutor& gate = *executor;
    CoreThread core(config_of(2), std::move(executor), clock);
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(core.submit(request_of(4, 900), ledger.callbacks()).is_ok());
    gate.wait_for_launch();
    gate.open();
  }
  ASSERT_EQ(ledger.num_ends(), 40u);
  for (const auto& [id, result] : ledger.ends()) {
    EXPECT_EQ(result.reason, EndReason::kAborted);
    EXPECT_TRUE(result.status.is_ok());
  }
}

TEST(CoreThread, DestructionOfAnIdleCoreAndOfOneThatNeverRan) {
  RealClock clock;
  for (int i = 0; i < 20; ++i) CoreThread core(config_of(), null_executor(clock), clock);
}

TEST(CoreThread, ShutdownLetsFinishWithinItsTime) {
  RealClock clock;
  Ledger ledger;
  CoreThread core(config_of(),
                  std::make_unique<NullExecutor>(clock, 32000, [](const StepPlan&) { return kNsPerMs; }),
                  clock);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(core.submit(request_of(4, 20), ledger.callbacks()).is_ok());
  core.shutdown(600 * kNsPerSecond);
  ASSERT_EQ(ledger.num_ends(), 3u);
  for (const auto& [id, result] : ledger.ends()) EXPECT_EQ(result.reason, EndReason::kLength);
  const Result<RequestId> late = core.submit(request_of(4, 2, "late"), ledger.callbacks());
  ASSERT_FALSE(late.is_ok());
  EXPECT_THAT(late.status().message(), HasSubstr("request late: the engine is shut down"));
  EXPECT_EQ(core.counters().requests_ended, 3);
  EXPECT_TRUE(core.health().is_ok());
  core.shutdown(0);  // again: no effect
}

TEST(CoreThread, ShutdownAbortsWhatItsTimeDoesNotSuffice) {
  RealClock clock;
  Ledger ledger;
  CoreThread core(config_of(),
                  std::make_unique<NullExecutor>(clock, 32000, [](const StepPlan&) { return kNsPerMs; }),
                  clock);
  EngineRequest endless = request_of(4, 900);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(core.submit(endless, ledger.callbacks()).is_ok());
  core.shutdown(5 * kNsPerMs);
  ASSERT_EQ(ledger.num_ends(), 30u);
  for (const auto& [id, result] : ledger.ends()) EXPECT_EQ(result.reason, EndReason::kAborted);
}

TEST(CoreThread, ResetForMeasurement) {
  RealClock clock;
  Ledger ledger;
  auto executor = std::make_unique<GatedExecutor>(clock);
  GatedExecutor& gate = *executor;
  std::vector<StepRecord> steps;
  CoreThreadConfig config = config_of();
  config.on_step = [&steps](const StepPlan&, const StepRecord& record) { steps.push_back(record); };
  CoreThread core(std::move(config), std::move(executor), clock);
  ASSERT_TRUE(core.submit(request_of(40, 4), ledger.callbacks()).is_ok());
  gate.wait_for_launch();
  EXPECT_FALSE(core.reset_for_measurement());  // a request lives
  gate.open();
  ledger.wait_for(1);
  EXPECT_TRUE(core.reset_for_measurement());
  const size_t warmup_steps = steps.size();
  EXPECT_EQ(core.counters().steps, 0);
  EXPECT_EQ(core.counters().prompt_tokens, 0);
  ASSERT_TRUE(core.submit(request_of(40, 4), ledger.callbacks()).is_ok());
  ledger.wait_for(2);
  EXPECT_EQ(ledger.end(2).times.cached_tokens, 0);
  EXPECT_EQ(core.counters().prompt_tokens, 40);
  core.shutdown(0);
  EXPECT_FALSE(core.reset_for_measurement());
  EXPECT_EQ(steps.at(warmup_steps).step, 0);
}

TEST(CoreThread, EveryRequestEndsOnceUnderAbortsFromManyThreads) {
  for (const int depth : {1, 2}) {
    RealClock clock;
    Ledger ledger;
    CoreThreadConfig config = config_of(depth, 40);
    std::atomic<int64_t> steps = 0;
    config.on_step = [&steps](const StepPlan&, const StepRecord&) { ++steps; };
    FakeExecutor::Script script;
    script.step_ns = [](const StepPlan& plan) { return (plan.step % 3) * 20 * kNsPerUs; };
    CoreThread core(std::move(config), std::make_unique<FakeExecutor>(clock, script), clock);
    constexpr int kThreads = 4, kEach = 300;
    std::atomic<int64_t> accepted = 0, refused = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Random random(static_cast<uint64_t>(depth), static_cast<uint64_t>(t));
        for (int i = 0; i < kEach; ++i) {
          const int prompt = static_cast<int>(random.between(0, 120));
          const int max_tokens = static_cast<int>(random.between(1, 40));
          const Result<RequestId> id = core.submit(request_of(prompt, max_tokens), ledger.callbacks());
          ++(id.is_ok() ? accepted : refused);
          for (int k = 0; k < 2; ++k) core.abort(random.below(static_cast<uint64_t>(kThreads * kEach)));
          const int64_t steps_seen = random.below(8) == 0 ? core.counters().steps : 0;
          EXPECT_GE(steps_seen, 0);
          if (random.below(50) == 0) core.reset_for_measurement();
          if (random.below(20) == 0) clock.sleep_until_ns(clock.now_ns() + 200 * kNsPerUs);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (depth == 1) {
      ledger.wait_for(static_cast<size_t>(accepted));
      EXPECT_EQ(core.counters().used_blocks, 0);
      EXPECT_EQ(core.counters().waiting, 0);
      EXPECT_TRUE(core.reset_for_measurement());
    }
    core.shutdown(0);
    EXPECT_EQ(ledger.num_ends(), static_cast<size_t>(accepted));
    EXPECT_EQ(refused, 0);
    EXPECT_GT(steps, 0);
  }
}

// What each entry may read was computed from exactly its own tokens, whatever the threads do.
TEST(CoreThread, BlocksHoldTheRightTokensUnderAbortsFromOtherThreads) {
  for (const int depth : {1, 2}) {
    constexpr RequestId kRequests = 400;
    const auto prompt_for = [](RequestId id) {
      return prompt_of(static_cast<int>(1 + id * 37 % 90), 100 + id % 3);
    };
    FakeExecutor::Script script;
    script.step_ns = [](const StepPlan& plan) { return (plan.step % 3) * 20 * kNsPerUs; };
    const auto token = script.token;
    CoreThreadConfig config = config_of(depth, 30);
    testing::KvTruthChecker truth(config.scheduler, [&](RequestId id, int64_t index) {
      return token(id, static_cast<int32_t>(static_cast<int64_t>(prompt_for(id).size()) + index));
    });
    RealClock clock;
    Ledger ledger;
    auto executor = std::make_unique<FakeExecutor>(clock, script);
    std::set<RequestId> seen;
    executor->on_launch = [&](const StepPlan& plan) {
      for (const StepEntry& entry : plan.entries) {
        if (seen.insert(entry.id).second) truth.on_add(entry.id, prompt_for(entry.id));
      }
      EXPECT_EQ(truth.on_plan(plan), "");
    };
    CoreThread core(std::move(config), std::move(executor), clock);
    std::atomic<bool> done = false;
    std::vector<std::thread> aborters;
    for (int t = 0; t < 2; ++t) {
      aborters.emplace_back([&, t] {
        Random random(7, static_cast<uint64_t>(t));
        while (!done) {
          core.abort(1 + random.below(kRequests));
          clock.sleep_until_ns(clock.now_ns() + 300 * kNsPerUs);
        }
      });
    }
    for (RequestId id = 1; id <= kRequests; ++id) {
      EngineRequest request = request_of(1, 1 + static_cast<int>(id % 25));
      request.prompt = prompt_for(id);
      ASSERT_EQ(*core.submit(std::move(request), ledger.callbacks()), id);
      if (id % 16 == 0) clock.sleep_until_ns(clock.now_ns() + kNsPerMs);
    }
    ledger.wait_for(kRequests);
    done = true;
    for (std::thread& aborter : aborters) aborter.join();
    EXPECT_EQ(core.counters().used_blocks, 0);
    // One that was aborted before the core took it ends too (the ledger saw all), but never was the loop's.
    EXPECT_LE(core.counters().requests_ended, static_cast<int64_t>(kRequests));
  }
}

TEST(CoreThread, ShutdownFromManyThreadsAtOnce) {
  RealClock clock;
  Ledger ledger;
  CoreThread core(config_of(), null_executor(clock), clock);
  std::atomic<int64_t> accepted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        if (core.submit(request_of(4, 30), ledger.callbacks()).is_ok()) ++accepted;
      }
      core.shutdown(kNsPerMs);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger.num_ends(), static_cast<size_t>(accepted));
}

TEST(CoreThread, TwoCoresInOneProcessDoNotKnowOfEachOther) {
  RealClock clock;
  Ledger first_ledger, second_ledger;
  CoreThread first(config_of(1), null_executor(clock), clock);
  auto second = std::make_unique<CoreThread>(config_of(2, 40), null_executor(clock), clock);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(*first.submit(request_of(10, 10), first_ledger.callbacks()), static_cast<RequestId>(i + 1));
    ASSERT_EQ(*second->submit(request_of(10, 10), second_ledger.callbacks()), static_cast<RequestId>(i + 1));
  }
  second_ledger.wait_for(100);
  second.reset();
  first_ledger.wait_for(100);
  EXPECT_EQ(first.counters().requests_ended, 100);
  for (RequestId id = 1; id <= 100; ++id) {
    EXPECT_EQ(first_ledger.end(id).tokens, second_ledger.end(id).tokens);
  }
}

// The end of a first request submits all the others, on the core's own thread: no plan comes between, so the
// thread's timing decides nothing.
TEST(CoreThread, PlansAreThoseOfTheLoopAlone) {
  for (const int depth : {1, 2}) {
    const auto prompt_length = [](int i) { return 5 + 7 * (i % 11); };
    const auto max_tokens = [](int i) { return 1 + 5 * (i % 7); };
    constexpr int kRequests = 60;

    VirtualClock virtual_clock;
    testing::Recorder recorder;
    FakeExecutor alone(virtual_clock, {});
    CoreLoop loop(scheduler_config(20, depth), alone, virtual_clock, &recorder);
    recorder.end_hook = [&](RequestId id) {
      if (id != 1) return;
      for (int i = 0; i < kRequests; ++i) {
        const Status added = testing::add_to(loop, {.id = static_cast<RequestId>(i + 2),
                                                    .prompt = prompt_of(prompt_length(i)),
                                                    .max_tokens = max_tokens(i)});
        EXPECT_TRUE(added.is_ok()) << added.message();
      }
    };
    testing::replay(loop, virtual_clock, {{.id = 1, .prompt = prompt_of(1), .max_tokens = 1}});
    ASSERT_EQ(recorder.ends.size(), kRequests + 1u);

    RealClock clock;
    Ledger ledger;
    FakeExecutor::Script script;
    script.step_ns = [](const StepPlan&) { return TimeNs{0}; };
    auto executor = std::make_unique<FakeExecutor>(clock, script);
    FakeExecutor& threaded = *executor;
    std::vector<StepRecord> steps;
    CoreThreadConfig config = config_of(depth, 20);
    config.on_step = [&steps](const StepPlan&, const StepRecord& record) { steps.push_back(record); };
    CoreThread core(std::move(config), std::move(executor), clock);
    EngineCallbacks first = ledger.callbacks();
    first.on_end = [&, told = first.on_end](RequestId id, EngineResult result) {
      for (int i = 0; i < kRequests; ++i) {
        const auto submitted = core.submit(
            request_of(prompt_length(i), max_tokens(i), fmt::format("r{}", i + 2)), ledger.callbacks());
        EXPECT_TRUE(submitted.is_ok());
      }
      told(id, std::move(result));
    };
    ASSERT_TRUE(core.submit(request_of(1, 1, "r1"), first).is_ok());
    ledger.wait_for(kRequests + 1);
    core.shutdown(0);
    EXPECT_EQ(threaded.digests, alone.digests) << "depth " << depth;
    EXPECT_GT(core.counters().preemptions, 0);
    ASSERT_EQ(steps.size(), recorder.steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(steps[i].entries, recorder.steps[i].entries);
      EXPECT_EQ(steps[i].preempted, recorder.steps[i].preempted);
    }
  }
}

}  // namespace
}  // namespace vllm
