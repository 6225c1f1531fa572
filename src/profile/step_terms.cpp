#include "profile/step_terms.h"

#include <algorithm>
#include <cmath>

#include "sim/least_squares.h"

namespace vllm {
namespace {

constexpr double kClip = 5;
// A knot stays when the held-out error rises by this part of it without the knot.
constexpr double kWorthwhile = 0.003;

double term_value(const StepTerm& term, const StepFeatures& features) {
  return std::max(0.0, features[static_cast<size_t>(term.feature)] - term.from);
}

std::optional<std::vector<StepTerm>> solve_terms(std::span<const StepSample> samples,
                                                 std::vector<StepTerm> terms) {
  DesignMatrix x;
  x.columns = terms.size();
  std::vector<double> y, weights, row(terms.size());
  for (const StepSample& sample : samples) {
    for (size_t j = 0; j < terms.size(); ++j) row[j] = term_value(terms[j], sample.features);
    x.add_row(row);
    y.push_back(sample.ms);
    weights.push_back(1 / std::max(sample.ms, 1e-3));
  }
  const auto solution = clipped_least_squares(x, y, weights, kClip);
  if (!solution) return std::nullopt;
  for (size_t j = 0; j < terms.size(); ++j) terms[j].ms = (*solution)[j];
  return terms;
}

// Slopes of each feature, knot by knot: the last may not fall, the others hardly.
bool rises(const std::vector<StepTerm>& terms) {
  for (size_t f = 0; f < kNumStepFeatures; ++f) {
    std::vector<StepTerm> own;
    for (const StepTerm& term : terms) {
      if (static_cast<size_t>(term.feature) == f) own.push_back(term);
    }
    std::sort(own.begin(), own.end(), [](const StepTerm& a, const StepTerm& b) { return a.from < b.from; });
    double slope = 0, steepest = 0, lowest = 0;
    for (const StepTerm& term : own) {
      slope += term.ms;
      steepest = std::max(steepest, slope);
      lowest = std::min(lowest, slope);
    }
    if (slope < 0 || lowest < -0.25 * steepest) return false;
  }
  return true;
}

std::vector<StepSample> without_block(std::span<const StepSample> samples, int block) {
  std::vector<StepSample> rest;
  for (const StepSample& sample : samples) {
    if (sample.block != block) rest.push_back(sample);
  }
  return rest;
}

// Residuals of every sample from fits that did not see its block; empty when some block cannot be left out.
std::vector<double> held_out(std::span<const StepSample> samples, const std::vector<StepTerm>& terms) {
  std::vector<double> residuals(samples.size());
  for (int block = 0; block < kTimeBlocks; ++block) {
    const auto fitted = fit_terms(without_block(samples, block), terms);
    if (!fitted) return {};
    for (size_t i = 0; i < samples.size(); ++i) {
      if (samples[i].block == block) residuals[i] = samples[i].ms - sum_terms(*fitted, samples[i].features);
    }
  }
  return residuals;
}

// Robust: what a few stray samples do must not choose the knots.
double error_of(const std::vector<double>& residuals, std::span<const StepSample> samples) {
  if (residuals.empty()) return INFINITY;
  std::vector<double> weighted;
  for (size_t i = 0; i < residuals.size(); ++i) {
    weighted.push_back(std::abs(residuals[i]) / std::sqrt(std::max(samples[i].ms, 1e-3)));
  }
  const double limit = quantile_of(weighted, 0.98);
  double sum = 0;
  for (const double w : weighted) sum += std::min(w, limit) * std::min(w, limit);
  return std::sqrt(sum / static_cast<double>(weighted.size()));
}

double sd_of(const std::vector<double>& values, double mean) {
  double sum = 0;
  for (const double v : values) sum += (v - mean) * (v - mean);
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

}  // namespace

std::optional<std::vector<StepTerm>> fit_terms(std::span<const StepSample> samples,
                                               std::vector<StepTerm> terms) {
  // A feature that no sample has says nothing.
  std::erase_if(terms, [&](const StepTerm& term) {
    return std::none_of(samples.begin(), samples.end(),
                        [&](const StepSample& s) { return term_value(term, s.features) > 0; });
  });
  while (!terms.empty()) {
    auto fitted = solve_terms(samples, terms);
    if (!fitted) return std::nullopt;
    const auto worst = std::min_element(fitted->begin(), fitted->end(), [](const auto& a, const auto& b) {
      return (a.from > 0 ? 0 : a.ms) < (b.from > 0 ? 0 : b.ms);
    });
    if (worst->from > 0 || worst->ms >= 0) return fitted;
    const StepFeature dropped = worst->feature;
    std::erase_if(terms, [dropped](const StepTerm& term) { return term.feature == dropped; });
  }
  return std::nullopt;
}

std::optional<std::vector<StepTerm>> fit_with_knots(std::span<const StepSample> samples,
                                                    const std::vector<StepTerm>& base,
                                                    const std::vector<Knot>& candidates) {
  std::vector<StepTerm> terms = base;
  for (const Knot& knot : candidates) terms.push_back({knot.feature, knot.from, 0});
  auto fitted = fit_terms(samples, terms);
  double error = error_of(held_out(samples, terms), samples);
  while (true) {
    const bool sound = fitted && rises(*fitted) && std::isfinite(error);
    // The knot that is missed least.
    std::optional<size_t> dropped;
    double least = INFINITY;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (terms[i].from <= 0) continue;
      std::vector<StepTerm> rest = terms;
      rest.erase(rest.begin() + static_cast<ptrdiff_t>(i));
      const double rest_error = error_of(held_out(samples, rest), samples);
      if (dropped && rest_error >= least) continue;
      least = rest_error;
      dropped = i;
    }
    if (!dropped || (sound && least > error * (1 + kWorthwhile))) return fitted;
    terms.erase(terms.begin() + static_cast<ptrdiff_t>(*dropped));
    fitted = fit_terms(samples, terms);
    error = std::min(error, least);
  }
}

StepResidual residual_of(const std::string& region, std::span<const StepSample> samples,
                         const std::vector<StepTerm>& terms,
                         const std::function<bool(const StepSample&)>& inside) {
  StepResidual result;
  result.region = region;
  const std::vector<double> unseen = held_out(samples, terms);
  std::vector<double> measured, residuals, held;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!inside(samples[i])) continue;
    measured.push_back(samples[i].ms);
    residuals.push_back(samples[i].ms - sum_terms(terms, samples[i].features));
    if (!unseen.empty()) held.push_back(unseen[i]);
  }
  result.samples = static_cast<int64_t>(measured.size());
  if (measured.empty()) return result;
  result.mean_ms = mean_of(measured);
  result.bias_ms = mean_of(residuals);
  result.sd_ms = sd_of(residuals, result.bias_ms);
  result.p5_ms = quantile_of(residuals, 0.05);
  result.p50_ms = quantile_of(residuals, 0.5);
  result.p95_ms = quantile_of(residuals, 0.95);
  result.held_out_bias_ms = mean_of(held);
  result.held_out_sd_ms = sd_of(held, result.held_out_bias_ms);
  return result;
}

}  // namespace vllm
