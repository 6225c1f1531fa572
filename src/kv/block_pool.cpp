#include "kv/block_pool.h"

#include <bit>
#include <cassert>

namespace vllm {

BlockPool::BlockPool(int64_t num_blocks, PoolPolicy policy)
    : policy_(policy),
      nodes_(static_cast<size_t>(num_blocks) + 1),
      blocks_(static_cast<size_t>(num_blocks)),
      buckets_(std::bit_ceil(static_cast<size_t>(num_blocks)), kNoBlock) {
  assert(num_blocks >= 1 && num_blocks < INT32_MAX);
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
  nodes_.assign(nodes_.size(), Node{});
  nodes_[at(sentinel())] = {sentinel(), sentinel()};
  num_free_ = 0;
  for (BlockId b = policy_.null_block ? 1 : 0; b < sentinel(); ++b) {
    insert_after(nodes_[at(sentinel())].previous, b);
  }
}

void BlockPool::insert_after(BlockId position, BlockId block) {
  const BlockId next = nodes_[at(position)].next;
  nodes_[at(block)] = {next, position};
  nodes_[at(position)].next = block;
  nodes_[at(next)].previous = block;
  ++num_free_;
}

void BlockPool::unlink(BlockId block) {
  Node& node = nodes_[at(block)];
  assert(node.next != kNoBlock && "the block is in the free list");
  nodes_[at(node.previous)].next = node.next;
  nodes_[at(node.next)].previous = node.previous;
  node = {};
  --num_free_;
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
  const BlockId block = nodes_[at(sentinel())].next;
  assert(block != sentinel() && "the caller has compared its need with num_free()");
  unlink(block);
  forget(block);
  blocks_[at(block)].references = 1;
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
      insert_after(nodes_[at(sentinel())].previous, b);
    }
  }
}

void BlockPool::index(BlockId b, const BlockHash& hash, int group) {
  Block& block = blocks_[at(b)];
  assert(block.group < 0 && block.references > 0);
  const BlockId first = lookup(hash, group);
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
  block.chain_previous = kNoBlock;
  if (bucket != kNoBlock) blocks_[at(bucket)].chain_previous = b;
  bucket = b;
}

void BlockPool::forget(BlockId b) {
  Block& block = blocks_[at(b)];
  if (block.group < 0) return;
  if (block.first_of_name) {
    // The next block of the same name takes its place in the chain; without one the chain closes.
    BlockId heir = block.chain_next;
    if (block.same_next != b) {
      heir = block.same_next;
      Block& successor = blocks_[at(heir)];
      successor.first_of_name = true;
      successor.chain_next = block.chain_next;
      successor.chain_previous = block.chain_previous;
      if (block.chain_next != kNoBlock) blocks_[at(block.chain_next)].chain_previous = heir;
    } else if (heir != kNoBlock) {
      blocks_[at(heir)].chain_previous = block.chain_previous;
    }
    if (block.chain_previous == kNoBlock) {
      buckets_[bucket_of(block.hash, block.group)] = heir;
    } else {
      blocks_[at(block.chain_previous)].chain_next = heir;
    }
  }
  blocks_[at(block.same_previous)].same_next = block.same_next;
  blocks_[at(block.same_next)].same_previous = block.same_previous;
  block.first_of_name = false;
  block.group = -1;
  block.same_next = block.same_previous = block.chain_next = block.chain_previous = kNoBlock;
}

std::vector<BlockId> BlockPool::free_list() const {
  std::vector<BlockId> list;
  for (BlockId b = nodes_[at(sentinel())].next; b != sentinel(); b = nodes_[at(b)].next) list.push_back(b);
  return list;
}

}  // namespace vllm
