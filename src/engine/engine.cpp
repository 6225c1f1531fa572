#include "engine/engine.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "backend/cpu/cpu_executor.h"
#include "backend/null_executor.h"
#include "base/log.h"
#include "base/memory_facts.h"
#include "base/units.h"
#include "engine/core_thread.h"
#include "engine/preparation.h"
#include "engine/progress.h"
#include "model/weights.h"

namespace vllm {

// In the order of dependence: the core's executor holds buffers of the memory.
struct Engine::Impl {
  EngineFacts facts;
  std::unique_ptr<DeviceMemory> own_memory;
  DeviceMemory* memory = nullptr;
  std::unique_ptr<CoreThread> core;
};

namespace {

std::string executor_limits_error(const std::string& name, int depth, int max_in_flight) {
  return fmt::format(
      "--scheduling-depth {}: the executor {} takes {} step at a time; use --scheduling-depth {}", depth,
      name, max_in_flight, max_in_flight);
}

// What this process took since `before`. Other processes move the machine's free memory too, so it is at most
// what this process's own resident memory grew by.
int64_t bytes_taken(const DeviceMemoryInfo& before, int64_t rss_before, const DeviceMemory& memory) {
  const int64_t device = std::max<int64_t>(0, before.free_bytes - memory.info().free_bytes);
  const int64_t resident = std::max<int64_t>(0, read_process_memory().rss_bytes - rss_before);
  return std::min(device, resident);
}

void log_plan(const KvPlan& plan, bool allocated) {
  log_info(
      "KV plan: {} blocks of {} tokens, decided by {}: {} tokens in {}{}; max_model_len {}, room for {:.2f} "
      "such "
      "sequences",
      plan.blocks, plan.spec.block_size, plan.decided_by, plan.tokens, format_bytes(plan.pool_bytes),
      allocated ? "" : " (not allocated: null executor)", plan.max_model_len,
      plan.concurrency_at_max_model_len);
  for (const std::string& note : plan.notes) log_info("KV plan: {}", note);
}

// A model's forward on the CPU, from loading to the allocated pool.
class CpuStart {
 public:
  CpuStart(const EnginePreparation& preparation, DeviceMemory& memory, const Clock& clock)
      : preparation_(preparation), memory_(memory), clock_(clock) {}

  // `facts` are those from headers; on the measuring paths `plan`, made from them, is replaced.
  Result<std::unique_ptr<Executor>> run(MemoryFacts facts, KvPlan& plan, EngineFacts& engine_facts);

 private:
  Result<ModelWeights> load(EngineFacts& engine_facts);
  Result<int64_t> measure(CpuExecutor& executor, MemoryFacts& facts, int64_t rss_before);
  Status verify(const KvPlan& plan, int64_t transient_bytes) const;

  const EnginePreparation& preparation_;
  DeviceMemory& memory_;
  const Clock& clock_;
};

Result<ModelWeights> CpuStart::load(EngineFacts& engine_facts) {
  const Options& options = preparation_.options;
  const bool dummy = options.model.load_format == LoadFormat::kDummy;
  const Progress progress(dummy ? "making dummy weights" : "loading weights", clock_);
  VLLM_ASSIGN_OR_RETURN(ModelWeights weights,
                        load_weights(options.model.model, preparation_.model, options.model.load_format,
                                     preparation_.dtype, options.runtime.seed));
  engine_facts.weights_bytes = weights.total_bytes;
  engine_facts.weights_load_ns = progress.elapsed_ns();
  log_info("weights: {} {} in {:.2f} s", format_bytes(weights.total_bytes), dummy ? "made" : "loaded",
           ns_to_s(engine_facts.weights_load_ns));
  return weights;
}

// Returns the transient peak of the largest step.
Result<int64_t> CpuStart::measure(CpuExecutor& executor, MemoryFacts& facts, int64_t rss_before) {
  const Progress progress("measuring the largest step", clock_);
  const DeviceMemoryInfo before{facts.device, facts.total_bytes, facts.free_bytes, facts.shared_with_host};
  VLLM_ASSIGN_OR_RETURN(const int64_t transient_bytes, executor.profile_workspace());
  const int64_t held_bytes = memory_.held_bytes(MemoryPurpose::kWorkspace);
  facts.workspace_bytes = held_bytes + transient_bytes;
  facts.process_bytes =
      std::max<int64_t>(0, bytes_taken(before, rss_before, memory_) - facts.weights_bytes - held_bytes);
  facts.measured = true;
  log_info("workspace: {} measured with a step of {} tokens and {} rows of logits in {:.2f} s",
           format_bytes(facts.workspace_bytes), preparation_.cpu.max_num_batched_tokens,
           std::min(preparation_.cpu.max_num_seqs, preparation_.cpu.max_num_batched_tokens),
           ns_to_s(progress.elapsed_ns()));
  return transient_bytes;
}

// Memory may have gone to others since the plan was made.
Status CpuStart::verify(const KvPlan& plan, int64_t transient_bytes) const {
  const int64_t free_bytes = memory_.info().free_bytes;
  const auto needed = checked_add(plan.pool_bytes, transient_bytes);
  if (needed && *needed <= free_bytes) return Status::ok();
  return refused(
      "the KV pool of {} and {} for a step no longer fit: {} are free on {} now; lower --num-blocks, "
      "--kv-cache-memory or --gpu-memory-utilization, or end what took the memory meanwhile",
      format_bytes(plan.pool_bytes), format_bytes(transient_bytes), format_bytes(free_bytes),
      memory_.info().device);
}

Result<std::unique_ptr<Executor>> CpuStart::run(MemoryFacts facts, KvPlan& plan, EngineFacts& engine_facts) {
  const int64_t rss_before = read_process_memory().rss_bytes;
  VLLM_ASSIGN_OR_RETURN(ModelWeights weights, load(engine_facts));
  const int64_t weights_bytes = weights.total_bytes;
  VLLM_ASSIGN_OR_RETURN(
      std::unique_ptr<CpuExecutor> executor,
      CpuExecutor::create(preparation_.model, std::move(weights), preparation_.cpu, memory_, clock_));
  const int depth = preparation_.options.scheduler.scheduling_depth;
  if (depth > executor->max_in_flight()) {
    return Status(StatusCode::kRefused,
                  executor_limits_error(executor->name(), depth, executor->max_in_flight()));
  }
  engine_facts.isa = isa_name(executor->isa());
  int64_t transient_bytes = 0;
  if (!has_absolute_knob(preparation_.options)) {
    facts.weights_bytes = weights_bytes;
    VLLM_ASSIGN_OR_RETURN(transient_bytes, measure(*executor, facts, rss_before));
    PlanResult measured = make_kv_plan(preparation_.model, preparation_.options, facts);
    VLLM_RETURN_IF_ERROR(plan_error(measured));
    plan = std::move(measured.plan);
  }
  VLLM_RETURN_IF_ERROR(verify(plan, transient_bytes));
  VLLM_RETURN_IF_ERROR(executor->allocate_kv(plan));
  const int64_t held_bytes = memory_.held_bytes(MemoryPurpose::kKvCache);
  if (held_bytes != plan.pool_bytes) {
    return failed("the KV pool was planned with {} bytes and allocated with {}", plan.pool_bytes, held_bytes);
  }
  engine_facts.pool_bytes = held_bytes;
  engine_facts.workspace_bytes = memory_.held_bytes(MemoryPurpose::kWorkspace) + transient_bytes;
  return std::unique_ptr<Executor>(std::move(executor));
}

std::unique_ptr<Executor> make_null_executor(const EnginePreparation& preparation,
                                             const EngineSettings& settings, Clock& clock) {
  std::function<TimeNs(const StepPlan&)> step_ns;
  if (settings.null_step_ns > 0) {
    step_ns = [ns = settings.null_step_ns](const StepPlan&) { return ns; };
  }
  return std::make_unique<NullExecutor>(clock, preparation.model.vocab_size, std::move(step_ns));
}

CoreThreadConfig core_config_of(const EngineFacts& facts, const EngineSettings& settings) {
  CoreThreadConfig config;
  config.scheduler = facts.scheduler;
  config.vocab_size = facts.model.vocab_size;
  for (const int64_t id : facts.model.eos_token_ids) config.eos_token_ids.push_back(static_cast<int32_t>(id));
  config.max_queued = settings.max_queued;
  config.on_step = settings.on_step;
  return config;
}

}  // namespace

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::start(const Options& options, const EngineSettings& settings,
                                              Clock& clock) {
  const TimeNs start_ns = clock.now_ns();
  VLLM_ASSIGN_OR_RETURN(const EnginePreparation preparation, prepare_engine(options));
  VLLM_RETURN_IF_ERROR(check_runnable(preparation, settings));

  auto impl = std::make_unique<Impl>();
  if (settings.memory == nullptr) impl->own_memory = make_cpu_device_memory();
  impl->memory = settings.memory != nullptr ? settings.memory : impl->own_memory.get();
  VLLM_ASSIGN_OR_RETURN(const MemoryFacts estimated,
                        estimate_memory_facts(preparation, impl->memory->info()));
  PlanResult planned = make_kv_plan(preparation.model, preparation.options, estimated);
  VLLM_RETURN_IF_ERROR(plan_error(planned));

  EngineFacts& facts = impl->facts;
  facts.model = preparation.model;
  facts.dtype = preparation.dtype_name;
  facts.null_executor = settings.null_executor;
  facts.threads = settings.null_executor ? 1 : preparation.cpu.threads;
  facts.isa = isa_name(best_isa());
  std::unique_ptr<Executor> executor;
  if (settings.null_executor) {
    executor = make_null_executor(preparation, settings, clock);
  } else {
    VLLM_ASSIGN_OR_RETURN(executor,
                          CpuStart(preparation, *impl->memory, clock).run(estimated, planned.plan, facts));
  }
  facts.plan = std::move(planned.plan);
  facts.scheduler = scheduler_config_of(preparation, facts.plan);
  facts.executor = executor->name();
  facts.load_ns = clock.now_ns() - start_ns;
  log_plan(facts.plan, !settings.null_executor);
  log_info("engine: {} ({}), executor {}, {} thread{}, scheduling depth {}, ready after {:.2f} s",
           facts.model.architecture, facts.dtype, facts.executor, facts.threads,
           facts.threads == 1 ? "" : "s", facts.scheduler.options.scheduling_depth, ns_to_s(facts.load_ns));
  try {
    impl->core = std::make_unique<CoreThread>(core_config_of(facts, settings), std::move(executor), clock);
  } catch (const std::system_error& error) {
    return failed("the core thread could not be started: the system says {}", error.code().message());
  }
  return std::make_unique<Engine>(std::move(impl));
}

const EngineFacts& Engine::facts() const { return impl_->facts; }

Result<RequestId> Engine::submit(EngineRequest request, EngineCallbacks callbacks) {
  return impl_->core->submit(std::move(request), std::move(callbacks));
}

void Engine::abort(RequestId id) { impl_->core->abort(id); }
void Engine::shutdown(TimeNs timeout_ns) { impl_->core->shutdown(timeout_ns); }
CoreCounters Engine::counters() const { return impl_->core->counters(); }
bool Engine::reset_for_measurement() { return impl_->core->reset_for_measurement(); }
Status Engine::health() const { return impl_->core->health(); }
DeviceMemory& Engine::memory() { return *impl_->memory; }

}  // namespace vllm
