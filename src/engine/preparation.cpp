#include "engine/preparation.h"

#include <utility>

#include "base/thread_pool.h"
#include "model/weights.h"

namespace vllm {
namespace {

bool is_float_type(DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; }

// --dtype (bfloat16 in `bench run` unless given: parse_options decides that), else what config.json says. A
// GGUF keeps the types that its tensors have.
void resolve_dtype(EnginePreparation& preparation) {
  Options& options = preparation.options;
  const bool keeps_types =
      is_gguf_path(options.model.model) && options.model.load_format != LoadFormat::kDummy;
  if (options.model.dtype) {
    preparation.dtype = *options.model.dtype;
  } else if (!keeps_types && preparation.model.dtype && is_float_type(*preparation.model.dtype)) {
    preparation.dtype = *preparation.model.dtype;
  }
  if (!keeps_types) options.model.dtype = preparation.dtype;
  preparation.dtype_name = keeps_types ? "as stored" : dtype_name(preparation.dtype);
}

}  // namespace

Result<EnginePreparation> prepare_engine(const Options& options) {
  EnginePreparation preparation;
  preparation.options = options;
  VLLM_ASSIGN_OR_RETURN(preparation.model, load_model_config(options.model.model));
  resolve_dtype(preparation);
  CpuExecutorConfig& cpu = preparation.cpu;
  cpu.max_num_seqs = options.scheduler.max_num_seqs;
  cpu.max_num_batched_tokens = options.scheduler.max_num_batched_tokens;
  cpu.threads = options.runtime.threads.value_or(static_cast<int>(allowed_cpus().size()));
  cpu.pin_threads = options.runtime.pin_threads;
  cpu.seed = options.runtime.seed;
  return preparation;
}

Status check_runnable(const EnginePreparation& preparation, const EngineSettings& settings) {
  const Options& options = preparation.options;
  const ParallelOptions& parallel = options.parallel;
  if (options.runtime.device == DeviceKind::kCuda) {
    return refused("--device cuda is not in this build; use --device cpu or auto");
  }
  if (parallel.tensor_parallel_size > 1) {
    return refused("--tensor-parallel-size {}: this build runs 1 rank; --print-plan answers for more",
                   parallel.tensor_parallel_size);
  }
  if (parallel.data_parallel_size > 1) {
    return refused("--data-parallel-size {}: this build runs 1 engine", parallel.data_parallel_size);
  }
  if (parallel.enable_expert_parallel) {
    return refused("--enable-expert-parallel is not in this build, which runs 1 rank; leave it out");
  }
  if (settings.null_executor) return Status::ok();
  if (options.kv.device_memory) {
    return refused(
        "--device-memory plans for a device that is not here; use it with --print-plan or vllm-sim");
  }
  if (!preparation.model.runnable) {
    return refused("--model {}: {}", options.model.model, preparation.model.not_runnable_reason);
  }
  return Status::ok();
}

bool has_absolute_knob(const Options& options) {
  return options.kv.num_blocks.has_value() || options.kv.kv_cache_memory_bytes.has_value();
}

Result<MemoryFacts> estimate_memory_facts(const EnginePreparation& preparation,
                                          const DeviceMemoryInfo& device) {
  const Options& options = preparation.options;
  MemoryFacts facts;
  if (options.kv.device_memory) {
    facts = hypothetical_memory_facts(*options.kv.device_memory);
    facts.workspace_bytes = estimate_gpu_workspace_bytes(preparation.model, options);
    facts.graph_bytes = estimate_gpu_graph_bytes(preparation.model, options);
  } else {
    facts.device = device.device;
    facts.shared_with_host = device.shared_with_host;
    facts.total_bytes = device.total_bytes;
    facts.free_bytes = device.free_bytes;
    facts.workspace_bytes = CpuExecutor::estimate_workspace_bytes(preparation.model, preparation.cpu);
  }
  VLLM_ASSIGN_OR_RETURN(
      facts.weights_bytes,
      estimate_weights_bytes(options.model.model, preparation.model, options.model.load_format,
                             preparation.dtype, options.parallel.tensor_parallel_size));
  return facts;
}

Status plan_error(const PlanResult& result) {
  // The table helps where something does not fit; a wrong value needs none.
  if (result.status.code() != StatusCode::kRefused) return result.status;
  return {result.status.code(), result.status.message() + "\n" + kv_plan_text(result.plan)};
}

SchedulerConfig scheduler_config_of(const EnginePreparation& preparation, const KvPlan& plan) {
  SchedulerConfig config;
  config.num_blocks = plan.blocks;
  config.block_size = plan.spec.block_size;
  config.max_model_len = plan.max_model_len;
  config.options = preparation.options.scheduler;
  for (const KvGroup& group : plan.spec.groups) {
    if (group.kind != LayerKind::kRecurrent) config.groups.push_back(group);  // needs no block table
  }
  return config;
}

Result<PlanResult> plan_without_engine(const Options& options) {
  VLLM_ASSIGN_OR_RETURN(const EnginePreparation preparation, prepare_engine(options));
  if (options.runtime.device == DeviceKind::kCuda && !options.kv.device_memory) {
    return refused(
        "--device cuda is not in this build; --device-memory SIZE plans for a GPU that is not here");
  }
  const std::unique_ptr<DeviceMemory> memory = make_cpu_device_memory();
  VLLM_ASSIGN_OR_RETURN(const MemoryFacts facts, estimate_memory_facts(preparation, memory->info()));
  return make_kv_plan(preparation.model, preparation.options, facts);
}

}  // namespace vllm
