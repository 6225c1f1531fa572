#pragma once

// The KV spec of a model: one entry for each layer that keeps state, and the groups that layers form. This is
// the only place that knows how many bytes a layer's state takes; nothing else multiplies by a layer count.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/model_config.h"
#include "config/options.h"

namespace vllm {

struct LayerKv {
  int layer = 0;
  LayerKind kind = LayerKind::kFull;
  int64_t window = 0;              // kSliding
  int64_t bytes_per_block = 0;     // 0 for kRecurrent. Scales included
  int64_t bytes_per_sequence = 0;  // kRecurrent only
};

// Layers that share one block table. Block ids of all groups come from one pool: block b means slot b of each
// of the `slots` tensors of the pool, and a group with fewer layers than slots leaves the rest unused
// (padding).
struct KvGroup {
  LayerKind kind = LayerKind::kFull;
  int64_t window = 0;
  std::vector<int> layers;
  int64_t bytes_per_block = 0;     // of this group's own layers
  int64_t bytes_per_sequence = 0;  // kRecurrent
};

struct KvSpec {
  int block_size = 16;
  KvCacheDType dtype = KvCacheDType::kBFloat16;
  int tensor_parallel_size = 1;
  std::vector<LayerKv> layers;
  std::vector<KvGroup> groups;
  // Bytes that one block id takes over all tensors of the pool, on each device: max over groups, padding
  // included.
  int64_t bytes_per_block = 0;
  int64_t recurrent_bytes_per_sequence = 0;
};

int64_t kv_dtype_bytes(KvCacheDType dtype);
const char* kv_dtype_name(KvCacheDType dtype);  // "bfloat16", ..., "fp8"
// --kv-cache-dtype, or for auto the resolved --dtype; for a GGUF bfloat16.
KvCacheDType resolve_kv_dtype(const Options& options, const ModelConfig& model);

Result<KvSpec> make_kv_spec(const ModelConfig& model, const Options& options);

// Blocks that a sequence of `length` tokens holds at most, over all groups, when at most `max_batched` tokens
// are computed in a step.
int64_t max_blocks_per_sequence(const KvSpec& spec, int64_t length, int64_t max_batched);

}  // namespace vllm
