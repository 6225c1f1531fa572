#pragma once

// Block ids, apart from the memory behind them: which are free, which are cached, who references them.

#include <cstdint>
#include <span>
#include <vector>

#include "kv/prefix_hash.h"

namespace vllm {

using BlockId = int32_t;  // 0 is the null block

inline constexpr BlockId kNullBlock = 0;
inline constexpr BlockId kNoBlock = -1;

struct PoolPolicy {
  bool null_block = true;  // block 0 is never given out
  bool unhashed_to_front =
      true;  // freed blocks without a hash go to the head of the free list; false: all to the tail
  // A block that is indexed under a name which another carries takes the name from it; false: both keep it,
  // and the older one is found.
  bool newest_owns_name = false;
};

// Owns the state of every block id. A block is in use (references > 0, not in the free list), cached (no
// references, in the free list, with a hash) or free (no references, in the free list, without a hash); the
// null block is in no list. The free list is allocated from at its head. A cached block counts as free: it
// loses its hash when it is allocated, not before. All memory is taken by the constructor; one thread owns
// the pool.
class BlockPool {
 public:
  // `num_blocks` in [1, 2^31): the null block is one of them.
  explicit BlockPool(int64_t num_blocks, PoolPolicy policy = {});

  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()) - 1; }
  int64_t num_usable() const { return num_blocks() - (policy_.null_block ? 1 : 0); }
  int64_t num_free() const { return num_free_; }      // cached ones included
  int64_t num_cached() const { return num_cached_; }  // free blocks with a name

  // The cached or used block that was indexed first, of those that carry the hash now; kNoBlock when there is
  // none.
  BlockId lookup(const BlockHash& hash, int group) const;

  // One more reference; an unreferenced block leaves the free list.
  void touch(BlockId block);
  // Takes the head of the free list, with one reference and without a hash. Needs num_free() > 0.
  BlockId allocate();
  // Gives one reference back for each block, from the last to the first. Of those that nobody references any
  // more, the ones with a hash go to the tail in this order, the ones without to the head as one group: the
  // last of the sequence is reused first.
  void release(std::span<const BlockId> blocks);

  // Names a block that is in use and has no name.
  void index(BlockId block, const BlockHash& hash, int group);
  // A hint that index() will come soon with these arguments: fetches into the CPU's cache what it will touch.
  void expect_index(BlockId block, const BlockHash& hash, int group) const {
    __builtin_prefetch(&blocks_[at(block)], 1);
    __builtin_prefetch(&buckets_[bucket_of(hash, group)], 1);
  }
  // Takes the name back, if it has one: what the block was to hold is not computed.
  void forget(BlockId block);

  // Back to the initial state; false, changing nothing, unless every usable block is free.
  bool reset();

  int32_t references(BlockId block) const { return blocks_[at(block)].references; }
  bool has_hash(BlockId block) const { return blocks_[at(block)].group >= 0; }
  const BlockHash& hash(BlockId block) const { return blocks_[at(block)].hash; }
  // For checkers: the free list in the order of allocation.
  std::vector<BlockId> free_list() const;

 private:
  // One cache line, because a step touches blocks all over the pool.
  struct alignas(64) Block {
    // Neighbours in the free list, a ring through a sentinel whose index is num_blocks; kNoBlock outside the
    // list.
    BlockId next = kNoBlock, previous = kNoBlock;
    int32_t references = 0;
    int32_t group = -1;  // of the name; -1: no name
    BlockHash hash;
    // The map from names to blocks is chained through the blocks themselves. A bucket's chain holds the first
    // block of each name; the others with that name hang on it in a ring, in the order of indexing.
    BlockId chain_next = kNoBlock;
    BlockId same_next = kNoBlock, same_previous = kNoBlock;
    bool first_of_name = false;
  };

  static size_t at(BlockId block) { return static_cast<size_t>(block); }
  BlockId sentinel() const { return static_cast<BlockId>(blocks_.size() - 1); }
  void initialise();
  size_t bucket_of(const BlockHash& hash, int group) const;
  void insert_after(BlockId position, BlockId block);
  void unlink(BlockId block);

  PoolPolicy policy_;
  int64_t num_free_ = 0;
  int64_t num_cached_ = 0;
  std::vector<Block> blocks_;     // and the sentinel
  std::vector<BlockId> buckets_;  // a power of two, at least twice the blocks: chains stay short
};

}  // namespace vllm
