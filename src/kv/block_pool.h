#pragma once

// Block ids, apart from the memory behind them: which are free, which are cached, who references them.
// (The agreed surface; owned by the scheduler's author.)

#include <cstdint>
#include <vector>

namespace vllm {

struct PoolPolicy {
  bool null_block = true;  // block 0 is never given out
  bool unhashed_to_front =
      true;  // freed blocks without a hash go to the head of the free list; false: all to the tail
};

class BlockPool;

}  // namespace vllm
