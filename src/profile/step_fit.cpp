#include "profile/step_fit.h"

#include <algorithm>
#include <cmath>

#include "profile/step_terms.h"
#include "sim/least_squares.h"

namespace vllm {
namespace {

constexpr int kRounds = 4;
constexpr size_t kFewest = kFewestSamples;
constexpr size_t kQuantiles = 41;

std::vector<double> values_of(const std::vector<StepSample>& samples) {
  std::vector<double> values;
  for (const StepSample& sample : samples) values.push_back(sample.ms);
  return values;
}

double mean_of(const std::vector<StepSample>& samples) {
  double sum = 0;
  for (const StepSample& sample : samples) sum += sample.ms;
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

double largest(const std::vector<StepSample>& samples, StepFeature feature) {
  double most = 0;
  for (const StepSample& s : samples) most = std::max(most, s.features[static_cast<size_t>(feature)]);
  return most;
}

const std::vector<StepTerm>& per_row_terms() {
  static const std::vector<StepTerm> kTerms = {{StepFeature::kConstant}, {StepFeature::kRows}};
  return kTerms;
}

// base + slope * rows; what is not measured stays.
void fit_per_row(const std::vector<StepSample>& samples, double& base, double& slope) {
  if (samples.empty()) return;
  std::optional<std::vector<StepTerm>> terms;
  if (samples.size() >= kFewest) terms = fit_terms(samples, per_row_terms());
  base = slope = 0;
  if (!terms) {
    base = std::max(0.0, median_of(values_of(samples)));
    return;
  }
  for (const StepTerm& term : *terms) (term.feature == StepFeature::kConstant ? base : slope) = term.ms;
}

// Knots inside what was recorded: a slope at the far end would rest on too little.
std::vector<Knot> knots(const std::vector<StepSample>& samples, StepFeature feature,
                        std::initializer_list<double> at) {
  constexpr double kInside = 0.6;
  std::vector<Knot> list;
  for (const double from : at) {
    if (from <= kInside * largest(samples, feature)) list.push_back({feature, from});
  }
  return list;
}

// Relative standard deviation of what is left, and its correlation from one step to the next.
void fit_noise(const std::vector<StepSample>& samples, StepRegion& region) {
  std::vector<double> relative;
  for (const StepSample& s : samples) {
    const double model = sum_terms(region.terms, s.features);
    relative.push_back(model > 0 ? s.ms / model - 1 : 0);
  }
  if (relative.size() < kFewest) return;
  const double low = quantile_of(relative, 0.05), high = quantile_of(relative, 0.95);
  double sum = 0, sum_lag = 0, before = 0;
  for (size_t i = 0; i < relative.size(); ++i) {
    const double v = std::clamp(relative[i], low, high);
    sum += v * v;
    if (i > 0) sum_lag += v * before;
    before = v;
  }
  region.noise = std::min(1.0, std::sqrt(sum / static_cast<double>(relative.size())));
  region.noise_correlation = sum > 0 ? std::clamp(sum_lag / sum, 0.0, 0.99) : 0;
}

void fit_graph_region(const StepSamples& samples, bool choose_knots, StepBundle& bundle) {
  const auto& own = samples.graph_device;
  if (own.size() < kFewest) return;
  std::vector<Knot> candidates = knots(own, StepFeature::kPaddedRows, {4, 16, 64, 128, 256});
  const auto more = knots(own, StepFeature::kDecodeContext, {5, 15, 50, 150});
  candidates.insert(candidates.end(), more.begin(), more.end());
  const auto terms = fit_with_knots(
      own, {{StepFeature::kConstant}, {StepFeature::kPaddedRows}, {StepFeature::kDecodeContext}},
      choose_knots ? candidates : std::vector<Knot>{});
  if (!terms) return;
  bundle.graph.terms = *terms;
  bundle.graph.largest_rows = largest(own, StepFeature::kPaddedRows);
  bundle.graph.largest_tokens = largest(own, StepFeature::kTokens);
  bundle.graph.min_ms = 0.5 * quantile_of(values_of(own), 0.01);
  fit_noise(own, bundle.graph);
}

void fit_eager_region(const StepSamples& samples, bool serial, bool choose_knots, StepBundle& bundle) {
  const auto& own = samples.eager_device;
  if (own.size() < kFewest) return;
  std::vector<StepTerm> base = {
      {StepFeature::kTokens}, {StepFeature::kDecodeContext}, {StepFeature::kPrefillPairs}};
  std::vector<Knot> candidates;
  if (serial) {
    base.insert(base.end(), {{StepFeature::kConstant}, {StepFeature::kRows}});
    candidates = knots(own, StepFeature::kTokens, {.004, .016, .064, .256, 1});
    const auto more = knots(own, StepFeature::kDecodeContext, {5, 15, 50, 150});
    candidates.insert(candidates.end(), more.begin(), more.end());
  } else {
    base.push_back({StepFeature::kBusyTokens});
  }
  const auto terms = fit_with_knots(own, base, choose_knots && serial ? candidates : std::vector<Knot>{});
  if (!terms) return;
  bundle.eager.terms = *terms;
  bundle.eager.largest_rows = largest(own, StepFeature::kRows);
  bundle.eager.largest_tokens = largest(own, StepFeature::kTokens);
  bundle.eager.min_ms = 0.5 * quantile_of(values_of(own), 0.01);
  fit_noise(own, bundle.eager);
}

// ---- launches without a graph ----

// Normal scores of the launches, in the order of the samples.
std::vector<double> normal_scores(const std::vector<StepSample>& samples) {
  std::vector<size_t> order(samples.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return samples[a].ms < samples[b].ms; });
  std::vector<double> scores(samples.size());
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const double p = (static_cast<double>(rank) + 0.5) / static_cast<double>(order.size());
    double low = -8, high = 8;
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (normal_cdf(middle) < p ? low : high) = middle;
    }
    scores[order[rank]] = low;
  }
  return scores;
}

struct LagBin {
  double up_to_s;
  double sum = 0, lag = 0;
  int64_t pairs = 0;
};

// Correlation of pairs by their distance in time, and the exponential nearest to it.
void fit_launch_correlation(std::vector<StepSample> samples, StepHost& host) {
  std::sort(samples.begin(), samples.end(), [](const StepSample& a, const StepSample& b) {
    return a.recording != b.recording ? a.recording < b.recording : a.at_ms < b.at_ms;
  });
  const std::vector<double> z = normal_scores(samples);
  std::vector<LagBin> bins = {{.06}, {.12}, {.2}, {.35}, {.6}, {1.0}, {2.0}, {4.0}};
  for (size_t i = 0; i < z.size(); ++i) {
    for (size_t j = i + 1; j < z.size() && samples[j].recording == samples[i].recording; ++j) {
      const double lag = (samples[j].at_ms - samples[i].at_ms) / 1e3;
      const auto bin =
          std::find_if(bins.begin(), bins.end(), [lag](const LagBin& b) { return lag <= b.up_to_s; });
      if (bin == bins.end()) break;
      bin->sum += z[i] * z[j];
      bin->lag += lag;
      ++bin->pairs;
    }
  }
  double best = INFINITY;
  for (int c = 0; c <= 19; ++c) {
    for (const double tau : {.03, .05, .08, .12, .18, .25, .35, .5, .7, 1.0, 1.4, 2.0}) {
      double error = 0;
      for (const LagBin& bin : bins) {
        if (bin.pairs == 0) continue;
        const auto n = static_cast<double>(bin.pairs);
        const double model = 0.05 * c * std::exp(-(bin.lag / n) / tau);
        error += n * (bin.sum / n - model) * (bin.sum / n - model);
      }
      if (error >= best) continue;
      best = error;
      host.eager_correlation = 0.05 * c;
      host.eager_correlation_s = tau;
    }
  }
}

void fit_eager_launch(const StepSamples& samples, bool last, StepHost& host) {
  const auto& own = samples.eager_launch;
  if (own.size() < kFewest) return;
  host.eager_launch_ms = mean_of(own);
  std::vector<double> values = values_of(own);
  std::sort(values.begin(), values.end());
  host.eager_quantiles.clear();
  double sum = 0;
  for (size_t i = 0; i < kQuantiles; ++i) {
    const double q = quantile_of(values, static_cast<double>(i) / static_cast<double>(kQuantiles - 1));
    host.eager_quantiles.push_back(q / host.eager_launch_ms);
    sum += (i == 0 || i + 1 == kQuantiles ? 0.5 : 1.0) * host.eager_quantiles.back();
  }
  // What is drawn from the polygon has mean 1.
  for (double& q : host.eager_quantiles) q *= static_cast<double>(kQuantiles - 1) / sum;
  if (last) fit_launch_correlation(own, host);
}

// What is read off directly, without a bottleneck to decide.
void fit_host(const StepSamples& samples, bool serial, StepHost& host) {
  fit_per_row(samples.gap, host.gap_ms, host.gap_row_ms);
  fit_per_row(samples.stamp, host.stamp_ms, host.stamp_row_ms);
  fit_per_row(samples.graph_launch, host.graph_launch_ms, host.graph_launch_row_ms);
  if (samples.empty.size() >= 1) host.empty_ms = std::max(0.0, median_of(values_of(samples.empty)));
  if (serial) return;
  // Graphs in pieces were launched too rarely in some recordings; then they lie between the other two.
  host.piecewise_launch_ms = samples.piecewise_launch.size() >= kFewest ? mean_of(samples.piecewise_launch)
                                                                        : 0.5 * host.eager_launch_ms;
  if (samples.graph_head.size() >= kFewest) {
    host.graph_head_ms = std::clamp(median_of(values_of(samples.graph_head)), 0.0, host.graph_launch_ms);
  }
  host.eager_tail_ms = host.graph_head_ms;
}

void fit_eager_head(const StepSamples& samples, StepHost& host) {
  host.eager_head_row_ms = host.graph_launch_row_ms;
  host.eager_head_ms = 0.13 * host.eager_launch_ms;
  if (samples.eager_head.size() < kFewest) return;
  std::vector<double> heads;
  for (const StepSample& s : samples.eager_head) {
    heads.push_back(s.ms - host.eager_head_row_ms * static_cast<double>(s.rows));
  }
  host.eager_head_ms = std::clamp(median_of(heads), 0.0, 0.5 * host.eager_launch_ms);
}

// ---- residuals ----

void add_residuals(const StepSamples& samples, StepBundle& bundle) {
  const auto add = [&](const std::string& name, const std::vector<StepSample>& own,
                       const std::vector<StepTerm>& terms,
                       const std::function<bool(const StepSample&)>& inside) {
    StepResidual residual = residual_of(name, own, terms, inside);
    if (residual.samples > 0) bundle.residuals.push_back(std::move(residual));
  };
  const auto all = [](const StepSample&) { return true; };
  const auto between = [](StepFeature feature, double low, double high) {
    return [=](const StepSample& s) {
      const double v = s.features[static_cast<size_t>(feature)];
      return v > low && v <= high;
    };
  };
  const StepHost& h = bundle.host;
  const auto per_row = [](double base, double slope) {
    return std::vector<StepTerm>{{StepFeature::kConstant, 0, base}, {StepFeature::kRows, 0, slope}};
  };
  add("host, outputs to next plan", samples.gap, per_row(h.gap_ms, h.gap_row_ms), all);
  add("host, outputs to stamp", samples.stamp, per_row(h.stamp_ms, h.stamp_row_ms), all);
  add("host, graph launch", samples.graph_launch, per_row(h.graph_launch_ms, h.graph_launch_row_ms), all);
  add("host, piecewise launch", samples.piecewise_launch,
      {{StepFeature::kConstant, 0, h.piecewise_launch_ms}}, all);
  add("host, eager launch", samples.eager_launch, {{StepFeature::kConstant, 0, h.eager_launch_ms}}, all);
  double low = 0;
  for (const double high : {8., 32., 64., 128., 256., 1024.}) {
    add(fmt::format("device, graph, {:.0f} to {:.0f} rows", low + 1, high), samples.graph_device,
        bundle.graph.terms, between(StepFeature::kPaddedRows, low, high));
    low = high;
  }
  low = 0;
  for (const double high : {.008, .064, .256, .512, 1.024, 2.047, 8.192, 1e6}) {
    const std::string upto = high > 1e3 ? "more" : fmt::format("{:.0f}", high * 1e3);
    add(fmt::format("device, eager, {:.0f} to {} tokens", low * 1e3 + 1, upto), samples.eager_device,
        bundle.eager.terms, between(StepFeature::kTokens, low, high));
    low = high;
  }
}

Status check_recordings(const std::vector<StepRecording>& recordings) {
  for (const StepRecording& r : recordings) {
    if (r.depth == recordings.front().depth) continue;
    return bad_input("--from-steps: {} has scheduling depth {}, {} has {}: fit them apart", r.dir, r.depth,
                     recordings.front().dir, recordings.front().depth);
  }
  return Status::ok();
}

// Times of a step that nobody overlaps: their sum is the time that passes, so the mean counts and stragglers
// belong to it.
void keep_total(const std::vector<StepSample>& samples, StepRegion& region) {
  double measured = 0, modelled = 0;
  for (const StepSample& s : samples) {
    const double model = sum_terms(region.terms, s.features);
    if (!(model > 0)) continue;
    modelled += model;
    measured += std::min(s.ms, 3 * model);
  }
  if (!(modelled > 0)) return;
  for (StepTerm& term : region.terms) term.ms *= measured / modelled;
}

void describe_sources(const std::vector<StepRecording>& recordings, StepBundle& bundle) {
  const StepRecording& first = recordings.front();
  bundle.hardware = first.hardware;
  bundle.engine = first.engine;
  bundle.scheduling_depth = first.depth;
  bundle.capture_sizes = first.graphs.sizes;
  bundle.full_graph_rows = first.graphs.full_rows;
  std::vector<double> fronts;
  for (const StepRecording& r : recordings) {
    bundle.sources.push_back(r.dir);
    if (r.front_ms > 0) fronts.push_back(r.front_ms);
  }
  // All at once shows no delay, but the time that it takes to submit.
  if (!fronts.empty()) bundle.host.front_ms = *std::min_element(fronts.begin(), fronts.end());
}

}  // namespace

Result<StepBundle> fit_step_bundle(const std::vector<StepRecording>& recordings) {
  VLLM_RETURN_IF_ERROR(check_recordings(recordings));
  const bool serial = recordings.front().depth == 1;
  StepBundle bundle = first_guess(recordings);
  StepSamples samples;
  for (int round = 0; round < kRounds; ++round) {
    const bool last = round + 1 == kRounds;
    samples = collect_all_samples(recordings, bundle);
    fit_graph_region(samples, last, bundle);
    fit_eager_region(samples, serial, last, bundle);
    fit_eager_launch(samples, last, bundle.host);
    fit_host(samples, serial, bundle.host);
    if (!serial) fit_eager_head(samples, bundle.host);
    if (serial) break;
  }
  if (serial) {
    bundle.host.eager_streams = false;
    bundle.host.graph_head_ms = bundle.host.eager_head_ms = bundle.host.eager_tail_ms = 0;
    bundle.host.output_ms = 0;
    bundle.host.piecewise_launch_ms = bundle.host.eager_launch_ms;
    fit_graph_region(samples, true, bundle);
    fit_eager_region(samples, true, true, bundle);
    keep_total(samples.graph_device, bundle.graph);
    keep_total(samples.eager_device, bundle.eager);
  }
  if (samples.eager_device.size() < kFewest) {
    return refused(
        "--from-steps: only {} steps without a graph tell what the device takes for them, {} are needed; "
        "record "
        "a longer run",
        samples.eager_device.size(), kFewest);
  }
  if (!recordings.front().graphs.sizes.empty() && samples.graph_device.size() < kFewest) {
    return refused(
        "--from-steps: only {} steps in a graph tell what the device takes for them, {} are needed; record a "
        "longer run",
        samples.graph_device.size(), kFewest);
  }
  if (recordings.front().graphs.sizes.empty()) bundle.graph = StepRegion{};
  describe_sources(recordings, bundle);
  add_residuals(samples, bundle);
  return bundle;
}

std::string step_bundle_text(const StepBundle& bundle) {
  const StepHost& h = bundle.host;
  std::string text = fmt::format(
      "{} on {}, scheduling depth {}\n\nhost, ms\n", bundle.engine.empty() ? "an engine" : bundle.engine,
      bundle.hardware.empty() ? "unknown hardware" : bundle.hardware, bundle.scheduling_depth);
  const auto line = [&text](const std::string& name, const std::string& value) {
    text += fmt::format("  {:<28} {}\n", name, value);
  };
  line("outputs to next plan", fmt::format("{:.3f} + {:.4f} rows", h.gap_ms, h.gap_row_ms));
  if (!bundle.capture_sizes.empty()) {
    line("graph launch", fmt::format("{:.3f} + {:.4f} rows", h.graph_launch_ms, h.graph_launch_row_ms));
    line("piecewise launch", fmt::format("{:.2f}", h.piecewise_launch_ms));
  }
  line("eager launch",
       fmt::format("{:.3f} mean, {:.3f} to {:.3f}, correlation {:.2f} over {:.2f} s", h.eager_launch_ms,
                   h.eager_launch_ms * h.eager_quantiles.front(),
                   h.eager_launch_ms * h.eager_quantiles.back(), h.eager_correlation, h.eager_correlation_s));
  if (h.eager_streams) {
    line("first kernel after planning",
         fmt::format("{:.2f} + {:.4f} rows", h.eager_head_ms, h.eager_head_row_ms));
    line("graph begins before launched", fmt::format("{:.2f}", h.graph_head_ms));
  }
  line("token stamps after outputs", fmt::format("{:.3f} + {:.4f} rows", h.stamp_ms, h.stamp_row_ms));
  line("arrival to earliest plan", fmt::format("{:.2f}", h.front_ms));
  const auto region = [&](const char* name, const StepRegion& r) {
    if (r.terms.empty()) return;
    text += fmt::format(
        "\ndevice, {}, ms (noise {:.1f} %, correlation {:.2f}; fitted up to {:.0f} rows, {:.0f} tokens)\n",
        name, 100 * r.noise, r.noise_correlation, r.largest_rows, 1e3 * r.largest_tokens);
    for (const StepTerm& term : r.terms) {
      const char* unit = term.feature == StepFeature::kPrefillPairs ? " / 10^6"
                         : term.feature == StepFeature::kTokens ||
                                 term.feature == StepFeature::kDecodeContext ||
                                 term.feature == StepFeature::kBusyTokens
                             ? " / 1000"
                             : "";
      const std::string above = term.from > 0 ? fmt::format(" above {:g}", term.from) : "";
      line(fmt::format("{}{}{}", step_feature_name(term.feature), unit, above),
           fmt::format("{:+.5f}", term.ms));
    }
  };
  region("graph", bundle.graph);
  region("eager", bundle.eager);
  text += fmt::format("\nscale without recorder: host {:.3f}, device {:.3f}\n", bundle.host_scale,
                      bundle.device_scale);
  text += fmt::format("\n{:<34} {:>7} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>9} {:>7}\n", "residuals, ms",
                      "n", "mean", "bias", "sd", "P5", "P50", "P95", "held-out", "sd");
  for (const StepResidual& r : bundle.residuals) {
    text +=
        fmt::format("{:<34} {:>7} {:>8.3f} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f} {:>9.3f} {:>7.3f}\n",
                    r.region, r.samples, r.mean_ms, r.bias_ms, r.sd_ms, r.p5_ms, r.p50_ms, r.p95_ms,
                    r.held_out_bias_ms, r.held_out_sd_ms);
  }
  return text;
}

}  // namespace vllm
