#pragma once

// A recorded run as a fit sees it: what each step was made of and when it was planned and back.

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/recorded_graphs.h"
#include "formats/recording.h"
#include "formats/step_log.h"
#include "sim/step_machine.h"

namespace vllm {

// Milliseconds since the first step's planning.
struct RecordedStep {
  StepShape shape;
  double start_ms = 0, planned_ms = 0, out_ms = 0;
};

// From a step's outputs to the stamp of a first or last token that came with it.
struct RecordedStamp {
  size_t step = 0;
  double after_ms = 0;
};

struct StepRecording {
  std::string dir;
  RecordedLimits limits;
  int depth = 1;
  StepGraphs graphs;
  bool graphs_known = false;
  std::string hardware, engine;
  std::vector<RequestRecord> requests;  // as in the file
  std::vector<RecordedStep> steps;      // empty when they were not asked for
  std::vector<RecordedStamp> stamps;
  double origin_s = 0;  // the first step's planning, on the engine's clock
  double front_ms = 0;  // from arrival to the earliest plan that could see a request
};

// meta.json and requests.jsonl of `dir`, and its step log when `with_steps`. What does not fit together is an
// error that names file and request.
Result<StepRecording> read_step_recording(const std::string& dir, bool with_steps);

// For each entry of each step, the tokens computed before it: as the log says, or worked out from what each
// request was given in all (vLLM's logs do not say).
Result<std::vector<std::vector<int64_t>>> computed_before(const std::vector<StepRecord>& steps,
                                                          const std::vector<RequestRecord>& requests,
                                                          const std::string& path);

}  // namespace vllm
