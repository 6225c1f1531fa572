#pragma once

// What one step does: plain data that can be sent to another rank. An executor keeps, for each request it has
// seen, the block tables; a plan carries only what changed since the request's last entry.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"

namespace vllm {

using RequestId = uint64_t;  // given by the core, in order of arrival, never used twice

// In place of a token that an earlier step in flight samples: the executor has it.
inline constexpr int32_t kTokenInFlight = -1;

struct StepEntry {
  RequestId id = 0;
  int32_t num_tokens = 0;    // computed in this step
  int32_t num_computed = 0;  // positions before this step that have KV, prefix hits included
  bool samples = false;      // a token comes back for it; otherwise it is a chunk
  bool starts = false;       // admitted or resumed in this step: its tables are new, older ones are void
  int32_t token_offset = 0;  // into StepPlan::tokens, num_tokens of them
  int32_t block_offset = 0;  // into StepPlan::blocks: for each group, in order, a run of new blocks ...
  int32_t block_count_offset = 0;  // ... whose lengths stand in StepPlan::block_counts, one a group
};

struct StepPlan {
  int64_t step = 0;
  std::vector<StepEntry> entries;  // in scheduling order
  std::vector<int32_t> tokens;
  std::vector<BlockId>
      blocks;  // appended to the tables of their group, in order. 0: outside the window, skipped
  std::vector<int32_t> block_counts;
  std::vector<RequestId> preempted;  // in the order of preemption; their tables are void
  std::vector<RequestId> ended;      // since the plan before: executors forget them
  int64_t total_tokens = 0;
  // State after planning, for the step log.
  int32_t running = 0, waiting = 0;
  int64_t free_blocks = 0;

  std::span<const int32_t> tokens_of(const StepEntry& e) const {
    return {tokens.data() + e.token_offset, static_cast<size_t>(e.num_tokens)};
  }
  void clear() {
    entries.clear();
    tokens.clear();
    blocks.clear();
    block_counts.clear();
    preempted.clear();
    ended.clear();
    total_tokens = 0;
    running = waiting = 0;
    free_blocks = 0;
  }
};

}  // namespace vllm
