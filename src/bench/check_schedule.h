#pragma once

// `vllm-bench check-schedule`: does our scheduler plan what a recorded run planned? (docs/scheduler.md)

#include "base/status.h"
#include "config/options.h"

namespace vllm {

// Prints the comparison to stdout. kFailed when a step differs; other errors when the recording cannot be
// read.
Status check_schedule(const ParsedOptions& parsed);

}  // namespace vllm
