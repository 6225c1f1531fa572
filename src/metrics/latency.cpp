#include "metrics/latency.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vllm {

RequestLatency request_latency(double arrival_s, double first_token_s, double last_token_s,
                               int64_t output_tokens) {
  RequestLatency out;
  out.ttft_ms = (first_token_s - arrival_s) * 1000;
  out.latency_ms = (last_token_s - arrival_s) * 1000;
  if (output_tokens > 1) {
    out.tpot_ms = (last_token_s - first_token_s) / static_cast<double>(output_tokens - 1) * 1000;
  }
  return out;
}

PercentilePlace percentile_place(size_t count, double q) {
  const double place = std::clamp(q, 0.0, 100.0) / 100 * static_cast<double>(count - 1);
  const auto below = static_cast<size_t>(place);
  return {below, place - static_cast<double>(below)};
}

double percentile(std::span<const double> sorted, double q) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto [below, part] = percentile_place(sorted.size(), q);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (sorted[below + 1] - sorted[below]) * part;
}

Summary summarise(std::vector<double> values) {
  Summary out;
  out.count = static_cast<int64_t>(values.size());
  std::sort(values.begin(), values.end());
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  out.median = percentile(values, 50);
  out.p90 = percentile(values, 90);
  out.p95 = percentile(values, 95);
  out.p99 = percentile(values, 99);
  if (values.empty()) {
    out.mean = out.min = out.max = out.std = kNan;
    return out;
  }
  out.min = values.front();
  out.max = values.back();
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double v : values) sum += v;
  out.mean = sum / count;
  // Around the mean, not by the difference of squares: long runs of nearly equal values keep their digits.
  double squares = 0;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean);
  out.std = std::sqrt(squares / count);
  return out;
}

}  // namespace vllm
