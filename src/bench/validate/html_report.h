#pragma once

// The comparison as one page that needs no other file: verdicts, figures, tables, both configurations.

#include <string>

#include "bench/validate/comparison.h"

namespace vllm {

std::string html_report(const Comparison& comparison, const std::vector<RealRun>& real, const SimRun& sim);

}  // namespace vllm
