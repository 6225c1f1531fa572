#include "sim/memory_model.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "config/model_config.h"
#include "kv/plan.h"
#include "model/weights.h"
#include "sim/cluster.h"

namespace vllm {
namespace {

// Bounds of a model file (config/architectures/reader.h) keep every product below 2^63.
int64_t moe_bytes(const ModelDims& m, int64_t ep, int64_t fp) {
  return (m.hidden * m.experts + (m.experts / ep) * 3 * m.hidden * m.moe_intermediate) * fp;
}

// A size in "GB" (2^30 bytes) as whole bytes.
int64_t whole_bytes(double size_gb) { return static_cast<int64_t>(size_gb * static_cast<double>(kGiB)); }

KvCacheDType kv_dtype_of(const InstanceSpec& instance) {
  if (instance.kv_dtype == "fp8") return KvCacheDType::kFp8;
  if (instance.dtype == "float16") return KvCacheDType::kFloat16;
  if (instance.dtype == "float32") return KvCacheDType::kFloat32;
  return KvCacheDType::kBFloat16;
}

// Options of the engine for one rank's device; what the cluster file says about the instance stands in them.
Options engine_options(const InstanceSpec& instance, const Options& given) {
  Options o = given;
  o.parallel.tensor_parallel_size = instance.tp;
  o.kv.block_size = static_cast<int>(instance.settings.block_size);
  o.kv.kv_cache_dtype = kv_dtype_of(instance);
  o.scheduler.max_num_seqs = static_cast<int>(instance.settings.max_num_seqs);
  o.scheduler.max_num_batched_tokens = static_cast<int>(instance.settings.max_num_batched_tokens);
  if (!o.kv.num_blocks && !o.kv.kv_cache_memory_bytes)
    o.kv.gpu_memory_utilization = instance.settings.mem_util;
  if (!o.kv.device_memory)
    o.kv.device_memory = DeviceMemoryOption{whole_bytes(instance.npu_memory.size_gb), false};
  return o;
}

// As the engine counts them, from the shapes alone. Where the engine knows no such split (pipelines, experts
// spread over ranks, types that it does not compute in), what the formula says.
Result<int64_t> native_weight_bytes(const InstanceSpec& instance, const ModelConfig& config) {
  const auto dtype = parse_float_dtype(instance.dtype);
  if (instance.pp > 1 || instance.model->is_moe() || !dtype) return compat_weight_bytes(instance);
  return estimate_weights_bytes(instance.model->path, config, LoadFormat::kDummy, *dtype, instance.tp);
}

}  // namespace

int64_t layer_weight_bytes(std::string_view layer, const ModelDims& m, int64_t tp, int64_t ep,
                           const WeightTypes& types) {
  const int64_t fp = types.weight_bytes;
  if (layer == "embedding") return (m.vocab / tp) * m.hidden * fp;
  if (layer == "layernorm" || layer == "final_layernorm") return m.hidden * fp;
  if (layer == "qkv_proj") return m.hidden * ((m.q_size() + 2 * m.kv_size()) / tp) * fp;
  if (layer == "qk_norm") return 2 * m.head_dim * fp;
  if (layer == "o_proj") return (m.q_size() / tp) * m.hidden * fp;
  if (layer == "gate_up_proj") return m.hidden * 2 * (m.intermediate / tp) * fp;
  if (layer == "down_proj") return (m.intermediate / tp) * m.hidden * fp;
  if (layer == "lm_head") return m.hidden * (m.vocab / tp) * fp;
  if (layer == "moe") return moe_bytes(m, ep, fp);
  return 0;
}

int64_t compat_weight_bytes(const InstanceSpec& instance) {
  const ModelDims& m = *instance.model;
  const auto bytes = [&](const char* layer) {
    return layer_weight_bytes(layer, m, instance.tp, instance.ep, instance.types);
  };
  const int64_t mlp = m.is_moe() ? bytes("moe") : bytes("gate_up_proj") + bytes("down_proj");
  const int64_t block = 2 * bytes("layernorm") + bytes("qkv_proj") + bytes("o_proj") + mlp;
  return bytes("embedding") + (m.layers / instance.pp) * block + bytes("layernorm") + bytes("lm_head");
}

Result<InstanceMemory> compat_memory(const InstanceSpec& instance) {
  const ModelDims& m = *instance.model;
  InstanceMemory out;
  out.util = instance.settings.mem_util;
  out.decided_by = "npu-memory-utilization";
  out.total_bytes = whole_bytes(instance.npu_memory.size_gb);
  out.weight_bytes = compat_weight_bytes(instance);
  out.kv_bytes_per_token = 2 * m.kv_size() * m.layers * instance.types.kv_bytes / instance.num_npus();
  if (out.kv_bytes_per_token < 1) {
    return refused(
        "{}: {} NPUs share {} bytes of keys and values of one token; accepted are at most as many NPUs as "
        "bytes",
        instance.where, instance.num_npus(), 2 * m.kv_size() * m.layers * instance.types.kv_bytes);
  }
  out.block_bytes = out.kv_bytes_per_token * instance.settings.block_size;
  const auto usable =
      static_cast<int64_t>(std::floor(instance.npu_memory.size_gb * static_cast<double>(kGiB) * out.util));
  const int64_t left = usable - out.weight_bytes;
  out.blocks = left < 0 ? 0 : left / out.block_bytes;
  out.tokens = out.blocks * instance.settings.block_size;
  if (out.blocks < 1) {
    return refused(
        "{}: 'npu_mem.mem_size' {} GB at utilisation {} is {}, and the weights of {} on each NPU take {}, "
        "which leaves no "
        "room for one KV block of {}; accepted is more memory, a higher utilisation or a higher tp_size",
        instance.where, instance.npu_memory.size_gb, out.util, format_bytes(usable), m.name,
        format_bytes(out.weight_bytes), format_bytes(out.block_bytes));
  }
  return out;
}

Result<InstanceMemory> native_memory(const InstanceSpec& instance, const Options& options) {
  VLLM_ASSIGN_OR_RETURN(ModelConfig config, load_model_config(instance.model->path));
  const Options o = engine_options(instance, options);
  MemoryFacts facts = hypothetical_memory_facts(*o.kv.device_memory);
  VLLM_ASSIGN_OR_RETURN(facts.weights_bytes, native_weight_bytes(instance, config));
  // The plan knows tensor parallelism; of a pipeline the largest stage decides, which keeps its own layers
  // only.
  const int64_t stage = *std::max_element(instance.stage_layers.begin(), instance.stage_layers.end());
  if (instance.pp > 1 && stage < config.num_layers) {
    config.layers.resize(static_cast<size_t>(stage));
    config.num_layers = stage;
  }
  facts.workspace_bytes = estimate_gpu_workspace_bytes(config, o);
  facts.graph_bytes = estimate_gpu_graph_bytes(config, o);
  const PlanResult plan = make_kv_plan(config, o, facts);
  if (!plan.status) return plan.status.with_context(instance.where);
  InstanceMemory out;
  out.util = instance.settings.mem_util;
  out.decided_by = plan.plan.decided_by;
  out.total_bytes = o.kv.device_memory->bytes;
  out.weight_bytes = facts.weights_bytes;
  out.block_bytes = plan.plan.spec.bytes_per_block;
  out.kv_bytes_per_token = std::max<int64_t>(1, out.block_bytes / instance.settings.block_size);
  out.blocks = plan.plan.usable_blocks;
  out.tokens = out.blocks * instance.settings.block_size;
  out.max_model_len = plan.plan.max_model_len;
  return out;
}

Result<InstanceMemory> instance_memory(const InstanceSpec& instance, const Options& options) {
  return options.sim.mode == SimMode::kCompat ? compat_memory(instance) : native_memory(instance, options);
}

void match_blocks(InstanceMemory& memory, int64_t blocks, int64_t block_size) {
  memory.blocks = blocks;
  memory.tokens = blocks * block_size;
  memory.block_bytes = memory.kv_bytes_per_token * block_size;
  memory.decided_by = "match-capacity";
}

}  // namespace vllm
