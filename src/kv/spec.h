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
  int group = 0;                   // index into KvSpec::groups
  int slot = 0;                    // index into KvSpec::slot_bytes; unused (0) for kRecurrent
};

// Layers that share one block table. Block ids of all groups come from one pool: block b means part b of each
// of the pool's tensors, and a group with fewer layers than there are tensors leaves the rest unused
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
  // In the order of each kind's first layer. Recurrent layers come last, in one group that needs no block
  // table.
  std::vector<KvGroup> groups;
  // The pool's tensors. Tensor i holds `blocks` parts of slot_bytes[i] bytes; the i-th layer of every group
  // lives in tensor i, so a part is as large as the largest of them needs.
  std::vector<int64_t> slot_bytes;
  // Bytes that one block id takes over all tensors of the pool, on each device: the sum of slot_bytes.
  int64_t bytes_per_block = 0;
  int64_t recurrent_bytes_per_sequence = 0;
};

int64_t kv_dtype_bytes(KvCacheDType dtype);
const char* kv_dtype_name(KvCacheDType dtype);  // "bfloat16", ..., "fp8"
// --kv-cache-dtype, or for auto the resolved --dtype; for a GGUF bfloat16.
KvCacheDType resolve_kv_dtype(const Options& options, const ModelConfig& model);

Result<KvSpec> make_kv_spec(const ModelConfig& model, const Options& options);

// Whether any layer needs a block table; a purely recurrent model has none.
bool has_block_groups(const KvSpec& spec);

// Blocks that a sequence of `length` tokens holds at most, over all groups, when at most `max_batched` tokens
// are computed in a step. The plan's measure: a sliding group counts
// ceil(min(window - 1 + max_batched, length) / block_size) + 1. Saturates instead of overflowing.
int64_t max_blocks_per_sequence(const KvSpec& spec, int64_t length, int64_t max_batched);

// The same for one request whose length is known: no group ever holds more than ceil(length / block_size) of
// its blocks. Admission uses this one, so that nothing is refused that does fit.
int64_t blocks_of_sequence(const KvSpec& spec, int64_t length, int64_t max_batched);

}  // namespace vllm
