#pragma once

// From recorded steps to measurements of one cost each: launch times where the host was the bottleneck,
// device times where the device was. Fitting both together from output times fails: they are degenerate.

#include <vector>

#include "formats/step_bundle.h"
#include "sim/step_recording.h"

namespace vllm {

struct StepSample {
  int block = 0;     // of time, for cross-validation
  double at_ms = 0;  // since the recording's begin
  size_t recording = 0;
  int64_t rows = 0, padded = 0;
  StepFeatures features{};
  double ms = 0;  // what was measured
};

struct StepSamples {
  std::vector<StepSample> graph_device, eager_device;
  std::vector<StepSample> graph_launch, piecewise_launch, eager_launch;
  std::vector<StepSample> gap, stamp, empty;
  std::vector<StepSample> graph_head, eager_head;
};

inline constexpr int kTimeBlocks = 5;
inline constexpr size_t kFewestSamples = 8;  // that a cost of its own is made from

// `bundle` is what is known so far: which resource was the bottleneck is decided with it.
StepSamples collect_all_samples(const std::vector<StepRecording>& recordings, const StepBundle& bundle);

// Mean launch time of the steps without a graph in a recording, seen with the bundle; an error when it has
// too few of them.
Result<double> mean_launch_ms(const StepRecording& recording, const StepBundle& bundle);

// A bundle to begin with, from differences of stamps alone.
StepBundle first_guess(const std::vector<StepRecording>& recordings);

}  // namespace vllm
