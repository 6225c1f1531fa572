#pragma once

// The requests that live (wait or run): slots that are recycled, found by id.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "kv/prefix_hash.h"
#include "sched/step_plan.h"

namespace vllm {

using Slot = int32_t;
inline constexpr Slot kNoSlot = -1;

// Everything that the scheduler keeps of a request. Its vectors are reserved for the longest it can become
// when it is added, and keep their capacity when the slot is recycled: no later call allocates. What every
// step touches comes first, in two cache lines.
struct alignas(64) Request {
  RequestId id = 0;
  int32_t num_prompt = 0;
  int32_t num_tokens = 0;    // prompt and outputs that are known; tokens.size()
  int32_t num_computed = 0;  // planned included
  int32_t in_flight = 0;     // outputs planned and not known
  int32_t max_tokens = 0, min_tokens = 0;
  int32_t end_at = 0;  // tokens at which it ends by length

  // Every group's table has the same length, because all groups cover the same tokens with blocks of one
  // size.
  int32_t num_blocks = 0;
  int32_t num_indexed = 0;  // blocks that were offered to the prefix cache, or hit
  int32_t index_at = 0;     // computed tokens that complete block num_indexed
  int32_t covered = 0;      // num_blocks * block_size
  int32_t drop_at = 0;      // computed tokens at which a block leaves the window of some sliding group
  int32_t table_stride = 0;
  int32_t cacheable_blocks = 0;  // later ones are neither looked up nor indexed

  // Of the plan that is being made.
  int32_t step_tokens = 0;  // 0: no entry
  int32_t step_blocks = 0;  // num_blocks before it; 0 for a request that starts
  bool step_starts = false;

  bool running = false;
  bool ignore_eos = false;
  bool has_stop_ids = false;  // some token can end it
  bool admitted_before = false;
  std::vector<int32_t> tokens;
  std::vector<BlockId> blocks;  // group g's table begins at g * table_stride

  int32_t num_preemptions = 0;
  int32_t cached_tokens = 0;  // at first admission
  int priority = 0;
  TimeNs arrival_ns = 0;
  int64_t sequence = 0;                     // order of add()
  Slot previous = kNoSlot, next = kNoSlot;  // in the waiting list
  int32_t heap_position = 0;                // in the waiting heap

  std::vector<int32_t> eos_token_ids, stop_token_ids;
  std::vector<int32_t>
      skipped;     // per group: blocks at the table's front that left the window (entries are 0)
  BlockHash root;  // parent of block 0
  std::vector<BlockHash> hashes;  // of full blocks of known tokens, as far as they were needed

  int32_t num_generated() const { return num_tokens - num_prompt; }
  bool last_token_in_flight() const { return in_flight > 0 && num_generated() + 1 >= max_tokens; }
  std::span<BlockId> table(int group) {
    return {blocks.data() + static_cast<size_t>(group) * static_cast<size_t>(table_stride),
            static_cast<size_t>(num_blocks)};
  }
  std::span<const BlockId> table(int group) const {
    return {blocks.data() + static_cast<size_t>(group) * static_cast<size_t>(table_stride),
            static_cast<size_t>(num_blocks)};
  }
};

// Slots and the map from ids to them. Only add() allocates or moves requests. One thread owns it.
class RequestTable {
 public:
  Slot add(RequestId id);  // the id must not live
  void remove(Slot slot);
  Slot find(RequestId id) const;  // kNoSlot when it does not live
  int64_t size() const { return size_; }

  Request& operator[](Slot slot) { return requests_[static_cast<size_t>(slot)]; }
  const Request& operator[](Slot slot) const { return requests_[static_cast<size_t>(slot)]; }

 private:
  struct Cell {
    RequestId id = 0;
    Slot slot = kNoSlot;
  };
  size_t home(RequestId id) const;
  size_t cell_of(RequestId id) const;  // the cell that holds it or would
  void grow();

  std::vector<Request> requests_;
  std::vector<Slot> unused_;
  std::vector<Cell> cells_;  // open addressing, a power of two, at most half full
  int64_t size_ = 0;
};

}  // namespace vllm
