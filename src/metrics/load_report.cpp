#include "metrics/load_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/json.h"

namespace vllm {
namespace {

void add_summary(Json& out, const char* name, const Summary& s) {
  const std::pair<const char*, double> values[] = {{"mean", s.mean},  {"median", s.median}, {"std", s.std},
                                                   {"p50", s.median}, {"p90", s.p90},       {"p95", s.p95},
                                                   {"p99", s.p99}};
  for (const auto& [stat, value] : values) {
    out[fmt::format("{}_{}_ms", stat, name)] = s.count > 0 ? Json(value) : Json(nullptr);
  }
}

}  // namespace

int64_t peak_concurrency(const std::vector<std::pair<TimeNs, TimeNs>>& intervals) {
  // +1 at the beginning, -1 at the end; at equal instants the ends come first.
  std::vector<std::pair<TimeNs, int>> changes;
  changes.reserve(2 * intervals.size());
  for (const auto& [begin, end] : intervals) {
    changes.emplace_back(begin, 1);
    changes.emplace_back(end, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, peak = 0;
  for (const auto& [when, change] : changes) peak = std::max(peak, now += change);
  return peak;
}

int64_t TokensBySecond::peak() const {
  int64_t peak = 0;
  for (const auto& [second, tokens] : tokens_) peak = std::max(peak, tokens);
  return peak;
}

Json load_report_json(const LoadReport& r) {
  const auto rate = [&r](int64_t count) {
    return r.duration_s > 0 ? Json(static_cast<double>(count) / r.duration_s) : Json(nullptr);
  };
  Json out;
  out["endpoint_type"] = r.endpoint_type;
  out["backend"] = r.backend;
  out["model_id"] = r.model_id;
  out["num_prompts"] = r.num_prompts;
  out["duration"] = r.duration_s;
  out["completed"] = r.completed;
  out["failed"] = r.failed;
  out["total_input_tokens"] = r.input_tokens;
  out["total_output_tokens"] = r.output_tokens;
  out["request_throughput"] = rate(r.completed);
  out["output_throughput"] = rate(r.output_tokens);
  out["total_token_throughput"] = rate(r.input_tokens + r.output_tokens);
  out["max_output_tokens_per_s"] =
      r.max_output_tokens_per_s ? Json(*r.max_output_tokens_per_s) : Json(nullptr);
  out["max_concurrent_requests"] = r.max_concurrent_requests;
  add_summary(out, "ttft", r.ttft_ms);
  add_summary(out, "tpot", r.tpot_ms);
  add_summary(out, "itl", r.itl_ms);
  add_summary(out, "e2el", r.e2el_ms);
  return out;
}

}  // namespace vllm
