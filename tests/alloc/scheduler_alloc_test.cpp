// A step, an output and an abort take no heap memory in the steady state. This binary replaces operator new
// to count; only this test belongs in it.

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include "sched/scheduler.h"

namespace {
std::atomic<long> allocations{0};
}

// Not inlined: GCC would take free() for the wrong partner of an operator new that it sees through.
#define VLLM_NOINLINE __attribute__((noinline))
VLLM_NOINLINE void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
VLLM_NOINLINE void* operator new(std::size_t size, std::align_val_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto align = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(align, (size + align - 1) / align * align)) return memory;
  throw std::bad_alloc();
}
VLLM_NOINLINE void operator delete(void* memory) noexcept { std::free(memory); }
VLLM_NOINLINE void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
VLLM_NOINLINE void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
VLLM_NOINLINE void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace vllm::testing {
namespace {

struct Case {
  int depth;
  SchedulingPolicy policy;
  bool groups;
  PrefixHash hash;
};

// Requests come and go over a pool that is too small for them, so steps admit, hit, chunk, cross blocks,
// preempt and resume. Only add() may allocate.
class Load {
 public:
  explicit Load(const Case& c) : depth_(c.depth), rng_(5) {
    SchedulerConfig config;
    config.num_blocks = 200;
    config.max_model_len = 1024;
    config.options.max_num_seqs = 16;
    config.options.max_num_batched_tokens = 256;
    config.options.policy = c.policy;
    config.options.scheduling_depth = c.depth;
    config.prefix_hash = c.hash;
    if (c.groups) {
      config.groups.resize(2);
      config.groups[1].kind = LayerKind::kSliding;
      config.groups[1].window = 100;
      config.num_blocks = 300;
    }
    scheduler_ = std::make_unique<Scheduler>(config);
    plans_.resize(static_cast<size_t>(c.depth) + 1);
    for (StepPlan& plan : plans_) {
      plan.entries.reserve(16);
      plan.tokens.reserve(256);
      plan.blocks.reserve(2048);
      plan.block_counts.reserve(32);
      plan.preempted.reserve(16);
      plan.ended.reserve(4096);
    }
    outputs_.reserve(16);
    tokens_.reserve(16);
  }

  // Returns the allocations of everything but add().
  long run(int steps) {
    long counted = 0;
    for (int i = 0; i < steps; ++i) {
      while (scheduler_->num_running() + scheduler_->num_waiting() < 24) add();
      const long before = allocations.load();
      step();
      if (i % 37 == 0) scheduler_->abort(next_id_ - 1 - rng_() % 24);
      counted += allocations.load() - before;
    }
    return counted;
  }

  const SchedulerStats& stats() const { return scheduler_->stats(); }

 private:
  void add() {
    std::vector<int32_t> prompt(40 + rng_() % 400);
    const int32_t first = static_cast<int32_t>(rng_() % 4);
    for (size_t i = 0; i < prompt.size(); ++i) {
      prompt[i] = i < 100 ? first : static_cast<int32_t>(rng_() % 1000);
    }
    RequestInput input;
    input.id = next_id_++;
    input.prompt = prompt;
    input.max_tokens = static_cast<int32_t>(16 + rng_() % 200);
    input.priority = static_cast<int>(rng_() % 3);
    ASSERT_TRUE(scheduler_->add(input).is_ok());
  }

  void step() {
    StepPlan& plan = plans_[planned_ % plans_.size()];
    scheduler_->schedule(plan);
    ++planned_;
    if (planned_ - processed_ < static_cast<size_t>(depth_)) return;
    const StepPlan& done = plans_[processed_++ % plans_.size()];
    tokens_.clear();
    for (size_t i = 0; i < done.entries.size(); ++i) tokens_.push_back(static_cast<int32_t>(rng_() % 1000));
    outputs_.clear();
    scheduler_->process_outputs(done, tokens_, outputs_);
  }

  int depth_;
  std::mt19937_64 rng_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<StepPlan> plans_;
  size_t planned_ = 0, processed_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<RequestOutput> outputs_;
  RequestId next_id_ = 100;
};

TEST(SchedulerAllocations, NoneInTheSteadyState) {
  for (const Case& c : {Case{1, SchedulingPolicy::kFcfs, false, PrefixHash::kXxh128},
                        Case{2, SchedulingPolicy::kFcfs, false, PrefixHash::kSha256},
                        Case{1, SchedulingPolicy::kPriority, false, PrefixHash::kXxh128},
                        Case{2, SchedulingPolicy::kPriority, true, PrefixHash::kXxh128},
                        Case{2, SchedulingPolicy::kFcfs, true, PrefixHash::kXxh128}}) {
    Load load(c);
    EXPECT_EQ(load.run(20'000), 0) << "depth " << c.depth << " groups " << c.groups;
    EXPECT_GT(load.stats().preemptions, 100);
    EXPECT_GT(load.stats().prefix_hits, 1000);
  }
}

TEST(SchedulerAllocations, AreCounted) {
  const long before = allocations.load();
  const auto one = std::make_unique<int>(1);
  EXPECT_EQ(allocations.load() - before, 1);
}

}  // namespace
}  // namespace vllm::testing
