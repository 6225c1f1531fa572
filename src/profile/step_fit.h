#pragma once

// Fits a step bundle on recorded steps, region by region, with clipped least squares. docs/step-model.md says
// what is fitted and why in this way.

#include <string>
#include <vector>

#include "base/status.h"
#include "formats/step_bundle.h"
#include "sim/step_samples.h"

namespace vllm {

// The recordings must agree on their depth.
Result<StepBundle> fit_step_bundle(const std::vector<StepRecording>& recordings);

// The tables that vllm-profile prints.
std::string step_bundle_text(const StepBundle& bundle);

}  // namespace vllm
