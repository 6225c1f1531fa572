#include "sched/block_tables.h"

#include <algorithm>
#include <cassert>

#include "base/units.h"

namespace vllm {

BlockTables::BlockTables(Config config)
    : block_size_(config.block_size),
      caching_(config.prefix_caching),
      pool_(config.num_blocks, config.pool),
      hasher_(config.prefix_hash, config.block_size) {
  assert(block_size_ > 0 && !config.groups.empty());
  for (const KvGroup& given : config.groups) {
    Group group;
    group.has_blocks = given.kind != LayerKind::kRecurrent;
    if (given.kind == LayerKind::kSliding) {
      assert(given.window > 0);
      group.window = static_cast<int32_t>(std::min<int64_t>(given.window, INT32_MAX / 2));
      group.window_blocks = blocks_for(group.window - 1);
      group.most_blocks = blocks_for(int64_t{group.window} - 1 + config.max_step_tokens) + 1;
    }
    // A hit would leave out the tokens that make a recurrent state what it is.
    if (!group.has_blocks) caching_ = false;
    num_with_blocks_ += group.has_blocks ? 1 : 0;
    groups_.push_back(group);
  }
}

int64_t BlockTables::most_blocks(int64_t length) const {
  int64_t sum = 0;
  for (const Group& group : groups_) {
    if (!group.has_blocks) continue;
    const int64_t all = ceil_div(length, block_size_);
    sum += group.window > 0 ? std::min(all, group.most_blocks) : all;
  }
  return sum;
}

void BlockTables::prepare(Request& request, int32_t length, std::string_view cache_salt,
                          int32_t cacheable_tokens) {
  request.table_stride = blocks_for(length);
  request.tokens.reserve(static_cast<size_t>(length));
  request.blocks.resize(static_cast<size_t>(request.table_stride) * groups_.size());
  request.skipped.assign(groups_.size(), 0);
  request.hashes.clear();
  request.cacheable_blocks = cacheable_tokens / block_size_;
  if (caching_ && request.cacheable_blocks > 0) {
    request.hashes.reserve(static_cast<size_t>(request.table_stride));
    request.root = hasher_.root(cache_salt);
  }
  request.num_blocks = request.num_indexed = 0;
  set_marks(request);
}

// The thresholds that let a step without a block crossing pass with three comparisons.
void BlockTables::set_marks(Request& request) {
  request.covered = request.num_blocks * block_size_;
  request.index_at = next_index_at(request);
  request.drop_at = INT32_MAX;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].window == 0) continue;
    const int64_t at = (int64_t{request.skipped[g]} + 1) * block_size_ + groups_[g].window - 1;
    request.drop_at = static_cast<int32_t>(std::min<int64_t>(request.drop_at, at));
  }
}

bool BlockTables::cross_block(Request& request, int32_t upto) {
  if (request.num_computed >= request.drop_at) drop_outside_window(request);
  if (upto > request.covered) {
    const int32_t blocks_after = blocks_for(upto);
    const int64_t need = int64_t{blocks_after - request.num_blocks} * num_with_blocks_;
    if (need > pool_.num_free()) return false;
    append(request, blocks_after);
  }
  if (std::min(upto, request.num_tokens) >= request.index_at)
    index(request, std::min(upto, request.num_tokens));
  return true;
}

void BlockTables::append(Request& request, int32_t blocks_after) {
  const int32_t blocks_before = request.num_blocks;
  request.num_blocks = blocks_after;
  request.covered = blocks_after * block_size_;
  for (int g = 0; g < num_groups(); ++g) {
    if (!groups_[static_cast<size_t>(g)].has_blocks) continue;
    for (BlockId& block : request.table(g).subspan(static_cast<size_t>(blocks_before)))
      block = pool_.allocate();
  }
}

// The step's first query is at position num_computed and sees `window` positions, itself included.
void BlockTables::drop_outside_window(Request& request) {
  for (int g = 0; g < num_groups(); ++g) {
    const Group& group = groups_[static_cast<size_t>(g)];
    if (group.window == 0) continue;
    int32_t& skipped = request.skipped[static_cast<size_t>(g)];
    const int32_t outside = std::max(0, request.num_computed - group.window + 1) / block_size_;
    const int32_t until = std::min(outside, request.num_blocks);
    if (until <= skipped) continue;
    const auto left =
        request.table(g).subspan(static_cast<size_t>(skipped), static_cast<size_t>(until - skipped));
    pool_.release(left);
    std::fill(left.begin(), left.end(), kNullBlock);
    skipped = until;
  }
  set_marks(request);
}

void BlockTables::hash_blocks(Request& request, int32_t count) {
  while (static_cast<int32_t>(request.hashes.size()) < count) {
    const size_t i = request.hashes.size();
    const size_t size = static_cast<size_t>(block_size_);
    const BlockHash& parent = i == 0 ? request.root : request.hashes[i - 1];
    request.hashes.push_back(
        hasher_.next(parent, std::span<const int32_t>(request.tokens).subspan(i * size, size)));
  }
}

void BlockTables::index(Request& request, int32_t upto) {
  const int32_t full = std::min(upto / block_size_, request.cacheable_blocks);
  if (!caching_ || full <= request.num_indexed) return;
  hash_blocks(request, full);
  for (int g = 0; g < num_groups(); ++g) {
    const auto table = request.table(g);
    for (int32_t i = std::max(request.num_indexed, request.skipped[static_cast<size_t>(g)]); i < full; ++i) {
      pool_.index(table[static_cast<size_t>(i)], request.hashes[static_cast<size_t>(i)], g);
    }
  }
  request.num_indexed = full;
  request.index_at = next_index_at(request);
}

void BlockTables::expect_index(Request& request) {
  const int32_t full =
      std::min({request.num_tokens / block_size_, request.num_blocks, request.cacheable_blocks});
  if (!caching_ || full <= request.num_indexed) return;
  hash_blocks(request, full);
  const size_t last = static_cast<size_t>(full) - 1;
  for (int g = 0; g < num_groups(); ++g) pool_.expect_index(request.table(g)[last], request.hashes[last], g);
}

int32_t BlockTables::first_needed(const Group& group, int32_t hit_blocks) const {
  return group.window == 0 ? 0 : std::max(0, hit_blocks - group.window_blocks);
}

int32_t BlockTables::longest_run(Request& request, int group, int32_t limit) {
  BlockId* table = request.blocks.data() + static_cast<ptrdiff_t>(group) * request.table_stride;
  for (int32_t i = 0; i < limit; ++i) {
    hash_blocks(request, i + 1);
    table[i] = pool_.lookup(request.hashes[static_cast<size_t>(i)], group);
    if (table[i] == kNoBlock) return i;
  }
  return limit;
}

// The largest length up to `limit` before which the blocks of the window are all there.
int32_t BlockTables::longest_window(Request& request, int group, int32_t limit) {
  BlockId* table = request.blocks.data() + static_cast<ptrdiff_t>(group) * request.table_stride;
  const int32_t needed = groups_[static_cast<size_t>(group)].window_blocks;
  hash_blocks(request, limit);
  int32_t end = limit;
  for (int32_t i = limit - 1; i >= 0 && end - 1 - i < needed; --i) {
    table[i] = pool_.lookup(request.hashes[static_cast<size_t>(i)], group);
    if (table[i] == kNoBlock) end = i;
  }
  return end;
}

int32_t BlockTables::find_hits(Request& request) {
  assert(request.num_blocks == 0);
  if (!caching_) return 0;
  int32_t hits = std::min((request.num_tokens - 1) / block_size_, request.cacheable_blocks);
  // Full attention needs every block before the hit's end, so a shorter hit stays one.
  for (int g = 0; g < num_groups(); ++g) {
    if (groups_[static_cast<size_t>(g)].window == 0) hits = longest_run(request, g, hits);
  }
  // A shorter hit may lack a block of its window: repeat until all sliding groups agree. It only becomes
  // shorter.
  for (int agreeing = 0, g = 0; hits > 0 && agreeing < num_groups(); g = (g + 1) % num_groups()) {
    const int32_t before = hits;
    if (groups_[static_cast<size_t>(g)].window > 0) hits = longest_window(request, g, hits);
    agreeing = hits == before ? agreeing + 1 : 1;
  }
  return hits;
}

bool BlockTables::admit(Request& request, int32_t hit_blocks, int32_t upto, bool whole_sequence,
                        int64_t spare) {
  const int32_t blocks_after = blocks_for(upto);
  int64_t free_hits = 0, need = 0, need_whole = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if (!group.has_blocks) continue;
    const int32_t first = first_needed(group, hit_blocks);
    const BlockId* table = request.blocks.data() + static_cast<ptrdiff_t>(g) * request.table_stride;
    for (int32_t i = first; i < hit_blocks; ++i) free_hits += pool_.references(table[i]) == 0 ? 1 : 0;
    need += blocks_after - hit_blocks;
    int64_t whole = blocks_for(request.num_tokens) - first;
    if (group.window > 0) whole = std::min(whole, group.most_blocks);
    need_whole += std::max<int64_t>(0, whole - (hit_blocks - first));
  }
  const int64_t available = pool_.num_free() - free_hits - spare;
  if ((whole_sequence && need_whole > available) || need > available) return false;

  request.num_blocks = request.num_indexed = hit_blocks;
  for (int g = 0; g < num_groups(); ++g) {
    const Group& group = groups_[static_cast<size_t>(g)];
    const int32_t first = first_needed(group, hit_blocks);
    request.skipped[static_cast<size_t>(g)] = first;
    const auto table = request.table(g);
    std::fill_n(table.begin(), first, kNullBlock);
    if (!group.has_blocks) continue;
    for (const BlockId block : table.subspan(static_cast<size_t>(first))) pool_.touch(block);
  }
  append(request, blocks_after);
  set_marks(request);
  index(request, std::min(upto, request.num_tokens));
  return true;
}

void BlockTables::release(Request& request) {
  for (int g = 0; g < num_groups(); ++g) {
    if (!groups_[static_cast<size_t>(g)].has_blocks) continue;
    int32_t& skipped = request.skipped[static_cast<size_t>(g)];
    pool_.release(request.table(g).subspan(static_cast<size_t>(skipped)));
    skipped = 0;
  }
  request.num_blocks = request.num_indexed = 0;
  set_marks(request);
}

void BlockTables::forget_uncomputed(Request& request) {
  const int32_t computed = request.num_computed / block_size_;
  for (int g = 0; g < num_groups(); ++g) {
    if (!groups_[static_cast<size_t>(g)].has_blocks) continue;
    const auto table = request.table(g);
    const int32_t first = std::max(computed, request.skipped[static_cast<size_t>(g)]);
    for (int32_t i = first; i < request.num_indexed; ++i) pool_.forget(table[static_cast<size_t>(i)]);
  }
}

}  // namespace vllm
