#pragma once

// An engine: a loaded model, its KV pool, a scheduler and a core thread, in one object. Two engines live in
// one process; nothing here is global.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/device_memory.h"
#include "base/clock.h"
#include "base/status.h"
#include "config/model_config.h"
#include "config/options.h"
#include "engine/core_loop.h"
#include "kv/plan.h"
#include "sample/sampling_params.h"

namespace vllm {

struct EngineRequest {
  std::string name;  // "bench-0"; in logs and in the step log
  std::vector<int32_t> prompt;
  int32_t max_tokens = 16, min_tokens = 0;
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;
  int priority = 0;
  std::string cache_salt;
  SamplingParams sampling;
};

// The end of one request, whatever the reason. `status` is an error for one that was refused or that the
// engine failed on; then `tokens` holds what was generated before.
struct EngineResult {
  Status status;
  EndReason reason = EndReason::kLength;
  std::vector<int32_t> tokens;
  RequestTimes times;
};

// Called on the core's thread; must not block and must not call the engine back except submit and abort.
struct EngineCallbacks {
  std::function<void(RequestId, int32_t token, TimeNs ready_ns)> on_token;  // may be empty
  std::function<void(RequestId, EngineResult)> on_end;
};

struct EngineSettings {
  // A null executor in place of the model's forward: answers at once (step time 0) or after a given time a
  // step.
  bool null_executor = false;
  TimeNs null_step_ns = 0;
  int64_t max_queued = 1 << 20;  // submissions that wait to be taken by the core; beyond it submit refuses
  std::function<void(const StepPlan&, const StepRecord&)> on_step;  // on the core's thread; may be empty
};

// What start() resolved, unchanged afterwards.
struct EngineFacts {
  ModelConfig model;
  KvPlan plan;
  SchedulerConfig scheduler;
  std::string executor;  // name and ISA
  std::string isa;
  int threads = 1;
  int64_t weights_bytes = 0;
  TimeNs load_ns = 0;  // time that loading and planning took
};

class Engine {
 public:
  // Reads the model's config, checks the plan, loads weights, measures (utilisation path), allocates the pool
  // and starts the core thread. Refuses before any large allocation what cannot fit. `clock` outlives the
  // engine.
  static Result<std::unique_ptr<Engine>> start(const Options& options, const EngineSettings& settings,
                                               Clock& clock);
  // Aborts what still lives, then joins.
  ~Engine();

  const EngineFacts& facts() const;

  // Any thread. The request is handed to the core; refusals arrive through on_end with a status, except a
  // full queue or a stopped engine, which are returned here. Ids count up from 1 in the order of submission.
  Result<RequestId> submit(EngineRequest request, EngineCallbacks callbacks);
  void abort(RequestId id);  // any thread; no effect on an ended request

  // Ends the engine: no more submissions; running requests finish within `timeout_ns`, then are aborted.
  void shutdown(TimeNs timeout_ns);

  // Any thread; a consistent copy made after each step.
  CoreCounters counters() const;
  // Waits until nothing lives, then resets prefix cache, free list order and counters. False when requests
  // live.
  bool reset_for_measurement();
  // The reason when the core died (an executor failed); ok while it is healthy.
  Status health() const;
  DeviceMemory& memory();

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The plan without an engine: for --print-plan. Reads only headers of weight files; uses --device-memory if
// given.
Result<PlanResult> plan_without_engine(const Options& options);

}  // namespace vllm
