#pragma once

// How late the bench itself was: the time from when a request was due to when it was handed over. A bench
// that cannot keep its schedule measures itself, so the run is then marked client-limited.

#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "formats/json_fwd.h"
#include "metrics/latency.h"

namespace vllm {

struct IssueTime {
  TimeNs due_ns = 0;
  TimeNs issued_ns = 0;
};

struct SendLag {
  Summary lag_ms;
  double mean_gap_ms = 0;       // (last due - first due) / (n - 1); 0 for fewer than two requests
  double limit_ms = 0;          // 1 ms + 1 % of the mean gap
  bool client_limited = false;  // p99 > limit
  // Requests a second over the span from the first to the last; nullopt for a span of 0.
  std::optional<double> offered_rate, achieved_rate;
};

// `issues` in any order.
SendLag assess_send_lag(std::span<const IssueTime> issues);
Json send_lag_json(const SendLag& lag);

}  // namespace vllm
