#pragma once

// The figures of a finished replay and the table that shows them. Definitions: docs/bench.md. The names,
// their order and the look of the table are those of the serving benchmark that users know.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/recorder.h"
#include "bench/send_lag.h"
#include "bench/system_under_test.h"
#include "formats/json_fwd.h"
#include "kv/plan.h"
#include "metrics/latency.h"

namespace vllm {

struct LoadSummary {
  int64_t completed = 0, failed = 0;
  int64_t input_tokens = 0, output_tokens = 0;
  int64_t cached_tokens = 0, preemptions = 0;
  double duration_s = 0;  // first issue to last completion
  double request_throughput = 0, output_throughput = 0, total_throughput = 0;
  double peak_output_throughput = 0;  // the fullest second, counted from the first issue
  int64_t peak_concurrency = 0;       // of the intervals [issued, finished)
  // Milliseconds; from the instant at which a request was due, so that a late send is not hidden.
  Summary ttft_ms, tpot_ms, itl_ms, e2el_ms;
  SendLag send_lag;
};

LoadSummary summarise_load(const ReplayInput& input, const std::vector<CallTrace>& traces);
Json load_summary_json(const LoadSummary& summary);

// What stands below the known table.
struct ReportFooter {
  const KvPlan* plan = nullptr;  // null: the target does not tell
  int64_t process_peak_bytes = 0;
  std::vector<MemoryUse> memory;
  std::string diagnostic;  // empty: none
  std::string output_dir;
};

// Ends with a newline.
std::string load_report(const LoadSummary& summary, const ReportFooter& footer);

}  // namespace vllm
