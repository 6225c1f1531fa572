#include "kv/block_pool.h"

#include <bit>
#include <cassert>

namespace vllm {

BlockPool::BlockPool(int64_t num_blocks, PoolPolicy policy)
    : policy_(policy),
      blocks_(static_cast<size_t>(num_blocks) + 1),
      buckets_(std::bit_ceil(2 * static_cast<size_t>(num_blocks)), kNoBlock) {
  assert(num_blocks >= 1 && num_blocks < INT32_MAX / 2);
  initialise();
}

bool BlockPool::reset() {
  if (num_free_ != num_usable()) return false;
  initialise();
  return true;
}

void BlockPool::initialise() {
  blocks_.assign(blocks_.size(), Block{});
  buckets_.assign(buckets_.size(), kNoBlock);
  Block& ends = blocks_[at(sentinel())];
  ends.next = ends.previous = sentinel();
  num_free_ = num_cached_ = 0;
  for (BlockId b = policy_.null_block ? 1 : 0; b < sentinel(); ++b) {
    insert_after(blocks_[at(sentinel())].previous, b);
  }
}

void BlockPool::insert_after(BlockId position, BlockId block) {
  const BlockId next = blocks_[at(position)].next;
  blocks_[at(block)].next = next;
  blocks_[at(block)].previous = position;
  blocks_[at(position)].next = block;
  blocks_[at(next)].previous = block;
  ++num_free_;
  num_cached_ += blocks_[at(block)].group >= 0 ? 1 : 0;
}

void BlockPool::unlink(BlockId b) {
  Block& block = blocks_[at(b)];
  assert(block.next != kNoBlock && "the block is in the free list");
  blocks_[at(block.previous)].next = block.next;
  blocks_[at(block.next)].previous = block.previous;
  block.next = block.previous = kNoBlock;
  --num_free_;
  num_cached_ -= block.group >= 0 ? 1 : 0;
}

size_t BlockPool::bucket_of(const BlockHash& hash, int group) const {
  const uint64_t mixed = hash.low + static_cast<uint64_t>(group) * 0x9E3779B97F4A7C15ull;
  return static_cast<size_t>(mixed) & (buckets_.size() - 1);
}

BlockId BlockPool::lookup(const BlockHash& hash, int group) const {
  BlockId b = buckets_[bucket_of(hash, group)];
  while (b != kNoBlock) {
    const Block& block = blocks_[at(b)];
    if (block.hash == hash && block.group == group) return b;
    b = block.chain_next;
  }
  return kNoBlock;
}

void BlockPool::touch(BlockId block) {
  if (blocks_[at(block)].references++ == 0) unlink(block);
}

BlockId BlockPool::allocate() {
  const BlockId block = blocks_[at(sentinel())].next;
  assert(block != sentinel() && "the caller has compared its need with num_free()");
  unlink(block);
  blocks_[at(block)].references = 1;
  forget(block);
  // What the next allocation will touch: the block behind the new head, and the bucket of the head's name.
  const Block& head = blocks_[at(blocks_[at(sentinel())].next)];
  __builtin_prefetch(&blocks_[at(head.next)]);
  if (head.group >= 0) __builtin_prefetch(&buckets_[bucket_of(head.hash, head.group)]);
  return block;
}

void BlockPool::release(std::span<const BlockId> blocks) {
  BlockId front = sentinel();  // the next block without a hash goes behind this one
  for (size_t i = blocks.size(); i-- > 0;) {
    const BlockId b = blocks[i];
    Block& block = blocks_[at(b)];
    assert(block.references > 0);
    if (--block.references > 0) continue;
    if (block.group < 0 && policy_.unhashed_to_front) {
      insert_after(front, b);
      front = b;
    } else {
      insert_after(blocks_[at(sentinel())].previous, b);
    }
  }
}

void BlockPool::index(BlockId b, const BlockHash& hash, int group) {
  Block& block = blocks_[at(b)];
  assert(block.group < 0 && block.references > 0);
  BlockId first = lookup(hash, group);
  if (first != kNoBlock && policy_.newest_owns_name) {
    forget(first);
    first = kNoBlock;
  }
  block.hash = hash;
  block.group = group;
  if (first != kNoBlock) {
    Block& head = blocks_[at(first)];
    block.first_of_name = false;
    block.same_next = first;
    block.same_previous = head.same_previous;
    blocks_[at(head.same_previous)].same_next = b;
    head.same_previous = b;
    return;
  }
  BlockId& bucket = buckets_[bucket_of(hash, group)];
  block.first_of_name = true;
  block.same_next = block.same_previous = b;
  block.chain_next = bucket;
  bucket = b;
}

void BlockPool::forget(BlockId b) {
  Block& block = blocks_[at(b)];
  if (block.group < 0) return;
  num_cached_ -= block.references == 0 ? 1 : 0;
  if (block.first_of_name) {
    // The next block of the same name takes its place in the chain; without one the chain closes.
    BlockId heir = block.chain_next;
    if (block.same_next != b) {
      heir = block.same_next;
      blocks_[at(heir)].first_of_name = true;
      blocks_[at(heir)].chain_next = block.chain_next;
    }
    BlockId* link = &buckets_[bucket_of(block.hash, block.group)];
    while (*link != b) link = &blocks_[at(*link)].chain_next;
    *link = heir;
  }
  blocks_[at(block.same_previous)].same_next = block.same_next;
  blocks_[at(block.same_next)].same_previous = block.same_previous;
  block.first_of_name = false;
  block.group = -1;
  block.same_next = block.same_previous = block.chain_next = kNoBlock;
}

std::vector<BlockId> BlockPool::free_list() const {
  std::vector<BlockId> list;
  for (BlockId b = blocks_[at(sentinel())].next; b != sentinel(); b = blocks_[at(b)].next) list.push_back(b);
  return list;
}

}  // namespace vllm
