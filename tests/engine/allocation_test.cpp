// In the steady state a step takes nothing from the heap: counted, by replacing the global operators in this
// program.

#include <cstdlib>
#include <new>

#include "engine/core_loop.h"
#include "engine/support.h"

namespace {

// Allocations of this thread while it counts.
thread_local bool counting = false;
thread_local int64_t allocations = 0;

void* take(std::size_t bytes) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new[](std::size_t bytes) { return take(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace vllm {
namespace {

// Two slots and no containers that grow.
class FixedExecutor final : public Executor {
 public:
  explicit FixedExecutor(Clock& clock) : clock_(clock) {}
  void add_request(RequestId, const SamplingParams&) override {}
  Status launch(const StepPlan& plan) override {
    plans_[launched_++ % 2] = &plan;
    return Status::ok();
  }
  Status collect(StepResult& result) override {
    result.tokens.assign(plans_[collected_++ % 2]->entries.size(), 77);
    result.ready_ns = clock_.now_ns();
    return Status::ok();
  }
  int max_in_flight() const override { return 2; }
  std::string name() const override { return "fixed"; }

 private:
  Clock& clock_;
  const StepPlan* plans_[2] = {};
  size_t launched_ = 0, collected_ = 0;
};

class CountingObserver final : public CoreObserver {
 public:
  void on_token(RequestId, int32_t, TimeNs) override { ++tokens; }
  void on_end(RequestId, EndReason, const RequestTimes&) override { ++ends; }
  void on_step(const StepPlan&, const StepRecord& record) override {
    entries += static_cast<int64_t>(record.entries.size());
  }
  int64_t tokens = 0, ends = 0, entries = 0;
};

TEST(CoreLoopAllocation, AStepTakesNothingFromTheHeapInTheSteadyState) {
  for (const int depth : {1, 2}) {
    constexpr int kRequests = 64, kWarmup = 80, kCounted = 300;
    RealClock clock;
    CountingObserver observer;
    FixedExecutor executor(clock);
    SchedulerConfig config = testing::scheduler_config(4096, depth);
    config.options.max_num_seqs = kRequests;
    config.options.max_num_batched_tokens = 256;
    CoreLoop loop(config, executor, clock, &observer);
    for (RequestId id = 1; id <= kRequests; ++id) {
      ASSERT_TRUE(
          testing::add_to(loop, {.id = id, .prompt = testing::prompt_of(40), .max_tokens = 600}).is_ok());
    }
    for (int i = 0; i < 2 * kWarmup; ++i) ASSERT_TRUE(loop.turn().value());
    const int64_t tokens_before = observer.tokens;
    allocations = 0;
    counting = true;
    for (int i = 0; i < 2 * kCounted; ++i) {
      if (!loop.turn().is_ok()) break;
    }
    counting = false;
    EXPECT_EQ(allocations, 0) << "depth " << depth;
    EXPECT_EQ(observer.tokens - tokens_before, kRequests * kCounted);
    EXPECT_EQ(observer.ends, 0);
    EXPECT_GT(observer.entries, kRequests * kCounted);
  }
}

}  // namespace
}  // namespace vllm
