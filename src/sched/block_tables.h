#pragma once

// Gives blocks to requests and takes them back, over all groups of layers: prefix lookup, the fit tests,
// growth, and what a sliding window leaves behind. Owns the pool. One thread owns it; only prepare()
// allocates.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kv/block_pool.h"
#include "kv/prefix_hash.h"
#include "kv/spec.h"
#include "sched/request_table.h"

namespace vllm {

class BlockTables {
 public:
  struct Config {
    int64_t num_blocks = 0;
    int block_size = 16;
    int64_t max_step_tokens = 0;  // most tokens that one request computes in a step
    bool prefix_caching = true;
    std::vector<KvGroup> groups;  // not empty
    PoolPolicy pool;
    PrefixHash prefix_hash = PrefixHash::kXxh128;
  };
  explicit BlockTables(Config config);

  const BlockPool& pool() const { return pool_; }
  bool reset_prefix_cache() { return pool_.reset(); }
  int block_size() const { return block_size_; }
  bool has_blocks(int group) const { return groups_[static_cast<size_t>(group)].has_blocks; }
  int num_groups() const { return static_cast<int>(groups_.size()); }

  // Most blocks that a sequence holds at any time until `length` tokens are computed.
  int64_t most_blocks(int64_t length) const;

  // Storage for a request that is to reach `length` tokens; its prompt is in request.tokens. Only blocks of
  // its first `cacheable_tokens` tokens meet the prefix cache.
  void prepare(Request& request, int32_t length, std::string_view cache_salt, int32_t cacheable_tokens);

  // Slots for tokens [0, upto) of a running request. False, and no block is taken, when too few are free.
  bool grow(Request& request, int32_t upto) {
    const bool nothing_to_do = upto <= request.covered &&
                               std::min(upto, request.num_tokens) < request.index_at &&
                               request.num_computed < request.drop_at;
    return nothing_to_do || cross_block(request, upto);
  }

  // Blocks that the prefix cache can serve in all groups; at least one token stays to be computed. The ids
  // are left in the request's tables, which have no blocks yet.
  int32_t find_hits(Request& request);
  // Admits a waiting request with what find_hits found: slots for [0, upto). `whole_sequence`: all its tokens
  // must fit, not only those. `spare` blocks must stay free. False, changing nothing, when it does not fit.
  bool admit(Request& request, int32_t hit_blocks, int32_t upto, bool whole_sequence, int64_t spare);

  // Enters the blocks that `upto` computed tokens fill into the prefix cache.
  void index(Request& request, int32_t upto);
  // A hint that the next plan will probably index the request's known tokens: hashes them now, and fetches
  // into the CPU's cache what that plan will touch. The blocks of many requests lie all over memory, and
  // waiting for them one by one would be most of a step.
  void expect_index(Request& request);
  void release(Request& request);
  // Takes back the names of blocks that only the step being planned would have computed.
  void forget_uncomputed(Request& request);

 private:
  struct Group {
    bool has_blocks = true;  // recurrent state is not in blocks
    int32_t window_blocks =
        0;               // sliding: blocks before a position that it still sees; unused for full attention
    int32_t window = 0;  // 0: full attention
    int64_t most_blocks = 0;  // sliding: most blocks that a sequence holds
  };

  bool cross_block(Request& request, int32_t upto);
  int32_t blocks_for(int64_t tokens) const {
    return static_cast<int32_t>((tokens + block_size_ - 1) / block_size_);
  }
  int32_t first_needed(const Group& group, int32_t hit_blocks) const;
  int32_t longest_run(Request& request, int group, int32_t limit);
  int32_t longest_window(Request& request, int group, int32_t limit);
  void hash_blocks(Request& request, int32_t count);
  void append(Request& request, int32_t blocks_after);
  void drop_outside_window(Request& request);
  void set_marks(Request& request);
  // Computed tokens that complete the next block to be indexed.
  int32_t next_index_at(const Request& request) const {
    return caching_ && request.num_indexed < request.cacheable_blocks
               ? (request.num_indexed + 1) * block_size_
               : INT32_MAX;
  }

  int32_t block_size_;
  bool caching_;
  int num_with_blocks_ = 0;
  std::vector<Group> groups_;
  BlockPool pool_;
  PrefixHasher hasher_;
};

}  // namespace vllm
