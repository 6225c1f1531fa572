#pragma once

// Everything that a simulation with a step bundle needs, read and checked before it begins.

#include <string>
#include <vector>

#include "base/status.h"
#include "config/options.h"
#include "formats/step_bundle.h"
#include "formats/workload.h"
#include "sim/step_run.h"

namespace vllm {

struct StepSimSetup {
  StepBundle bundle;
  StepRunConfig config;
  std::string model;  // as the recording names it
  int64_t kv_tokens = 0;
  Workload workload;
  std::vector<std::vector<int32_t>> made_up;  // prompts of rows without token ids
  std::vector<StepRunRequest> requests;       // prompts lie in `workload` and `made_up`
  std::vector<std::string> notes;             // for the log
};

// Scheduler options that were not given are the recording's.
Result<StepSimSetup> make_step_sim_setup(const ParsedOptions& parsed);

}  // namespace vllm
