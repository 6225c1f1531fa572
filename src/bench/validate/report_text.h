#pragma once

// A comparison as text: the known summary, byte for byte, and what we add to it.

#include <string>

#include "bench/validate/comparison.h"
#include "formats/json_fwd.h"

namespace vllm {

// Section 3.3 of the interface specification. A comparison that was forced has the reasons behind the table.
std::string summary_text(const Comparison& comparison);

// For the terminal: the summary, the noise floor, distributions and matched errors, the notes.
std::string comparison_report(const Comparison& comparison, size_t recordings);

Json summary_json(const Comparison& comparison, const std::vector<RealRun>& real, const SimRun& sim);

}  // namespace vllm
