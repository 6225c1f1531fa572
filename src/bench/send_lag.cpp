#include "bench/send_lag.h"

#include "formats/json.h"

#include <algorithm>
#include <vector>

namespace vllm {
namespace {

constexpr double kLimitMs = 1.0;
constexpr double kLimitOfMeanGap = 0.01;

std::optional<double> rate(TimeNs first_ns, TimeNs last_ns, size_t count) {
  if (count < 2 || last_ns <= first_ns) return std::nullopt;
  return static_cast<double>(count - 1) / ns_to_s(last_ns - first_ns);
}

}  // namespace

SendLag assess_send_lag(std::span<const IssueTime> issues) {
  SendLag out;
  out.limit_ms = kLimitMs;
  if (issues.empty()) return out;
  std::vector<double> lags_ms;
  lags_ms.reserve(issues.size());
  IssueTime first = issues.front(), last = issues.front();
  for (const IssueTime& issue : issues) {
    lags_ms.push_back(ns_to_ms(issue.issued_ns - issue.due_ns));
    first = {std::min(first.due_ns, issue.due_ns), std::min(first.issued_ns, issue.issued_ns)};
    last = {std::max(last.due_ns, issue.due_ns), std::max(last.issued_ns, issue.issued_ns)};
  }
  out.lag_ms = summarise(std::move(lags_ms));
  if (issues.size() > 1) {
    out.mean_gap_ms = ns_to_ms(last.due_ns - first.due_ns) / static_cast<double>(issues.size() - 1);
  }
  out.limit_ms = kLimitMs + kLimitOfMeanGap * out.mean_gap_ms;
  out.client_limited = out.lag_ms.p99 > out.limit_ms;
  out.offered_rate = rate(first.due_ns, last.due_ns, issues.size());
  out.achieved_rate = rate(first.issued_ns, last.issued_ns, issues.size());
  return out;
}

Json send_lag_json(const SendLag& lag) {
  const Summary& s = lag.lag_ms;
  return Json{
      {"count", s.count},        {"mean_ms", s.mean}, {"p50_ms", s.median}, {"p90_ms", s.p90},
      {"p95_ms", s.p95},         {"p99_ms", s.p99},   {"max_ms", s.max},    {"mean_gap_ms", lag.mean_gap_ms},
      {"limit_ms", lag.limit_ms}};
}

}  // namespace vllm
