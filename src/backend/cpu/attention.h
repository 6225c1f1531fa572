#pragma once

// Causal attention of a few query tokens of one sequence over its paged KV, for the heads that share one KV
// head. Keys are read in tiles of 64 positions that begin at multiples of 64, with a running softmax from the
// first position to the last: what a query row gets depends on its own position only, not on how the sequence
// was cut into steps.

#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/kv_cache.h"

namespace vllm {

struct AttentionShape {
  int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  float scale = 1.0f;

  int64_t group() const { return num_heads / num_kv_heads; }
  // Query tokens of one task: about 64 rows share a tile of keys.
  int64_t tokens_per_task() const { return group() >= 64 ? 1 : 64 / group(); }
  int64_t scratch_floats() const;
};

struct AttentionTask {
  const BlockId* table = nullptr;  // of the sequence, for the layer's group
  int64_t row = 0;                 // first query token in the batch ...
  int64_t count = 0;               // ... and how many
  int64_t position = 0;            // of the first
  int kv_head = 0;
};

// `window` 0: none. q and out: [tokens, num_heads * head_dim].
void attend(const CpuKernels& kernels, const AttentionShape& shape, const CpuKvCache& cache, int layer,
            int64_t window, const AttentionTask& task, const float* q, float* out, float* scratch);

}  // namespace vllm
