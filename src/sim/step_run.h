#pragma once

// One simulated run with a step bundle: the engine's core loop on a virtual clock. Plain data in, stamps of
// requests out; what is read, written and printed around it is step_sim.h's.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/core_loop.h"
#include "formats/step_bundle.h"
#include "sched/scheduler.h"
#include "sim/step_machine.h"

namespace vllm {

struct StepRunRequest {
  int64_t line = 0;  // of the workload's file, for errors
  TimeNs arrival_ns = 0;
  std::span<const int32_t> prompt;
  int32_t output_toks = 1;
};

struct StepRunConfig {
  SchedulerConfig scheduler;
  StepGraphs graphs;
  double host_factor = 1;  // on top of the bundle's own
  uint64_t seed = 0;
  bool keep_itl = false;
};

struct StepRunTimes {
  TimeNs queued_ns = 0, scheduled_ns = 0, first_token_ns = 0, last_token_ns = 0;
  int32_t preemptions = 0, cached_tokens = 0;
  std::vector<int64_t> itl_ns;  // with keep_itl
};

struct StepRunResult {
  std::vector<StepRunTimes> requests;  // as given
  std::vector<size_t> finished;        // indices in the order of their ends
  CoreCounters counters;               // at the end
  TimeNs end_ns = 0;
};

// Called after every step with the loop's counters and the time; may be empty.
using StepRunWatcher = std::function<void(TimeNs now_ns, const CoreCounters& counters, const StepRecord&)>;

// Requests are taken in the order of their arrival. One that can never fit is an error that names its line.
// Stops with an error soon after `interrupt` is set.
Result<StepRunResult> run_steps(const StepBundle& bundle, const StepRunConfig& config,
                                std::span<const StepRunRequest> requests, const StepRunWatcher& watcher = {},
                                const std::atomic<bool>* interrupt = nullptr);

// TTFT, TPOT and latency, each mean, P50, P90, P95 and P99, in milliseconds. From the arrival, or from when
// the engine took the request in.
inline constexpr size_t kNumRunStatistics = 15;
using RunStatistics = std::array<double, kNumRunStatistics>;
const char* run_statistic_name(size_t i);  // "TTFT Mean"
RunStatistics run_statistics(const StepRunResult& result, std::span<const StepRunRequest> requests,
                             bool from_queued);

}  // namespace vllm
