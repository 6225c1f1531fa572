// Random worlds through the loop: every invariant of docs/architecture.md with its checker, and the promise
// that equal input and equal step times give equal plans.

#include <set>

#include "base/random.h"
#include "engine/core_loop.h"
#include "engine/support.h"
#include "support/checker_kv_conservation.h"
#include "support/checker_kv_truth.h"
#include "support/checker_plan_consistency.h"
#include "support/checker_request_lifecycle.h"

namespace vllm {
namespace {

using testing::FakeExecutor;
using testing::kEos;
using testing::Recorder;
using testing::TestRequest;

SchedulerConfig random_config(Random& random) {
  SchedulerConfig config;
  config.block_size = 1 << random.between(1, 4);
  config.num_blocks = random.between(12, 60);
  config.max_model_len = random.between(20, 200);
  config.options.max_num_seqs = static_cast<int>(random.between(1, 12));
  config.options.max_num_batched_tokens = static_cast<int>(random.between(4, 64));
  config.options.scheduling_depth = static_cast<int>(random.between(1, 2));
  config.options.policy = random.below(3) == 0 ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
  config.options.enable_prefix_caching = random.below(4) != 0;
  config.options.reserve_full_isl = random.below(2) == 0;
  config.options.watermark = random.below(3) == 0 ? 0.05 : 0.0;
  config.options.long_prefill_token_threshold = random.below(3) == 0 ? 7 : 0;
  return config;
}

std::vector<TestRequest> random_requests(Random& random, const SchedulerConfig& config, int count) {
  std::vector<TestRequest> requests;
  TimeNs arrival_ns = 0;
  for (int i = 0; i < count; ++i) {
    TestRequest request;
    if (random.below(3) != 0) arrival_ns += random.between(0, 4 * kNsPerMs);
    request.arrival_ns = arrival_ns;
    request.id = static_cast<RequestId>(i + 1);
    // Few different tokens, so that prefixes are shared.
    const int64_t length = random.between(1, std::min<int64_t>(60, config.max_model_len - 1));
    const auto seed = static_cast<int32_t>(random.below(3));
    for (int64_t t = 0; t < length; ++t) request.prompt.push_back(100 + seed + static_cast<int32_t>(t / 20));
    request.max_tokens = static_cast<int32_t>(random.between(1, 30));
    request.ignore_eos = random.below(2) == 0;
    request.priority = static_cast<int>(random.below(3));
    requests.push_back(request);
  }
  return requests;
}

int32_t token_of(RequestId id, int64_t position) {
  uint64_t state = id * 1'000'003 + static_cast<uint64_t>(position);
  const uint64_t bits = splitmix64(state);
  return bits % 40 == 0 ? kEos : static_cast<int32_t>(100 + bits % 5);
}

// One world from one seed: requests, step times, aborts between turns, while steps run and from callbacks.
class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed),
        config_(random_config(random_)),
        requests_(random_requests(random_, config_, 60)),
        executor_(clock_, make_script()),
        loop_(config_, executor_, clock_, &recorder_),
        plans_(config_),
        truth_(config_, [this](RequestId id, int64_t index) { return output(id, index); }) {
    for (const TestRequest& request : requests_) prompt_length_[request.id] = request.prompt.size();
    executor_.on_launch = [this](const StepPlan& plan) {
      check(plans_.on_plan(plan, loop_.scheduler()));
      check(truth_.on_plan(plan));
      check(testing::check_kv_conservation(loop_.scheduler(), 1));
    };
    recorder_.collected_hook = [this] { maybe_abort(60); };
    recorder_.token_hook = [this](RequestId id, int32_t token) {
      EXPECT_EQ(token, output(id, static_cast<int64_t>(recorder_.tokens[id].size()) - 1)) << "request " << id;
      maybe_abort(300);
    };
    recorder_.step_hook = [this](const StepPlan&) {
      check(testing::check_kv_conservation(loop_.scheduler(), 1));
    };
  }

  void run() {
    size_t next = 0;
    bool worked = true;
    for (int turns = 0; turns < 100'000; ++turns) {
      while (next < requests_.size() && requests_[next].arrival_ns <= clock_.now_ns()) add(requests_[next++]);
      maybe_abort(60);
      const Result<bool> turned = loop_.turn();
      ASSERT_TRUE(turned.is_ok()) << turned.status().message();
      worked = turned.value();
      if (worked) continue;
      if (next == requests_.size()) break;
      clock_.advance_to_ns(requests_[next].arrival_ns);
    }
    ASSERT_FALSE(worked) << "the loop does not come to rest";
    check_rest();
  }

  const std::vector<std::string>& digests() const { return executor_.digests; }
  const std::vector<StepRecord>& steps() const { return recorder_.steps; }
  const std::vector<std::string>& events() const { return recorder_.events; }
  int64_t preemptions() const { return loop_.counters().preemptions; }

 private:
  FakeExecutor::Script make_script() {
    FakeExecutor::Script script;
    script.block_size = config_.block_size;
    script.token = [](RequestId id, int32_t position) { return token_of(id, position); };
    // A time that depends on the plan alone.
    script.step_ns = [](const StepPlan& plan) {
      return kNsPerMs / 2 + plan.total_tokens * 20 * kNsPerUs + (plan.step % 7) * 100 * kNsPerUs;
    };
    return script;
  }

  int32_t output(RequestId id, int64_t index) const {
    return token_of(id, static_cast<int64_t>(prompt_length_.at(id)) + index);
  }

  void add(const TestRequest& request) {
    const Status added = testing::add_to(loop_, request);
    if (!added.is_ok()) {
      EXPECT_EQ(added.code(), StatusCode::kRefused) << added.message();
      EXPECT_FALSE(loop_.has_request(request.id));
      return;
    }
    truth_.on_add(request.id, request.prompt);
    accepted_.insert(request.id);
  }

  void maybe_abort(uint64_t one_in) {
    if (random_.below(one_in) != 0 || accepted_.empty()) return;
    const RequestId id = 1 + random_.below(requests_.size());
    const bool lives = loop_.has_request(id);
    const bool ended_before = recorder_.ends.contains(id);
    const bool aborted = loop_.abort(id);
    if (aborted) {
      EXPECT_TRUE(lives);
      EXPECT_EQ(recorder_.ends.at(id).reason, EndReason::kAborted);
    } else {
      EXPECT_EQ(recorder_.ends.contains(id), ended_before);
    }
  }

  void check(const std::string& problem) { EXPECT_EQ(problem, ""); }

  void check_rest() {
    EXPECT_TRUE(loop_.idle());
    EXPECT_EQ(loop_.num_requests(), 0);
    EXPECT_EQ(executor_.num_known(), 0u);
    EXPECT_EQ(recorder_.ends.size(), accepted_.size());
    const CoreCounters& counters = loop_.counters();
    EXPECT_EQ(counters.used_blocks, 0);
    EXPECT_EQ(counters.requests_ended, static_cast<int64_t>(accepted_.size()));
    EXPECT_EQ(counters.steps, static_cast<int64_t>(recorder_.steps.size()));
    int64_t generated = 0, prompts = 0, cached = 0, preempted = 0;
    for (const auto& [id, tokens] : recorder_.tokens) {
      generated += static_cast<int64_t>(tokens.size());
      prompts += static_cast<int64_t>(prompt_length_.at(id));
      cached += recorder_.ends.at(id).times.cached_tokens;
    }
    for (const auto& [id, end] : recorder_.ends) preempted += end.times.num_preemptions;
    EXPECT_EQ(counters.generation_tokens, generated);
    EXPECT_EQ(counters.prompt_tokens, prompts);
    EXPECT_EQ(counters.prompt_tokens_cached, cached);
    EXPECT_EQ(counters.prompt_tokens_computed, prompts - cached);
    EXPECT_EQ(counters.preemptions, preempted);
    for (const auto& [id, end] : recorder_.ends) check_times(id, end);
  }

  // queued <= first scheduled <= first token <= last token <= finished, as far as it happened.
  void check_times(RequestId id, const testing::EndedRequest& end) {
    const RequestTimes& times = end.times;
    EXPECT_GE(times.queued_ns, requests_[id - 1].arrival_ns);
    EXPECT_GE(times.finished_ns, times.queued_ns);
    if (!recorder_.tokens.contains(id)) {
      EXPECT_EQ(end.reason, EndReason::kAborted);
      return;
    }
    EXPECT_LE(times.queued_ns, times.scheduled_ns);
    EXPECT_LT(times.scheduled_ns, times.first_token_ns);
    EXPECT_LE(times.first_token_ns, times.last_token_ns);
    EXPECT_LE(times.last_token_ns, times.finished_ns);
    EXPECT_EQ(times.first_token_ns, recorder_.token_times.at(id).front());
    EXPECT_EQ(times.last_token_ns, recorder_.token_times.at(id).back());
    EXPECT_TRUE(std::is_sorted(recorder_.token_times.at(id).begin(), recorder_.token_times.at(id).end()));
  }

  Random random_;
  const SchedulerConfig config_;
  const std::vector<TestRequest> requests_;
  std::map<RequestId, size_t> prompt_length_;
  std::set<RequestId> accepted_;
  VirtualClock clock_;
  Recorder recorder_;
  FakeExecutor executor_;
  CoreLoop loop_;
  testing::PlanConsistencyChecker plans_;
  testing::KvTruthChecker truth_;
};

TEST(CoreLoopRandom, InvariantsHoldAndEqualWorldsGiveEqualPlans) {
  int64_t steps = 0, preemptions = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    World first(seed);
    first.run();
    World second(seed);
    second.run();
    EXPECT_EQ(first.digests(), second.digests()) << "seed " << seed;
    EXPECT_EQ(first.steps(), second.steps()) << "seed " << seed;
    EXPECT_EQ(first.events(), second.events()) << "seed " << seed;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    steps += static_cast<int64_t>(first.steps().size());
    preemptions += first.preemptions();
  }
  // The worlds are worth their time only if they are crowded.
  EXPECT_GT(steps, 15'000);
  EXPECT_GT(preemptions, 400);
}

}  // namespace
}  // namespace vllm
