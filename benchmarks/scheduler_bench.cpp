// What one step of the scheduler costs: schedule() and process_outputs() together, at a constant number of
// running requests that decode, prefix caching on, a pool that never runs out. Lengths are spread, so that in
// each step one request in block_size takes a new block and one fills a block and indexes it. One iteration
// is one step; requests are renewed between batches of steps, outside the measured time. The figures in
// docs/scheduler.md come from
//   build/release/bin/scheduler_bench --benchmark_repetitions=5

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

#include "base/random.h"
#include "sched/scheduler.h"

namespace vllm {
namespace {

constexpr int kStepsInBatch = 512;
constexpr int kBlockSize = 16;

class Bench {
 public:
  Bench(int running, int depth, bool caching) : running_(running), depth_(depth), random_(7) {
    SchedulerConfig config;
    config.num_blocks = std::max(56'498, running * 140);
    config.block_size = kBlockSize;
    config.max_model_len = 131'072;
    config.options.max_num_seqs = running;
    config.options.max_num_batched_tokens = 8192;
    config.options.enable_prefix_caching = caching;
    config.options.scheduling_depth = depth;
    scheduler_ = std::make_unique<Scheduler>(config);
    for (int i = 0; i <= depth; ++i) plans_.emplace_back();
  }

  // Replaces all requests by new ones of 100 to 1,600 tokens and computes their prompts. The outputs of the
  // batch that follows do not end any of them.
  void renew() {
    for (; !out_.empty(); out_.pop_front()) process(*out_.front());
    for (const RequestId id : scheduler_->running_ids()) scheduler_->abort(id);
    for (int i = 0; i < running_; ++i) {
      prompt_.clear();
      for (int64_t n = random_.between(100, 1600); n > 0; --n) {
        prompt_.push_back(static_cast<int32_t>(random_.below(100'000)));
      }
      RequestInput input;
      input.id = next_id_++;
      input.prompt = prompt_;
      input.max_tokens = kStepsInBatch + 4096;
      const int32_t eos[] = {200'000};
      input.eos_token_ids = eos;
      const Status added = scheduler_->add(input);
      if (!added.is_ok()) std::fprintf(stderr, "%s\n", added.message().c_str());
    }
    do {
      step();
    } while (scheduler_->num_waiting() > 0 || last_->total_tokens > running_);
  }

  void step() {
    StepPlan& plan = plans_[next_plan_++ % plans_.size()];
    scheduler_->schedule(plan);
    last_ = &plan;
    out_.push_back(&plan);
    if (static_cast<int>(out_.size()) < depth_) return;
    process(*out_.front());
    out_.pop_front();
  }

  const StepPlan& last() const { return *last_; }

 private:
  void process(const StepPlan& plan) {
    tokens_.resize(plan.entries.size());
    for (int32_t& token : tokens_) token = static_cast<int32_t>(next_token_++ & 0xFFFF);
    outputs_.clear();
    scheduler_->process_outputs(plan, tokens_, outputs_);
    benchmark::DoNotOptimize(outputs_.data());
  }

  const int running_;
  const int depth_;
  Random random_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<StepPlan> plans_;
  std::deque<StepPlan*> out_;
  const StepPlan* last_ = nullptr;
  size_t next_plan_ = 0;
  std::vector<int32_t> prompt_, tokens_;
  std::vector<RequestOutput> outputs_;
  RequestId next_id_ = 0;
  uint64_t next_token_ = 0;
};

void decode_step(benchmark::State& state) {
  Bench bench(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), true);
  int64_t new_blocks = 0, steps = 0;
  while (state.KeepRunningBatch(kStepsInBatch)) {
    state.PauseTiming();
    bench.renew();
    state.ResumeTiming();
    for (int i = 0; i < kStepsInBatch; ++i) {
      bench.step();
      new_blocks += static_cast<int64_t>(bench.last().blocks.size());
    }
    steps += kStepsInBatch;
  }
  state.counters["new_blocks_per_step"] = static_cast<double>(new_blocks) / static_cast<double>(steps);
}
BENCHMARK(decode_step)->ArgNames({"running", "depth"})->ArgsProduct({{16, 128, 256, 1024}, {1, 2}});

}  // namespace
}  // namespace vllm
