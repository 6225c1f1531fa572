#pragma once

// meta.json, engine_start.json and aborted.json: the keys that readers know, in their order, then ours.

#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/load_summary.h"
#include "bench/replay_input.h"
#include "bench/system_under_test.h"
#include "config/options.h"
#include "formats/json.h"

namespace vllm {

// What is known before the first submission.
struct RunFacts {
  const ParsedOptions* parsed = nullptr;
  std::string dataset_path, dataset_sha256;
  int64_t num_requests = 0;
  int64_t sessions_skipped = 0, sessions_replayed = 0;
  std::string target;                   // "in-process"
  const EngineFacts* engine = nullptr;  // null: the target does not tell
  TimeNs started_epoch_ns = 0;
  Json hardware;
  Json load_average_at_start;
  std::string issue_thread_priority = "normal";  // or "real-time"
};

// What is known after the last end.
struct RunOutcome {
  TimeNs finished_epoch_ns = 0;
  const LoadSummary* summary = nullptr;  // null for --resolve-only
  CoreCounters counters;
  int64_t steps = 0;
  std::vector<MemoryUse> memory;
  int64_t process_peak_bytes = 0;
  Json load_average_at_end;
};

// Why a run is no ground truth for a comparison; empty when it is.
std::string diagnostic_reason(const Options& options);

Json engine_start_json(const RunFacts& facts);
Json meta_json(const RunFacts& facts, const RunOutcome& outcome);

struct AbortFacts {
  std::string reason;
  TimeNs epoch_ns = 0;
  int64_t num_issued = 0, num_finished = 0;
  std::vector<std::string> finished_requests;  // lines of requests.jsonl
};
Json aborted_json(const RunFacts& facts, const AbortFacts& abort);

}  // namespace vllm
