#pragma once

// What decides how long a step takes: turns a step's shape into a graph for each NPU of an instance. The seam
// between the cluster's machine and where times come from (a profile; in tests, given numbers).

#include <cstdint>
#include <memory>
#include <vector>

#include "sched/step_plan.h"
#include "sim/latency_model.h"
#include "sim/step_graph.h"

namespace vllm {

// What of a plan decides its time.
struct StepShape {
  BatchShape batch;
  int64_t requests = 0;
  int64_t prefills = 0;  // entries with more than one token
};

// An entry of several tokens is a prefill chunk, one of one token a decode (a last chunk of one token too).
StepShape shape_of(const StepPlan& plan);
// What a member of a DP group without work contributes: one decode at one token, no request.
StepShape dummy_shape();
// Padded with decode tokens to `tokens`; the attention lists stay as they are.
void pad_shape(StepShape& shape, int64_t tokens);

using StepGraphs = std::vector<std::shared_ptr<const StepGraph>>;  // by NPU of the instance, stage by stage

class StepSource {
 public:
  virtual ~StepSource() = default;
  // `merged`: rows between two collectives may be one node. The same ends with fewer events.
  virtual void build(const StepShape& shape, bool merged, StepGraphs& out) = 0;
  // At least the time of the step built last, when nothing disturbs it.
  virtual TimeNs longest_ns() const = 0;
};

}  // namespace vllm
