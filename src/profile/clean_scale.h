#pragma once

// Scales a step bundle to recordings that were made without a recorder: factors on the host's and the
// device's times, so that simulations of the same requests have the recordings' mean TTFT, TPOT and latency.

#include <string>
#include <vector>

#include "base/status.h"
#include "formats/step_bundle.h"
#include "sim/step_recording.h"

namespace vllm {

// Recordings of one workload, with what they and the scaled bundle say, in milliseconds.
struct CleanGroup {
  std::vector<std::string> dirs;
  double ttft_ms = 0, tpot_ms = 0, latency_ms = 0;  // recorded, mean over the recordings
  double sim_ttft_ms = 0, sim_tpot_ms = 0, sim_latency_ms = 0;
};

Result<std::vector<CleanGroup>> scale_to_clean(const std::vector<StepRecording>& recordings,
                                               StepBundle& bundle);

std::string clean_groups_text(const std::vector<CleanGroup>& groups);

}  // namespace vllm
