#pragma once

// `vllm-bench validate`: a recorded run against a simulation of it.

#include "base/status.h"
#include "config/options.h"

namespace vllm {

// Reads both sides, refuses what must not be compared, writes the summaries, the report and the figures into
// the first recording's folder, and prints the comparison.
Status validate(const ParsedOptions& parsed);

}  // namespace vllm
