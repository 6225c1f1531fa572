#pragma once

// The core loop's rules without a thread: take arrivals and aborts, plan, launch, wait for the oldest step,
// process its outputs. The engine runs it on a thread of its own with the real clock; the simulator steps it
// with a virtual one. Nothing here assumes real time or threads. The contract is docs/engine.md, the rules of
// both depths docs/scheduler.md.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backend/executor.h"
#include "base/clock.h"
#include "base/status.h"
#include "formats/step_log.h"
#include "sched/scheduler.h"

namespace vllm {

// Stamps of one request, on the core's clock. 0: has not happened.
struct RequestTimes {
  TimeNs queued_ns = 0;                          // entered the scheduler
  TimeNs scheduled_ns = 0;                       // start of the step that first admitted it
  TimeNs first_token_ns = 0, last_token_ns = 0;  // when the tokens were on the host
  TimeNs finished_ns = 0;                        // when the loop processed the end
  int32_t num_preemptions = 0;
  int32_t cached_tokens = 0;  // at first admission
};

// Everything that a core tells about requests and steps; called by the thread that calls the loop, must not
// block. An observer may call add and abort of the loop.
class CoreObserver {
 public:
  virtual ~CoreObserver() = default;
  // In the order of the step's entries; the token that ends a request comes before its on_end.
  virtual void on_token(RequestId id, int32_t token, TimeNs ready_ns) = 0;
  // Once for every request that add() accepted and that ended. After a failure of the executor all that live
  // end with kAborted, in the order of their ids; CoreLoop::failure() then has the reason.
  virtual void on_end(RequestId id, EndReason reason, const RequestTimes& times) = 0;
  // After the outputs of the step were processed. Both arguments live until the return only.
  virtual void on_step(const StepPlan& plan, const StepRecord& record) = 0;
  // The oldest step's tokens are there and not yet processed: aborts that came meanwhile go first.
  virtual void on_collected() {}
  // Whether records are built and on_step is called. Asked once, when the loop is made.
  virtual bool wants_steps() const { return true; }
};

struct CoreCounters {
  int64_t steps = 0;          // processed, empty ones included
  int64_t prompt_tokens = 0;  // of prompts whose prefill completed, cache hits included, once a request
  int64_t prompt_tokens_cached = 0;    // of these, from the prefix cache at first admission
  int64_t prompt_tokens_computed = 0;  // of these, computed
  int64_t generation_tokens = 0;
  int64_t preemptions = 0;
  int64_t requests_ended = 0;  // for any reason; refused ones never began
  int32_t running = 0, waiting = 0;
  int64_t used_blocks = 0, usable_blocks = 0;
};

// One thread owns it. Owns the scheduler and, for every step in flight, plan, result and record in slots that
// are made once: a step allocates nothing in the steady state. `executor`, `clock` and `observer` outlive the
// calls made here; the executor must be gone or idle before the loop is, since it may hold plans that were
// not collected.
class CoreLoop {
 public:
  // At most config.max_plans_in_flight() steps are in flight, which may not be more than
  // executor.max_in_flight().
  CoreLoop(const SchedulerConfig& config, Executor& executor, Clock& clock, CoreObserver* observer);
  ~CoreLoop();

  // `name` is the id in the step log. A refused request leaves no trace: its status is all that is heard of
  // it.
  Status add(const RequestInput& request, const SamplingParams& params, const std::string& name);
  // Ends the request at once, whatever is in flight: on_end is called before the return. False when it does
  // not live.
  bool abort(RequestId id);

  // One turn of the loop: plans and launches a step if there is work and room, else waits for the oldest step
  // in flight and processes it. False when there was nothing to do. An error means that the executor failed:
  // everything has ended, and every later call returns the same error.
  //
  // A plan is made at the time that the clock shows when turn() is called, and time passes only inside the
  // executor. So the caller who adds, before each turn, all requests that have arrived by now gives every
  // arrival to the first plan that starts after it, as the rules say. When turn() returns false, nothing
  // happens until the next arrival.
  Result<bool> turn();

  // The two halves of a turn, for a driver that decides itself when a step starts and when its tokens are
  // there: a simulator with several pipeline stages or engines. Such a driver does not call turn().
  //
  // Plans a step at the clock's time and launches it; there must be room: num_in_flight() <
  // max_in_flight(). The plan lives until it is processed. With kDrop a plan without entries is not launched
  // and not counted, the result is null, and what it had to tell executors comes with the next plan.
  enum class EmptyPlans { kLaunch, kDrop };
  Result<const StepPlan*> plan_step(EmptyPlans empty);
  // Collects the oldest step in flight, of which there must be one, and processes its outputs.
  Status process_oldest();
  int32_t max_in_flight() const;
  // Whether turn() would plan now, and not wait.
  bool wants_to_plan() const;

  // Nothing lives, nothing is in flight and the executor has heard of every end: turn() would return false.
  bool idle() const;
  bool has_request(RequestId id) const;
  int32_t num_in_flight() const;
  int64_t num_requests() const;  // that live
  // Why the loop stopped; ok while it works.
  const Status& failure() const;

  Scheduler& scheduler();
  // Totals since the last reset, and the state of this moment.
  const CoreCounters& counters() const;
  // Totals start at zero again, and so do the numbers of the steps in the records. Only while idle.
  void reset_counters();
  // False, changing nothing, unless all blocks are free.
  bool reset_prefix_cache();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vllm
