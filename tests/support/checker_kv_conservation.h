#pragma once

// Blocks: free + cached + in use = total, no block is in two states, at rest nothing is in use.

#include <string>

#include "sched/scheduler.h"

namespace vllm::testing {

// Looks at one moment; empty when all is well, else what is wrong. `groups` as in the scheduler's
// configuration, at least one.
std::string check_kv_conservation(const Scheduler& scheduler, int groups);

}  // namespace vllm::testing
