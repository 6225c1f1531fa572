#include "sim/step_machine.h"

#include <algorithm>
#include <cmath>

namespace vllm {
namespace {

// Of the random streams of one seed.
constexpr uint64_t kLaunchStream = 101, kDeviceStream = 102;

bool depends_on_rows(StepFeature feature) {
  return feature == StepFeature::kConstant || feature == StepFeature::kRows ||
         feature == StepFeature::kPaddedRows || feature == StepFeature::kTokens;
}

// Of the time of a step of one row: reading the weights at the memory's full rate. The rest is latency and
// what grows with rows and contexts. (16.1 GB at 4.8 TB/s in 4.8 ms, for the model that this was seen with.)
constexpr double kWeightShare = 0.7;

double coefficient_ms(const StepRegion& region, StepFeature feature) {
  double ms = 0;
  for (const StepTerm& term : region.terms) {
    if (term.feature == feature && term.from == 0) ms += term.ms;
  }
  return ms;
}
double constant_ms(const StepRegion& region) { return coefficient_ms(region, StepFeature::kConstant); }
double token_ms(const StepRegion& region) { return coefficient_ms(region, StepFeature::kTokens) / 1e3; }

// The part of the terms that does not depend on contexts.
double rows_part(std::span<const StepTerm> terms, const StepFeatures& features) {
  double sum = 0;
  for (const StepTerm& term : terms) {
    if (depends_on_rows(term.feature)) sum += sum_terms({&term, 1}, features);
  }
  return sum;
}

}  // namespace

StepShape step_shape(const StepPlan& plan) {
  StepShape shape;
  for (const StepEntry& entry : plan.entries) shape.add_row(entry.num_tokens, entry.num_computed);
  return shape;
}

StepKind StepGraphs::kind(const StepShape& shape) const {
  if (shape.tokens == 0) return StepKind::kEmpty;
  if (sizes.empty() || shape.tokens > sizes.back()) return StepKind::kEager;
  return shape.tokens == shape.rows && shape.rows <= full_rows ? StepKind::kGraph : StepKind::kPiecewise;
}

int64_t StepGraphs::padded(const StepShape& shape) const {
  const auto size = std::lower_bound(sizes.begin(), sizes.end(), shape.tokens);
  return size == sizes.end() ? shape.tokens : *size;
}

StepFeatures step_features(const StepShape& shape, int64_t padded, double busy) {
  const double thousands = static_cast<double>(shape.tokens) / 1e3;
  StepFeatures f{};
  f[static_cast<size_t>(StepFeature::kConstant)] = 1;
  f[static_cast<size_t>(StepFeature::kRows)] = static_cast<double>(shape.rows);
  f[static_cast<size_t>(StepFeature::kPaddedRows)] = static_cast<double>(padded);
  f[static_cast<size_t>(StepFeature::kTokens)] = thousands;
  f[static_cast<size_t>(StepFeature::kDecodeContext)] = shape.decode_context / 1e3;
  f[static_cast<size_t>(StepFeature::kPrefillPairs)] = shape.prefill_pairs / 1e6;
  f[static_cast<size_t>(StepFeature::kBusyTokens)] = thousands * busy;
  return f;
}

double sum_terms(std::span<const StepTerm> terms, const StepFeatures& features) {
  double sum = 0;
  for (const StepTerm& term : terms) {
    sum += term.ms * std::max(0.0, features[static_cast<size_t>(term.feature)] - term.from);
  }
  return sum;
}

double device_ms(const StepBundle& bundle, StepKind kind, const StepShape& shape, int64_t padded,
                 double busy) {
  if (kind == StepKind::kEmpty) return 0;
  StepFeatures features = step_features(shape, padded, busy);
  const auto at = [&features](StepFeature f) -> double& { return features[static_cast<size_t>(f)]; };
  const bool has_graphs = !bundle.graph.terms.empty();

  if (kind == StepKind::kEager || !has_graphs) {
    double ms = std::max(sum_terms(bundle.eager.terms, features), bundle.eager.min_ms);
    if (has_graphs) {
      // Weights are read in any case.
      at(StepFeature::kPaddedRows) = std::min(at(StepFeature::kPaddedRows), bundle.graph.largest_rows);
      at(StepFeature::kRows) = std::min(at(StepFeature::kRows), bundle.graph.largest_rows);
      ms = std::max(ms, rows_part(bundle.graph.terms, features));
    }
    return ms;
  }

  double ms = sum_terms(bundle.graph.terms, features);
  const auto rows = static_cast<double>(padded);
  if (rows > bundle.graph.largest_rows) {
    const double per_row = token_ms(bundle.eager);
    const double reading = kWeightShare * constant_ms(bundle.graph);
    ms += std::max(0.0, per_row * rows - reading) -
          std::max(0.0, per_row * bundle.graph.largest_rows - reading);
  }
  if (kind == StepKind::kPiecewise) {
    for (const StepTerm& term : bundle.eager.terms) {
      if (term.feature == StepFeature::kPrefillPairs) ms += sum_terms({&term, 1}, features);
    }
  }
  return std::max(ms, bundle.graph.min_ms);
}

void BusyShare::add(double begin_ms, double end_ms) {
  if (end_ms > begin_ms) spans_.push_back({begin_ms, end_ms});
}

double BusyShare::at(double now_ms) {
  const double from = now_ms - kBusyWindowMs;
  while (!spans_.empty() && spans_.front().end_ms <= from) spans_.pop_front();
  double sum = 0;
  for (const Span& span : spans_) {
    sum += std::max(0.0, std::min(span.end_ms, now_ms) - std::max(span.begin_ms, from));
  }
  return sum / kBusyWindowMs;
}

double normal_cdf(double z) {
  // Abramowitz and Stegun 26.2.17, with the exponential that is the same everywhere.
  const double x = z < 0 ? -z : z;
  if (x > 8) return z < 0 ? 0 : 1;
  const double t = 1 / (1 + 0.2316419 * x);
  const double tail =
      0.3989422804014327 * portable_exp(-x * x / 2) *
      (t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))));
  return z < 0 ? tail : 1 - tail;
}

LaunchNoise::LaunchNoise(const StepHost& host, uint64_t seed) : host_(host), random_(seed, kLaunchStream) {}

double LaunchNoise::next(double now_ms) {
  const double fresh = random_.normal(), slow_step = random_.normal();
  if (!begun_) {
    slow_ = slow_step;
    begun_ = true;
  } else {
    const double seconds = std::max(0.0, now_ms - last_ms_) / 1e3;
    const double keep = host_.eager_correlation_s > 0
                            ? portable_exp(-std::min(50.0, seconds / host_.eager_correlation_s))
                            : 0;
    slow_ = keep * slow_ + std::sqrt(1 - keep * keep) * slow_step;
  }
  last_ms_ = now_ms;
  const double share = host_.eager_correlation;
  const double z = std::sqrt(share) * slow_ + std::sqrt(1 - share) * fresh;
  const auto& quantiles = host_.eager_quantiles;
  const double position = normal_cdf(z) * static_cast<double>(quantiles.size() - 1);
  const auto below = std::min(static_cast<size_t>(position), quantiles.size() - 2);
  const double part = position - static_cast<double>(below);
  return quantiles[below] + part * (quantiles[below + 1] - quantiles[below]);
}

StepMachine::StepMachine(const StepBundle& bundle, StepGraphs graphs, double host_factor, uint64_t seed)
    : bundle_(bundle),
      graphs_(std::move(graphs)),
      host_factor_(host_factor * bundle.host_scale),
      launch_noise_(bundle.host, seed),
      device_random_(seed, kDeviceStream) {}

double StepMachine::launch_ms(StepKind kind, const StepShape& shape, double start_ms) {
  const StepHost& host = bundle_.host;
  switch (kind) {
    case StepKind::kEmpty:
      return host.empty_ms;
    case StepKind::kGraph:
      return host.graph_launch_ms + host.graph_launch_row_ms * static_cast<double>(shape.rows);
    case StepKind::kPiecewise:
      return host.piecewise_launch_ms * launch_noise_.next(start_ms);
    case StepKind::kEager:
      break;
  }
  return host.eager_launch_ms * launch_noise_.next(start_ms);
}

double StepMachine::noise(const StepRegion& region, double& state, Random& random) {
  const double rho = region.noise_correlation;
  state = rho * state + std::sqrt(1 - rho * rho) * random.normal();
  return std::max(0.2, 1 + region.noise * state);
}

StepMachine::Times StepMachine::launch(const StepShape& shape, double start_ms) {
  const StepHost& host = bundle_.host;
  const StepKind kind = graphs_.kind(shape);
  Times times;
  const double launch = launch_ms(kind, shape, start_ms) * host_factor_;
  times.launched_ms = start_ms + launch;
  if (kind == StepKind::kEmpty) {
    times.device_end_ms = std::max(device_free_ms_, times.launched_ms);
    return times;
  }
  const bool eager = kind == StepKind::kEager;
  double begin = times.launched_ms;
  if (!eager) begin -= std::min(host.graph_head_ms, launch);
  if (eager && host.eager_streams) {
    const double head =
        (host.eager_head_ms + host.eager_head_row_ms * static_cast<double>(shape.rows)) * host_factor_;
    begin = std::min(begin, start_ms + head);
  }
  begin = std::max(begin, device_free_ms_);
  const double ms = device_ms(bundle_, kind, shape, graphs_.padded(shape), busy_.at(begin)) *
                    bundle_.device_scale *
                    (eager ? noise(bundle_.eager, eager_state_, device_random_)
                           : noise(bundle_.graph, graph_state_, device_random_));
  times.device_end_ms = begin + ms;
  if (eager && host.eager_streams) {
    times.device_end_ms = std::max(times.device_end_ms, times.launched_ms + host.eager_tail_ms);
  }
  if (eager) busy_.add(begin, times.device_end_ms);
  device_free_ms_ = times.device_end_ms;
  return times;
}

double StepMachine::outputs_ms(const Times& step, double now_ms) const {
  return std::max(now_ms, step.device_end_ms + bundle_.host.output_ms);
}

double StepMachine::stamp_ms(int64_t rows) const {
  return (bundle_.host.stamp_ms + bundle_.host.stamp_row_ms * static_cast<double>(rows)) * host_factor_;
}

double StepMachine::gap_ms(int64_t rows) const {
  return (bundle_.host.gap_ms + bundle_.host.gap_row_ms * static_cast<double>(rows)) * host_factor_;
}

}  // namespace vllm
