#pragma once

// The paged KV pool of the CPU: one allocation of exactly the planned bytes. The bytes of a block are
// contiguous: for each layer of a group [K: kv_heads, block_size, head_dim][V: the same], layers one after
// another, so that block b of every group is the same range of the pool, whatever the group's layers are.
// Written and read by the executor's threads; two threads never write the same block's slot.

#include <cstdint>
#include <vector>

#include "backend/device_memory.h"
#include "base/status.h"
#include "config/model_config.h"
#include "kv/plan.h"
#include "sched/step_plan.h"

namespace vllm {

struct CpuKernels;

class CpuKvCache {
 public:
  // `blocks` block ids of `spec`, `pool_bytes` in all (more where a plan holds other state beside the
  // blocks).
  static Result<CpuKvCache> create(const ModelConfig& model, const KvSpec& spec, int64_t blocks,
                                   int64_t pool_bytes, DeviceMemory& memory);

  int64_t blocks() const { return blocks_; }
  int block_size() const { return block_size_; }
  int num_groups() const { return num_groups_; }
  int group_of(int layer) const { return places_[static_cast<size_t>(layer)].group; }

  // K and V of one token, all KV heads: rows of kv_heads * head_dim float32, rounded to the pool's type.
  void write(int layer, BlockId block, int slot, const float* k, const float* v);
  // Positions [begin, end) of one KV head as float32 rows [end - begin, head_dim]. `table` is the sequence's.
  void read_keys(const CpuKernels& kernels, int layer, const BlockId* table, int kv_head, int64_t begin,
                 int64_t end, float* out) const;
  void read_values(const CpuKernels& kernels, int layer, const BlockId* table, int kv_head, int64_t begin,
                   int64_t end, float* out) const;

 private:
  struct LayerPlace {
    int group = 0;
    int64_t offset_bytes = 0;  // in a block
  };

  std::byte* head_start(int layer, BlockId block, int kv_head, bool value) const;
  void read(const CpuKernels& kernels, int layer, const BlockId* table, int kv_head, bool value,
            int64_t begin, int64_t end, float* out) const;

  DeviceBuffer pool_;
  int64_t blocks_ = 0, block_bytes_ = 0;
  int block_size_ = 0, num_groups_ = 0;
  int64_t kv_heads_ = 0, head_dim_ = 0, element_bytes_ = 0, head_bytes_ = 0;
  DType dtype_ = DType::kF32;
  std::vector<LayerPlace> places_;
};

}  // namespace vllm
