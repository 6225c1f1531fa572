#include "bench/engine_target.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>

namespace vllm {
namespace {

class EngineTarget final : public SystemUnderTest {
 public:
  ~EngineTarget() override { stop(); }

  Status start(const Options& options, Clock& clock) {
    EngineSettings settings;
    settings.null_executor = options.bench_run.null_executor;
    settings.on_step = [this](const StepPlan&, const StepRecord& record) {
      // The engine exists: its first step follows the first submission.
      if (TargetObserver* observer = observer_.load(std::memory_order_acquire)) {
        observer->on_step(engine_->counters(), record);
      }
    };
    VLLM_ASSIGN_OR_RETURN(engine_, Engine::start(options, settings, clock));
    facts_ = engine_->facts();
    return Status::ok();
  }

  std::string name() const override { return "in-process"; }

  void observe(TargetObserver* observer) override { observer_.store(observer, std::memory_order_release); }

  Status issue(TargetRequest request) override {
    EngineRequest engine_request;
    engine_request.name = std::move(request.name);
    engine_request.prompt = std::move(request.prompt);
    engine_request.max_tokens = engine_request.min_tokens = request.output_tokens;
    engine_request.ignore_eos = true;
    engine_request.sampling.temperature = 0.0;

    EngineCallbacks callbacks;
    const size_t index = request.index;
    callbacks.on_token = [this, index](RequestId, int32_t, TimeNs ready_ns) {
      if (TargetObserver* observer = observer_.load(std::memory_order_acquire))
        observer->on_token(index, ready_ns);
    };
    callbacks.on_end = [this, index](RequestId id, EngineResult result) {
      ended(id);
      if (TargetObserver* observer = observer_.load(std::memory_order_acquire)) {
        observer->on_end(
            index, {result.status, result.reason, static_cast<int64_t>(result.tokens.size()), result.times});
      }
    };
    VLLM_ASSIGN_OR_RETURN(const RequestId id,
                          engine_->submit(std::move(engine_request), std::move(callbacks)));
    const std::lock_guard lock(mutex_);
    // The end may have come before submit returned the id.
    if (early_ends_.erase(id) == 0) live_.insert(id);
    return Status::ok();
  }

  void abort_all() override {
    std::set<RequestId> ids;
    {
      const std::lock_guard lock(mutex_);
      ids = live_;
    }
    for (const RequestId id : ids) engine_->abort(id);
  }

  bool reset_for_measurement() override { return engine_->reset_for_measurement(); }

  void stop() override {
    if (engine_ == nullptr) return;
    engine_->shutdown(0);
    counters_ = engine_->counters();
    memory_ = memory();
    health_ = engine_->health();
    engine_.reset();
  }

  Status health() const override { return engine_ != nullptr ? engine_->health() : health_; }
  CoreCounters counters() const override { return engine_ != nullptr ? engine_->counters() : counters_; }
  const EngineFacts* facts() const override { return &facts_; }

  std::vector<MemoryUse> memory() const override {
    if (engine_ == nullptr) return memory_;
    std::vector<MemoryUse> uses;
    const DeviceMemory& memory = engine_->memory();
    for (const auto purpose : {MemoryPurpose::kWeights, MemoryPurpose::kKvCache, MemoryPurpose::kWorkspace}) {
      uses.push_back(
          {memory_purpose_name(purpose), memory.held_bytes(purpose), memory.peak_held_bytes(purpose)});
    }
    return uses;
  }

 private:
  void ended(RequestId id) {
    const std::lock_guard lock(mutex_);
    if (live_.erase(id) == 0) early_ends_.insert(id);
  }

  std::atomic<TargetObserver*> observer_ = nullptr;
  std::mutex mutex_;  // guards the two sets
  std::set<RequestId> live_, early_ends_;
  EngineFacts facts_;
  CoreCounters counters_;
  std::vector<MemoryUse> memory_;
  Status health_;
  // Last: its destructor joins the core thread, which uses everything above.
  std::unique_ptr<Engine> engine_;
};

}  // namespace

Result<std::unique_ptr<SystemUnderTest>> start_engine_target(const Options& options, Clock& clock) {
  auto target = std::make_unique<EngineTarget>();
  VLLM_RETURN_IF_ERROR(target->start(options, clock));
  return std::unique_ptr<SystemUnderTest>(std::move(target));
}

}  // namespace vllm
