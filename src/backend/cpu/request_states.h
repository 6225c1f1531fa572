#pragma once

// What the executor remembers of each request between steps: its block tables, its last token and how it
// samples. Kept up from the changes that plans carry. One thread owns it.

#include <cstdint>
#include <map>
#include <vector>

#include "backend/cpu/forward.h"
#include "base/status.h"
#include "sample/sampling_params.h"
#include "sched/step_plan.h"

namespace vllm {

class RequestStates {
 public:
  struct State {
    SamplingParams params;
    uint64_t key = 0;
    int32_t last_token = kTokenInFlight;       // sampled last; none yet
    std::vector<std::vector<BlockId>> tables;  // one a group; empty while it holds no blocks
  };

  RequestStates(int64_t vocab_size, int64_t engine_seed)
      : vocab_size_(vocab_size), engine_seed_(engine_seed) {}

  void set_cache_shape(int num_groups, int block_size, int64_t blocks) {
    num_groups_ = num_groups;
    block_size_ = block_size;
    blocks_ = blocks;
  }
  void add(RequestId id, const SamplingParams& params);
  // Applies ends, preemptions and new blocks, and lays the plan's tokens out as a batch. An error names the
  // step and the request and means that plan and states do not belong together.
  Status apply(const StepPlan& plan, Batch& batch);

  State& at(RequestId id) { return states_.at(id); }
  size_t size() const { return states_.size(); }

 private:
  Status add_blocks(const StepPlan& plan, const StepEntry& entry, State& state) const;
  Status add_tokens(const StepPlan& plan, const StepEntry& entry, const State& state, Batch& batch) const;

  int64_t vocab_size_;
  int64_t engine_seed_;
  int num_groups_ = 0, block_size_ = 1;
  int64_t blocks_ = 0;
  std::map<RequestId, State> states_;
};

}  // namespace vllm
