#include "kv/spec.h"

#include <algorithm>
#include <limits>

#include "base/units.h"

namespace vllm {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

// All factors are at least 0; a product that overflows is the largest number, which no memory holds.
int64_t saturating_mul(int64_t a, int64_t b) { return checked_mul(a, b).value_or(kLargest); }
int64_t saturating_add(int64_t a, int64_t b) { return checked_add(a, b).value_or(kLargest); }

Status check_tensor_parallel(const ModelConfig& model, int tp) {
  if (tp < 1) return usage_error("--tensor-parallel-size {}: accepted is a whole number from 1", tp);
  if (model.num_heads % tp != 0) {
    return usage_error("--tensor-parallel-size {}: {} has {} attention heads; accepted is a divisor of them",
                       tp, model.source, model.num_heads);
  }
  const bool mla = model.mla.kv_lora_rank > 0;
  if (!mla && model.num_kv_heads % tp != 0 && tp % model.num_kv_heads != 0) {
    return usage_error(
        "--tensor-parallel-size {}: {} has {} KV heads; accepted is a divisor or a multiple of them, so that "
        "every rank "
        "holds equally many",
        tp, model.source, model.num_kv_heads);
  }
  return Status::ok();
}

// Bytes of one block in one layer, on one rank.
int64_t page_bytes(const ModelConfig& model, LayerKind kind, int block_size, int64_t element_bytes, int tp) {
  if (kind == LayerKind::kRecurrent) return 0;
  const int64_t elements =
      kind == LayerKind::kMla
          ? model.mla.kv_lora_rank + model.mla.qk_rope_head_dim
          : saturating_mul(std::max<int64_t>(1, model.num_kv_heads / tp), model.head_dim + model.v_head_dim);
  return saturating_mul(saturating_mul(elements, block_size), element_bytes);
}

struct LayerType {
  LayerKind kind;
  int64_t window;
  std::vector<int> layers;
};

// Layers that may share a block table: of the same kind and with the same window.
std::vector<LayerType> layer_types(const KvSpec& spec) {
  std::vector<LayerType> types;
  for (const LayerKv& layer : spec.layers) {
    if (layer.kind == LayerKind::kRecurrent) continue;
    const auto same = [&](const LayerType& t) { return t.kind == layer.kind && t.window == layer.window; };
    auto it = std::find_if(types.begin(), types.end(), same);
    if (it == types.end()) it = types.insert(types.end(), {layer.kind, layer.window, {}});
    it->layers.push_back(layer.layer);
  }
  return types;
}

// As many layers in each group as the rarest type has; when the types are nearly equally frequent, as many as
// the most frequent one has, which pads the others a little and saves groups.
size_t layers_per_group(const std::vector<LayerType>& types) {
  size_t fewest = types.front().layers.size(), most = fewest;
  for (const LayerType& type : types) {
    fewest = std::min(fewest, type.layers.size());
    most = std::max(most, type.layers.size());
  }
  return static_cast<double>(most) < 1.5 * static_cast<double>(fewest) ? most : fewest;
}

void add_group(KvSpec& spec, LayerKind kind, int64_t window, std::vector<int> layers) {
  KvGroup group;
  group.kind = kind;
  group.window = window;
  for (size_t slot = 0; slot < layers.size(); ++slot) {
    LayerKv& layer = spec.layers[static_cast<size_t>(layers[slot])];
    layer.group = static_cast<int>(spec.groups.size());
    group.bytes_per_block = saturating_add(group.bytes_per_block, layer.bytes_per_block);
    group.bytes_per_sequence = saturating_add(group.bytes_per_sequence, layer.bytes_per_sequence);
    if (kind == LayerKind::kRecurrent) continue;
    layer.slot = static_cast<int>(slot);
    if (slot == spec.slot_bytes.size()) spec.slot_bytes.push_back(0);
    spec.slot_bytes[slot] = std::max(spec.slot_bytes[slot], layer.bytes_per_block);
  }
  group.layers = std::move(layers);
  spec.groups.push_back(std::move(group));
}

void make_groups(KvSpec& spec) {
  const auto types = layer_types(spec);
  if (!types.empty()) {
    const size_t per_group = layers_per_group(types);
    for (const LayerType& type : types) {
      // Every n-th layer, so that the padding is spread over the type's groups.
      const size_t groups = (type.layers.size() + per_group - 1) / per_group;
      for (size_t first = 0; first < groups; ++first) {
        std::vector<int> layers;
        for (size_t i = first; i < type.layers.size(); i += groups) layers.push_back(type.layers[i]);
        add_group(spec, type.kind, type.window, std::move(layers));
      }
    }
  }
  std::vector<int> recurrent;
  for (const LayerKv& layer : spec.layers) {
    if (layer.kind == LayerKind::kRecurrent) recurrent.push_back(layer.layer);
  }
  if (!recurrent.empty()) add_group(spec, LayerKind::kRecurrent, 0, std::move(recurrent));
}

int64_t group_blocks(const KvSpec& spec, const KvGroup& group, int64_t length, int64_t max_batched,
                     bool exact) {
  if (group.kind == LayerKind::kRecurrent) return 0;
  const int64_t whole = length / spec.block_size + (length % spec.block_size != 0 ? 1 : 0);
  if (group.kind != LayerKind::kSliding) return whole;
  const int64_t seen = std::min(saturating_add(group.window - 1, max_batched), length);
  const int64_t held = seen / spec.block_size + (seen % spec.block_size != 0 ? 1 : 0) + 1;
  return exact ? std::min(held, whole) : held;
}

int64_t sum_of_blocks(const KvSpec& spec, int64_t length, int64_t max_batched, bool exact) {
  int64_t sum = 0;
  for (const KvGroup& group : spec.groups) {
    sum = saturating_add(sum, group_blocks(spec, group, length, max_batched, exact));
  }
  return sum;
}

}  // namespace

int64_t kv_dtype_bytes(KvCacheDType dtype) {
  switch (dtype) {
    case KvCacheDType::kBFloat16:
    case KvCacheDType::kFloat16:
      return 2;
    case KvCacheDType::kFloat32:
      return 4;
    case KvCacheDType::kFp8:
      return 1;  // one scale a tensor, which is no part of a block
  }
  return 0;
}

const char* kv_dtype_name(KvCacheDType dtype) {
  switch (dtype) {
    case KvCacheDType::kBFloat16:
      return "bfloat16";
    case KvCacheDType::kFloat16:
      return "float16";
    case KvCacheDType::kFloat32:
      return "float32";
    case KvCacheDType::kFp8:
      return "fp8";
  }
  return "unknown";
}

KvCacheDType resolve_kv_dtype(const Options& options, const ModelConfig& model) {
  if (options.kv.kv_cache_dtype) return *options.kv.kv_cache_dtype;
  if (model.from_gguf) return KvCacheDType::kBFloat16;
  switch (options.model.dtype.value_or(model.dtype.value_or(DType::kBF16))) {
    case DType::kF32:
      return KvCacheDType::kFloat32;
    case DType::kF16:
      return KvCacheDType::kFloat16;
    default:
      return KvCacheDType::kBFloat16;
  }
}

Result<KvSpec> make_kv_spec(const ModelConfig& model, const Options& options) {
  KvSpec spec;
  spec.block_size = options.kv.block_size;
  spec.dtype = resolve_kv_dtype(options, model);
  spec.tensor_parallel_size = options.parallel.tensor_parallel_size;
  if (spec.block_size < 1) {
    return usage_error("--block-size {}: accepted is a whole number from 1", spec.block_size);
  }
  VLLM_RETURN_IF_ERROR(check_tensor_parallel(model, spec.tensor_parallel_size));

  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerConfig& config = model.layers[i];
    LayerKv layer;
    layer.layer = static_cast<int>(i);
    layer.kind = config.kind;
    if (config.kind == LayerKind::kSliding) layer.window = config.sliding_window;
    layer.bytes_per_block = page_bytes(model, config.kind, spec.block_size, kv_dtype_bytes(spec.dtype),
                                       spec.tensor_parallel_size);
    if (config.kind == LayerKind::kRecurrent) layer.bytes_per_sequence = config.state_bytes_per_sequence;
    spec.recurrent_bytes_per_sequence =
        saturating_add(spec.recurrent_bytes_per_sequence, layer.bytes_per_sequence);
    spec.layers.push_back(layer);
  }
  make_groups(spec);
  for (const int64_t bytes : spec.slot_bytes)
    spec.bytes_per_block = saturating_add(spec.bytes_per_block, bytes);
  if (spec.bytes_per_block == kLargest || spec.recurrent_bytes_per_sequence == kLargest) {
    return usage_error(
        "--block-size {}: a block of {} would take over 2^63 bytes; accepted is a smaller block size",
        spec.block_size, model.source);
  }
  return spec;
}

bool has_block_groups(const KvSpec& spec) { return !spec.slot_bytes.empty(); }

int64_t max_blocks_per_sequence(const KvSpec& spec, int64_t length, int64_t max_batched) {
  return sum_of_blocks(spec, length, max_batched, false);
}

int64_t blocks_of_sequence(const KvSpec& spec, int64_t length, int64_t max_batched) {
  return sum_of_blocks(spec, length, max_batched, true);
}

}  // namespace vllm
