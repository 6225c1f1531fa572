#pragma once

// The program vllm-sim: reads options, simulates, writes what was asked for.

#include <atomic>

#include "base/clock.h"
#include "base/status.h"
#include "config/options.h"

namespace vllm {

// The log goes to stdout, progress of long runs to stderr. `wall` tells how long it takes and decides
// nothing. Ends in order when `interrupt` is set.
Status simulate(const ParsedOptions& parsed, Clock& wall, const std::atomic<bool>& interrupt);

}  // namespace vllm
