#pragma once

// The core loop's rules without a thread: take arrivals and aborts, plan, launch, wait for the oldest step,
// process its outputs. The engine runs it on a thread of its own with the real clock; the simulator steps it
// with a virtual one. Depth 1 and 2 follow docs/scheduler.md.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/executor.h"
#include "base/clock.h"
#include "base/status.h"
#include "formats/step_log.h"
#include "sched/scheduler.h"

namespace vllm {

// Stamps of one request, on the core's clock. 0: has not happened.
struct RequestTimes {
  TimeNs queued_ns = 0;     // entered the scheduler
  TimeNs scheduled_ns = 0;  // start of the step that first admitted it
  TimeNs first_token_ns = 0, last_token_ns = 0, finished_ns = 0;
  int32_t num_preemptions = 0;
  int32_t cached_tokens = 0;  // at first admission
};

// Everything that a core tells about requests and steps; called on the core's thread, must not block.
class CoreObserver {
 public:
  virtual ~CoreObserver() = default;
  virtual void on_token(RequestId id, int32_t token, TimeNs ready_ns) = 0;
  virtual void on_end(RequestId id, EndReason reason, const RequestTimes& times) = 0;
  // After the outputs of the step were processed.
  virtual void on_step(const StepPlan& plan, const StepRecord& record) = 0;
};

struct CoreCounters {
  int64_t steps = 0;
  int64_t prompt_tokens = 0;  // of prompts whose prefill completed, cache hits included, once a request
  int64_t prompt_tokens_cached = 0;    // of these, from the prefix cache at first admission
  int64_t prompt_tokens_computed = 0;  // of these, computed
  int64_t generation_tokens = 0;
  int64_t preemptions = 0;
  int64_t requests_ended = 0;
  int32_t running = 0, waiting = 0;
  int64_t used_blocks = 0, usable_blocks = 0;
};

// One thread owns it.
class CoreLoop {
 public:
  CoreLoop(const SchedulerConfig& config, Executor& executor, Clock& clock, CoreObserver* observer);
  ~CoreLoop();

  // `name` is the id in the step log.
  Status add(const RequestInput& request, const SamplingParams& params, const std::string& name);
  bool abort(RequestId id);

  // One turn of the loop: plans and launches if there is work and room, else waits for the oldest step in
  // flight and processes it. False when there was nothing to do: no request lives and nothing is in flight.
  Result<bool> turn();

  bool idle() const;
  Scheduler& scheduler();
  const CoreCounters& counters() const;
  void reset_counters();
  bool reset_prefix_cache();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vllm
