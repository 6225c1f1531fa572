#pragma once

// An engine: a loaded model, its KV pool, a scheduler and a core thread, in one object. Two engines live in
// one process; nothing here is global.

#include <functional>
#include <memory>
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

// Called on the core's thread; must not block, must not throw, and may call of the engine only submit, abort,
// counters, health and facts. on_end is called exactly once for every submission that was accepted, whatever
// happens, and after the last on_token of its request.
struct EngineCallbacks {
  std::function<void(RequestId, int32_t token, TimeNs ready_ns)> on_token;  // may be empty
  std::function<void(RequestId, EngineResult)> on_end;                      // may be empty
};

struct EngineSettings {
  // A null executor in place of the model's forward: answers at once (step time 0) or after a given time a
  // step. No weights are loaded and no pool is allocated; the plan is made all the same, since the scheduler
  // needs its blocks.
  bool null_executor = false;
  TimeNs null_step_ns = 0;
  // Requests that live at a time, whether they wait to be taken by the core, wait in the scheduler or run;
  // beyond it submit refuses.
  int64_t max_queued = 1 << 20;
  // After each step, on the core's thread, when counters() has the step already; may be empty. The step log's
  // record and the plan that it describes live until the return only.
  std::function<void(const StepPlan&, const StepRecord&)> on_step;
  // Whose memory the engine plans for and takes from; null: this machine's. Outlives the engine.
  DeviceMemory* memory = nullptr;
};

// What start() resolved, unchanged afterwards.
struct EngineFacts {
  ModelConfig model;
  KvPlan plan;
  SchedulerConfig scheduler;
  std::string executor;  // "cpu-plain-avx512", "null"
  std::string isa;       // of the kernels; with a null executor the best of this machine
  std::string dtype;     // of weights and computing: "bfloat16"; "as stored" for a GGUF
  int threads = 1;
  bool null_executor = false;
  int64_t weights_bytes = 0;    // loaded; 0 with a null executor
  int64_t pool_bytes = 0;       // allocated: plan.pool_bytes, 0 with a null executor
  int64_t workspace_bytes = 0;  // held, and the transient peak where it was measured
  TimeNs weights_load_ns = 0;
  TimeNs load_ns = 0;  // loading, measuring, planning and allocating together
};

class Engine {
 public:
  // Reads the model's config, checks the plan from headers alone, loads weights, measures (utilisation and
  // default path), plans, allocates the pool and starts the core thread. Refuses before any large allocation
  // what cannot fit; that error has the plan's table after its first line. `clock` is a real one and outlives
  // the engine.
  static Result<std::unique_ptr<Engine>> start(const Options& options, const EngineSettings& settings,
                                               Clock& clock);
  // Aborts what still lives, then joins. Not on the core's thread.
  ~Engine();

  const EngineFacts& facts() const;

  // Any thread. The request is handed to the core; refusals arrive through on_end with a status, except a
  // full queue or a stopped engine, which are returned here. Ids count up from 1 in the order of submission.
  Result<RequestId> submit(EngineRequest request, EngineCallbacks callbacks);
  // Any thread. Takes effect before the next plan and before any outputs that are not yet known; no effect on
  // an ended request.
  void abort(RequestId id);

  // Ends the engine: no more submissions; what lives may finish within `timeout_ns`, then is aborted. Returns
  // when the core thread has ended. Any thread but the core's; again has no effect. Counters, facts and
  // health stay readable.
  void shutdown(TimeNs timeout_ns);

  // Any thread; a consistent copy made after each step.
  CoreCounters counters() const;
  // Waits until no step is in flight, then resets prefix cache, free list order, counters and the step log's
  // step numbers. False, changing nothing, when a request lives or the engine has stopped.
  bool reset_for_measurement();
  // The reason when the core died (an executor failed); ok while it is healthy.
  Status health() const;
  DeviceMemory& memory();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;

 public:
  explicit Engine(std::unique_ptr<Impl> impl);  // for start()
};

// The plan without an engine: for --print-plan. Reads only headers of weight files; uses --device-memory if
// given. With
// --num-blocks or --kv-cache-memory it is the plan that an engine with these options has, byte for byte.
Result<PlanResult> plan_without_engine(const Options& options);

}  // namespace vllm
