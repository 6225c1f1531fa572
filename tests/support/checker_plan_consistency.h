#pragma once

// Step plans: what an executor rebuilds from their deltas is what the scheduler means, and a plan keeps its
// limits.

#include <map>
#include <string>
#include <vector>

#include "sched/scheduler.h"

namespace vllm::testing {

// Keeps the tables of an executor that sees only the plans.
class PlanConsistencyChecker {
 public:
  explicit PlanConsistencyChecker(const SchedulerConfig& config);

  // Right after schedule(plan). Empty when all is well.
  std::string on_plan(const StepPlan& plan, const Scheduler& scheduler);

 private:
  struct View {
    std::vector<std::vector<BlockId>> tables;  // one a group
    int32_t num_computed = 0;
  };
  std::string check_limits(const StepPlan& plan, const Scheduler& scheduler) const;
  std::string apply(const StepPlan& plan, const StepEntry& entry);
  std::string compare(const StepEntry& entry, const Scheduler& scheduler) const;
  std::string check_writes(const StepPlan& plan) const;

  SchedulerConfig config_;
  std::map<RequestId, View> views_;
  int64_t next_step_ = 0;
};

}  // namespace vllm::testing
