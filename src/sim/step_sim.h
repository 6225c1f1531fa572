#pragma once

// vllm-sim --step-bundle: a recording's capacity, a workload and a step bundle in; sim.csv, the log and, with
// several seeds, a table of every statistic out.

#include <atomic>

#include "base/clock.h"
#include "base/status.h"
#include "config/options.h"

namespace vllm {

// The log goes to stdout. `wall` tells how long it takes and decides nothing. Ends in order when `interrupt`
// is set.
Status simulate_with_step_bundle(const ParsedOptions& parsed, Clock& wall,
                                 const std::atomic<bool>& interrupt);

}  // namespace vllm
