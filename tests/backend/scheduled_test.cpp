// The executor under the real scheduler: whatever budgets, pools, depths and prefix hits do to the plans,
// every request gets the tokens that it gets alone.

#include <algorithm>
#include <deque>

#include "base/random.h"
#include "sched/scheduler.h"
#include "support/plan_driver.h"

namespace vllm::testing {
namespace {

struct Job {
  std::vector<int32_t> prompt;
  int32_t max_tokens;
  SamplingParams params;
  int arrives_at_step;
};

std::vector<Job> make_jobs(int64_t vocab) {
  Random random(99);
  std::vector<int32_t> shared(70);
  for (int32_t& token : shared) token = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab)));
  std::vector<Job> jobs;
  for (int i = 0; i < 24; ++i) {
    Job job;
    if (i % 3 == 0) job.prompt = shared;
    const auto own = random.between(1, 60);
    for (int64_t k = 0; k < own; ++k) {
      job.prompt.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab))));
    }
    job.max_tokens = static_cast<int32_t>(random.between(1, 40));
    if (i % 2 == 0) {
      job.params.temperature = 0.9;
      job.params.top_k = 20;
      if (i % 4 == 0) job.params.seed = i;
    }
    job.arrives_at_step = i / 2;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

struct Served {
  std::map<RequestId, std::vector<int32_t>> tokens;
  SchedulerStats stats;
  int64_t most_tokens_in_a_step = 0;
};

// One executor and one scheduler from start to end, with as many plans out as the depth allows.
Served serve(const std::vector<Job>& jobs, const SchedulerOptions& options, int64_t blocks, int threads) {
  RigOptions rig_options;
  rig_options.blocks = blocks;
  rig_options.kv = KvCacheDType::kBFloat16;
  rig_options.executor.threads = threads;
  const auto rig = make_rig(golden_path("tiny/f32"), rig_options);
  SchedulerConfig config;
  config.num_blocks = blocks;
  config.block_size = 16;
  config.max_model_len = 256;
  config.options = options;
  Scheduler scheduler(config);
  Served run;
  std::deque<StepPlan> out;
  size_t next = 0;
  for (int step = 0; next < jobs.size() || scheduler.has_work() || !out.empty(); ++step) {
    for (; next < jobs.size() && jobs[next].arrives_at_step <= step; ++next) {
      const RequestId id = next + 1;
      RequestInput input;
      input.id = id;
      input.prompt = jobs[next].prompt;
      input.max_tokens = jobs[next].max_tokens;
      input.ignore_eos = true;
      EXPECT_TRUE(scheduler.add(input).is_ok());
      rig->executor->add_request(id, jobs[next].params);
    }
    if (scheduler.has_work()) {
      StepPlan& plan = out.emplace_back();
      scheduler.schedule(plan);
      run.most_tokens_in_a_step = std::max(run.most_tokens_in_a_step, plan.total_tokens);
      const Status launched = rig->executor->launch(plan);
      EXPECT_TRUE(launched.is_ok()) << launched.message();
    }
    const bool more = scheduler.has_requests() && static_cast<int>(out.size()) < options.scheduling_depth;
    if (out.empty() || more) continue;
    StepResult result;
    const Status collected = rig->executor->collect(result);
    EXPECT_TRUE(collected.is_ok()) << collected.message();
    if (!collected.is_ok()) return run;
    std::vector<RequestOutput> outputs;
    scheduler.process_outputs(out.front(), result.tokens, outputs);
    out.pop_front();
    for (const RequestOutput& output : outputs) run.tokens[output.id].push_back(output.token);
  }
  run.stats = scheduler.stats();
  return run;
}

SchedulerOptions options_of(int seqs, int budget, int depth = 1) {
  SchedulerOptions options;
  options.max_num_seqs = seqs;
  options.max_num_batched_tokens = budget;
  options.scheduling_depth = depth;
  return options;
}

class ScheduledTest : public ::testing::Test {
 protected:
  // One at a time, without the prefix cache: what every other run must repeat.
  static void SetUpTestSuite() {
    jobs_ = std::make_unique<std::vector<Job>>(make_jobs(96));
    SchedulerOptions options = options_of(1, 1024);
    options.enable_prefix_caching = false;
    alone_ = std::make_unique<Served>(serve(*jobs_, options, 128, 1));
  }
  static void TearDownTestSuite() {
    jobs_.reset();
    alone_.reset();
  }
  static void expect_same(const Served& run) {
    ASSERT_EQ(run.tokens.size(), jobs_->size());
    for (const auto& [id, tokens] : alone_->tokens) {
      EXPECT_EQ(tokens.size(), static_cast<size_t>((*jobs_)[id - 1].max_tokens));
      EXPECT_EQ(run.tokens.at(id), tokens) << "request " << id;
    }
  }
  static std::unique_ptr<std::vector<Job>> jobs_;
  static std::unique_ptr<Served> alone_;
};
std::unique_ptr<std::vector<Job>> ScheduledTest::jobs_;
std::unique_ptr<Served> ScheduledTest::alone_;

TEST_F(ScheduledTest, Batched) {
  const Served run = serve(*jobs_, options_of(24, 1024), 256, 2);
  EXPECT_GT(run.most_tokens_in_a_step, 100);
  expect_same(run);
}

TEST_F(ScheduledTest, ChunkedBySmallBudgets) {
  for (const int budget : {9, 17, 64}) {
    SchedulerOptions options = options_of(8, budget);
    options.enable_prefix_caching = false;
    const Served run = serve(*jobs_, options, 256, 2);
    EXPECT_LE(run.most_tokens_in_a_step, budget);
    expect_same(run);
  }
}

TEST_F(ScheduledTest, WithPrefixHits) {
  const Served run = serve(*jobs_, options_of(8, 256), 256, 2);
  EXPECT_GT(run.stats.prefix_hits, 200);
  expect_same(run);
}

TEST_F(ScheduledTest, PreemptedAndResumed) {
  SchedulerOptions options = options_of(12, 64);
  options.reserve_full_isl = false;
  for (const bool caching : {false, true}) {
    options.enable_prefix_caching = caching;
    const Served run = serve(*jobs_, options, 24, 2);
    EXPECT_GT(run.stats.preemptions, 3);
    expect_same(run);
  }
}

TEST_F(ScheduledTest, WithTwoStepsInFlight) {
  expect_same(serve(*jobs_, options_of(24, 1024, 2), 256, 2));
  SchedulerOptions options = options_of(12, 40, 2);
  options.reserve_full_isl = false;
  const Served run = serve(*jobs_, options, 24, 1);
  EXPECT_GT(run.stats.preemptions, 3);
  expect_same(run);
}

}  // namespace
}  // namespace vllm::testing
