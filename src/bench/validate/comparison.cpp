#include "bench/validate/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "metrics/latency.h"

namespace vllm {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::array<double, kNumStatistics> statistics_of(const std::vector<double>& values) {
  const Summary s = summarise(values);
  return {s.mean, s.median, s.p90, s.p95, s.p99};
}

// nullopt when the request has no such time.
std::optional<double> real_value(const RealRequest& r, size_t metric) {
  if (!r.arrival_s) return std::nullopt;
  if (metric == 0) return r.latency.ttft_ms;
  if (metric == 1) return r.latency.tpot_ms;
  return r.latency.latency_ms;
}

double sim_value(const SimRequest& r, size_t metric) {
  return metric == 0 ? r.ttft_ms : metric == 1 ? r.tpot_ms : r.latency_ms;
}

std::vector<double> real_values(const RealRun& run, size_t metric) {
  std::vector<double> out;
  out.reserve(run.requests.size());
  for (const RealRequest& r : run.requests) {
    if (const auto value = real_value(r, metric)) out.push_back(*value);
  }
  return out;
}

const SimRequest* find_request(const SimRun& sim, int64_t row) {
  const auto it = std::lower_bound(sim.requests.begin(), sim.requests.end(), row,
                                   [](const SimRequest& r, int64_t id) { return r.id < id; });
  return it != sim.requests.end() && it->id == row ? &*it : nullptr;
}

// Pairs of the same row with the same lengths.
MatchedError match_with_sim(const RealRun& run, const SimRun& sim, size_t metric) {
  std::vector<double> real, simulated;
  for (const RealRequest& r : run.requests) {
    const SimRequest* other = r.row >= 0 ? find_request(sim, r.row) : nullptr;
    if (other == nullptr || other->input_toks != r.input_toks || other->output_toks != r.output_toks)
      continue;
    const auto value = real_value(r, metric);
    if (!value) continue;
    real.push_back(*value);
    simulated.push_back(sim_value(*other, metric));
  }
  return matched_error(real, simulated);
}

MatchedError match_with_real(const RealRun& a, const RealRun& b, size_t metric) {
  std::unordered_map<int64_t, const RealRequest*> rows;
  for (const RealRequest& r : b.requests) rows.emplace(r.row, &r);
  std::vector<double> left, right;
  for (const RealRequest& r : a.requests) {
    const auto it = r.row >= 0 ? rows.find(r.row) : rows.end();
    if (it == rows.end() || it->second->output_toks != r.output_toks) continue;
    const auto x = real_value(r, metric), y = real_value(*it->second, metric);
    if (!x || !y) continue;
    left.push_back(*x);
    right.push_back(*y);
  }
  return matched_error(left, right);
}

MatchedError mean_of(const std::vector<MatchedError>& errors) {
  MatchedError out;
  for (const MatchedError& e : errors) {
    out.count += e.count;
    out.mean_abs += e.mean_abs;
    out.mean_abs_pct += e.mean_abs_pct;
    out.bias += e.bias;
  }
  const auto n = static_cast<double>(errors.size());
  out.count /= std::max<int64_t>(static_cast<int64_t>(errors.size()), 1);
  out.mean_abs /= n;
  out.mean_abs_pct /= n;
  out.bias /= n;
  return out;
}

double mean_of(const std::vector<double>& values) { return spread(values).mean; }

void compare_statistics(const std::vector<RealRun>& real, const std::vector<double>& sim_values,
                        MetricComparison& out) {
  const auto sim = statistics_of(sim_values);
  std::vector<std::array<double, kNumStatistics>> each;
  for (size_t k = 0; k < real.size(); ++k) each.push_back(statistics_of(out.real_values[k]));
  for (size_t s = 0; s < kNumStatistics; ++s) {
    std::vector<double> values;
    for (const auto& statistics : each) values.push_back(statistics[s]);
    StatisticComparison& c = out.statistics[s];
    c.real_spread = spread(values);
    c.real = c.real_spread.mean;
    c.sim = sim[s];
    c.diff_pct = difference_pct(c.real, c.sim);
    if (real.size() < 2 || !std::isfinite(c.real_spread.sd)) continue;
    const double distance = std::abs(c.sim - c.real);
    if (c.real_spread.sd > 0) c.distance_sd = distance / c.real_spread.sd;
    c.inside_noise = distance <= kNoiseWidth * c.real_spread.sd;
  }
}

MetricComparison compare_metric(const std::vector<RealRun>& real, const SimRun& sim, size_t metric) {
  MetricComparison out;
  for (const RealRun& run : real) out.real_values.push_back(real_values(run, metric));
  // The simulator writes a TPOT of 0 for one token, which the known summary counts; a distribution must not.
  std::vector<double> all;
  for (const SimRequest& r : sim.requests) {
    all.push_back(sim_value(r, metric));
    if (metric != 1 || r.output_toks > 1) out.sim_values.push_back(all.back());
  }
  compare_statistics(real, all, out);

  std::vector<double> distances;
  std::vector<MatchedError> errors;
  for (size_t k = 0; k < real.size(); ++k) {
    distances.push_back(ks_distance(out.real_values[k], out.sim_values));
    errors.push_back(match_with_sim(real[k], sim, metric));
  }
  out.ks = mean_of(distances);
  out.matched = mean_of(errors);
  if (real.size() < 2) return out;
  distances.clear();
  errors.clear();
  for (size_t a = 0; a < real.size(); ++a) {
    for (size_t b = a + 1; b < real.size(); ++b) {
      distances.push_back(ks_distance(out.real_values[a], out.real_values[b]));
      errors.push_back(match_with_real(real[a], real[b], metric));
    }
  }
  out.real_ks = mean_of(distances);
  out.real_matched = mean_of(errors);
  return out;
}

LoadFigures real_load(const RealRun& run) {
  LoadFigures out{static_cast<int64_t>(run.requests.size()), run.input_toks, run.output_toks, {}};
  std::optional<double> first, last;
  for (const RealRequest& r : run.requests) {
    if (!r.arrival_s) continue;
    first = first ? std::min(*first, *r.arrival_s) : *r.arrival_s;
    last = last ? std::max(*last, r.last_token_s) : r.last_token_s;
  }
  if (first && last && *last > *first) out.duration_s = *last - *first;
  return out;
}

LoadFigures sim_load(const SimRun& run) {
  LoadFigures out{static_cast<int64_t>(run.requests.size()), run.input_toks, run.output_toks, {}};
  if (!run.has_times) return out;
  double first = run.requests[0].arrival_s, last = run.requests[0].end_s;
  for (const SimRequest& r : run.requests) {
    first = std::min(first, r.arrival_s);
    last = std::max(last, r.end_s);
  }
  if (last > first) out.duration_s = last - first;
  return out;
}

}  // namespace

const char* metric_name(size_t metric) { return std::array{"TTFT", "TPOT", "Latency"}[metric]; }
const char* metric_key(size_t metric) { return std::array{"ttft_ms", "tpot_ms", "latency_ms"}[metric]; }
const char* statistic_name(size_t statistic) {
  return std::array{"Mean", "Median", "P90", "P95", "P99"}[statistic];
}
const char* statistic_key(size_t statistic) {
  return std::array{"mean", "median", "p90", "p95", "p99"}[statistic];
}
const char* anchor_name(ArrivalAnchor anchor) {
  return anchor == ArrivalAnchor::kPickup ? "pickup" : "queued";
}

double LoadFigures::output_throughput() const {
  return duration_s ? static_cast<double>(output_toks) / *duration_s : kNan;
}

Comparison compare_runs(const std::vector<RealRun>& real, const SimRun& sim, ArrivalAnchor anchor,
                        const std::string& title) {
  Comparison out;
  out.title = title;
  out.anchor = anchor;
  for (size_t m = 0; m < kNumMetrics; ++m) out.metrics[m] = compare_metric(real, sim, m);
  out.real_load = real_load(real[0]);
  out.sim_load = sim_load(sim);
  check_comparable(real, sim, out);
  return out;
}

}  // namespace vllm
