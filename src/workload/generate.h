#pragma once

// vllm-workload: writes a workload file for vllm-bench run and prints what it made.

#include "base/status.h"
#include "config/options.h"

namespace vllm {

// The file appears under its name when it is whole. What was made goes to stdout, progress to the log.
Status generate_workload(const ParsedOptions& parsed);

}  // namespace vllm
