#include "metrics/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vllm {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double difference_pct(double real, double sim) { return real == 0 ? kNan : (sim - real) / real * 100; }

double ks_distance(std::vector<double> a, std::vector<double> b) {
  if (a.empty() || b.empty()) return kNan;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double most = 0;
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    // Both functions step past a value that both sides have before they are compared.
    const double value = std::min(a[i], b[j]);
    if (!(value == value)) return kNan;
    while (i < a.size() && a[i] <= value) ++i;
    while (j < b.size() && b[j] <= value) ++j;
    const double fa = static_cast<double>(i) / static_cast<double>(a.size());
    const double fb = static_cast<double>(j) / static_cast<double>(b.size());
    most = std::max(most, std::abs(fa - fb));
  }
  return most;
}

Spread spread(std::span<const double> values) {
  Spread out;
  out.count = static_cast<int64_t>(values.size());
  out.mean = out.sd = out.sd_pct = kNan;
  if (values.empty()) return out;
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double v : values) sum += v;
  out.mean = sum / count;
  if (values.size() < 2) return out;
  double squares = 0;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean);
  out.sd = std::sqrt(squares / (count - 1));
  if (out.mean != 0) out.sd_pct = out.sd / std::abs(out.mean) * 100;
  return out;
}

MatchedError matched_error(std::span<const double> real, std::span<const double> sim) {
  MatchedError out;
  const size_t pairs = std::min(real.size(), sim.size());
  out.count = static_cast<int64_t>(pairs);
  out.mean_abs = out.mean_abs_pct = out.bias = kNan;
  if (pairs == 0) return out;
  double absolute = 0, signed_sum = 0, relative = 0;
  int64_t with_relative = 0;
  for (size_t i = 0; i < pairs; ++i) {
    absolute += std::abs(sim[i] - real[i]);
    signed_sum += sim[i] - real[i];
    if (real[i] > 0) {
      relative += std::abs(sim[i] - real[i]) / real[i];
      ++with_relative;
    }
  }
  out.mean_abs = absolute / static_cast<double>(pairs);
  out.bias = signed_sum / static_cast<double>(pairs);
  if (with_relative > 0) out.mean_abs_pct = relative / static_cast<double>(with_relative) * 100;
  return out;
}

}  // namespace vllm
