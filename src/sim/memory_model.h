#pragma once

// What a simulated instance's memory holds. Compat mode: the reference simulator's formula (section 6, first
// tier), which knows no activation peak and no context. Native mode: the KV plan of the engine itself. Pure
// functions.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "config/options.h"
#include "sim/architecture.h"

namespace vllm {

struct InstanceSpec;

struct WeightTypes {
  int64_t weight_bytes = 2;  // of one weight element
  int64_t kv_bytes = 2;      // of one element of K or V
};

// Weight bytes of one layer by canonical name on one rank: divided by tp, the experts (not their router) by
// the group-wide ep. 0 for layers without weights (rotary_emb, attention, act_fn, sampler) and for names that
// are not known.
int64_t layer_weight_bytes(std::string_view layer, const ModelDims& model, int64_t tp, int64_t ep,
                           const WeightTypes& types);

struct InstanceMemory {
  int64_t total_bytes = 0;         // of one NPU
  int64_t weight_bytes = 0;        // of one rank, as the formula counts them
  int64_t kv_bytes_per_token = 0;  // of one rank
  int64_t block_bytes = 0;         // kv_bytes_per_token * block size
  int64_t blocks = 0;              // usable; the reference has no null block
  int64_t tokens = 0;              // blocks * block size
  int64_t max_model_len = 0;       // native: as planned; 0 in compat mode, which refuses no length
  double util = 0.9;
  std::string
      decided_by;  // "npu-memory-utilization", "gpu-memory-utilization", "num-blocks", "match-capacity", ...
};

// Weight bytes of one rank as the reference counts them: every pipeline rank with embedding and head, no
// qk_norm.
int64_t compat_weight_bytes(const InstanceSpec& instance);

// Section 6. Refuses an instance whose weights leave no room for one block, with the numbers.
Result<InstanceMemory> compat_memory(const InstanceSpec& instance);

// The KV plan with the options of the engine, for an NPU with the memory of the cluster file. `options` are
// the program's own; the instance's settings win.
Result<InstanceMemory> native_memory(const InstanceSpec& instance, const Options& options);

// As many usable blocks as a recording had, of its size.
void match_blocks(InstanceMemory& memory, int64_t blocks, int64_t block_size);

// By mode; --match-capacity is the caller's (it needs the recording).
Result<InstanceMemory> instance_memory(const InstanceSpec& instance, const Options& options);

}  // namespace vllm
