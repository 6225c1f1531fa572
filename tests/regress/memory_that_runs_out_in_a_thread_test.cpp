// Memory that ran out on a thread of ours was an exception that nobody caught: the process was aborted, and
// who waited for an end never heard of one.

#include <condition_variable>
#include <map>
#include <mutex>
#include <new>

#include "backend/null_executor.h"
#include "base/thread_pool.h"
#include "engine/core_thread.h"

namespace vllm {
namespace {

// Has no memory left for the launch with this number.
class StarvingExecutor final : public Executor {
 public:
  StarvingExecutor(Clock& clock, int64_t starves_at) : inner_(clock, 1000), starves_at_(starves_at) {}
  void add_request(RequestId id, const SamplingParams& params) override { inner_.add_request(id, params); }
  Status launch(const StepPlan& plan) override {
    if (launches_++ == starves_at_) throw std::bad_alloc();
    return inner_.launch(plan);
  }
  Status collect(StepResult& result) override { return inner_.collect(result); }
  int max_in_flight() const override { return inner_.max_in_flight(); }
  std::string name() const override { return "starving"; }

 private:
  NullExecutor inner_;
  int64_t starves_at_, launches_ = 0;
};

TEST(MemoryThatRunsOutInAThread, EveryRequestHearsOfItsEnd) {
  for (const int64_t starves_at : {0, 1, 5}) {
    RealClock clock;
    CoreThreadConfig config;
    config.scheduler.num_blocks = 64;
    config.scheduler.block_size = 16;
    config.scheduler.max_model_len = 512;
    config.scheduler.options.max_num_seqs = 2;
    config.scheduler.options.max_num_batched_tokens = 64;
    config.vocab_size = 1000;
    std::mutex mutex;
    std::condition_variable changed;
    std::map<RequestId, Status> ends;
    CoreThread core(std::move(config), std::make_unique<StarvingExecutor>(clock, starves_at), clock);
    constexpr size_t kRequests = 5;
    size_t accepted = 0;
    for (size_t i = 0; i < kRequests; ++i) {
      EngineRequest request;
      request.prompt = {1, 2, 3};
      request.max_tokens = 200;
      EngineCallbacks callbacks;
      callbacks.on_end = [&](RequestId id, EngineResult result) {
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(ends.emplace(id, result.status).second) << "request " << id << " ended twice";
        changed.notify_all();
      };
      // Those that come after the end are refused at once.
      accepted += core.submit(std::move(request), std::move(callbacks)).is_ok() ? 1 : 0;
    }
    EXPECT_GE(accepted, 1u);
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return ends.size() == accepted; });
    }
    for (const auto& [id, status] : ends) {
      EXPECT_EQ(status.message(), "out of memory in the engine's core thread") << id;
      EXPECT_EQ(exit_code(status), 1);
    }
    EXPECT_FALSE(core.health().is_ok());
    core.shutdown(0);
  }
}

TEST(MemoryThatRunsOutInAThread, APoolSaysWhetherItHasItsThreads) {
  ThreadPool pool(3);
  EXPECT_TRUE(pool.status().is_ok());
  EXPECT_EQ(pool.num_threads(), 3);
}

}  // namespace
}  // namespace vllm
