#pragma once

// The seam between what is decided and what is done: takes step plans, returns tokens and when they were
// ready. The only difference between the engine and the simulator.

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "sample/sampling_params.h"
#include "sched/step_plan.h"

namespace vllm {

struct StepResult {
  // One value for each entry of the plan; undefined for entries that do not sample.
  std::vector<int32_t> tokens;
  // When the tokens were on the host, on the executor's clock.
  TimeNs ready_ns = 0;
};

// One thread (the core's) calls all methods. Plans are executed in the order of launch; at most
// `max_in_flight` may be launched and not collected.
class Executor {
 public:
  virtual ~Executor() = default;

  // Before the first plan that names the request.
  virtual void add_request(RequestId id, const SamplingParams& params) = 0;

  // Takes the plan; the plan must live unchanged until it is collected. Forgets plan.ended first.
  virtual Status launch(const StepPlan& plan) = 0;
  // Waits for the oldest plan in flight.
  virtual Status collect(StepResult& result) = 0;

  virtual int max_in_flight() const = 0;
  virtual std::string name() const = 0;  // "cpu-plain", "null", ...
};

}  // namespace vllm
