#include "support/checker_kv_conservation.h"

#include <fmt/format.h>

#include <vector>

namespace vllm::testing {

std::string check_kv_conservation(const Scheduler& scheduler, int groups) {
  const BlockPool& pool = scheduler.pool();
  const size_t total = static_cast<size_t>(pool.num_blocks());
  const bool null_block = pool.num_usable() < pool.num_blocks();

  std::vector<int> in_list(total, 0);
  for (const BlockId b : pool.free_list()) ++in_list[static_cast<size_t>(b)];

  std::vector<int> held(total, 0);
  for (const RequestId id : scheduler.running_ids()) {
    for (int g = 0; g < groups; ++g) {
      for (const BlockId b : scheduler.block_table(id, g)) {
        if (b != kNullBlock || !null_block) ++held[static_cast<size_t>(b)];
      }
    }
  }
  for (const RequestId id : scheduler.waiting_ids()) {
    for (int g = 0; g < groups; ++g) {
      if (!scheduler.block_table(id, g).empty()) return fmt::format("request {} waits and has blocks", id);
    }
  }

  int64_t free = 0, in_use = 0;
  for (size_t i = 0; i < total; ++i) {
    const BlockId b = static_cast<BlockId>(i);
    if (b == kNullBlock && null_block) {
      if (in_list[i] != 0 || held[i] != 0 || pool.references(b) != 0) return "the null block is in a state";
      continue;
    }
    if (in_list[i] > 1) return fmt::format("block {} is {} times in the free list", b, in_list[i]);
    if (pool.references(b) != held[i]) {
      return fmt::format("block {} has {} references, but {} tables hold it", b, pool.references(b), held[i]);
    }
    if ((in_list[i] == 1) == (held[i] > 0)) {
      return fmt::format("block {} is in {} tables and {} times in the free list", b, held[i], in_list[i]);
    }
    (held[i] > 0 ? in_use : free) += 1;
  }
  if (free != pool.num_free())
    return fmt::format("{} blocks are free, the pool counts {}", free, pool.num_free());
  if (free + in_use != pool.num_usable()) {
    return fmt::format("{} free and {} used blocks of {}", free, in_use, pool.num_usable());
  }
  if (!scheduler.has_requests() && in_use > 0)
    return fmt::format("nothing lives, but {} blocks are in use", in_use);
  return {};
}

}  // namespace vllm::testing
