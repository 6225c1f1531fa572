#pragma once

// The strongest reading of "the prefix cache and the block tables are right": a memory that remembers, for
// every slot of every block, which sequence of tokens its KV was computed from. Whatever an entry may read
// must come from exactly its own tokens. It finds a cached block that was never computed, a block reused too
// early, a window that lost a block.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sched/scheduler.h"

namespace vllm::testing {

// Executes plans in order, as a device does.
class KvTruthChecker {
 public:
  // `output` gives the value of a request's output by index: the executor knows tokens that the plan does
  // not.
  KvTruthChecker(const SchedulerConfig& config, std::function<int32_t(RequestId, int64_t)> output);

  void on_add(RequestId id, std::vector<int32_t> prompt);
  std::string on_plan(const StepPlan& plan);
  // After a reset of the prefix cache contents do not matter, but they stay what they were.

 private:
  struct Sequence {
    std::vector<int32_t> prompt;
    std::vector<uint64_t> names;               // names[p]: of tokens [0, p]
    std::vector<std::vector<BlockId>> tables;  // one a group
  };
  int32_t token(RequestId id, const Sequence& sequence, int64_t position) const;
  void extend_names(RequestId id, Sequence& sequence, int64_t length) const;
  uint64_t& slot(size_t group, BlockId block, int64_t position);
  std::string check_tokens(const StepPlan& plan, const StepEntry& entry, const Sequence& sequence) const;
  std::string check_reads(const StepEntry& entry, const Sequence& sequence);

  SchedulerConfig config_;
  std::function<int32_t(RequestId, int64_t)> output_;
  std::map<RequestId, Sequence> sequences_;
  std::vector<std::vector<uint64_t>> memory_;  // one a group, block_size slots a block
};

}  // namespace vllm::testing
