#include "bench/validate/figures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "metrics/latency.h"

namespace vllm {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// More points than pixels only make the file large.
constexpr size_t kMostCdfPoints = 600;
constexpr size_t kMostTicks = 2000;
constexpr size_t kMostPairs = 4000;
constexpr double kSecondsFrom_ms = 10'000;

std::string side_name(const std::vector<RealRun>& real, size_t k) {
  if (k > 0) return {};
  const std::string name = real[0].engine.empty() ? "vLLM" : real[0].engine;
  return real.size() == 1 ? name : fmt::format("{}, {} recordings", name, real.size());
}

CurveKind real_kind(size_t k) { return k == 0 ? CurveKind::kReal : CurveKind::kOtherReal; }

// The values of a recording's ticks. The curve is broken where the engine was idle; a tick without a row in
// which requests ran belongs to one long step and is drawn through.
std::vector<CurvePoint> tick_points(const RealRun& run, double shift_s,
                                    const std::function<double(const TimeseriesRow&)>& value) {
  std::vector<CurvePoint> out;
  const TimeseriesRow* previous = nullptr;
  for (const TimeseriesRow& row : run.timeseries) {
    const bool gap = previous != nullptr && row.t_s - previous->t_s > 1.5 * run.tick_s;
    if (gap && previous->running == 0 && previous->waiting == 0) out.push_back({previous->t_s, kNan});
    out.push_back({std::max(row.t_s + shift_s * run.tick_s, 0.0), value(row)});
    previous = &row;
  }
  return out;
}

std::vector<CurvePoint> tick_points(const SimLog& log, double shift_s,
                                    const std::function<double(const SimLogTick&)>& value) {
  std::vector<CurvePoint> out;
  double previous = 0;
  for (const SimLogTick& tick : log.ticks) {
    const double width = tick.t_s - previous;
    out.push_back({std::max(tick.t_s + shift_s * width, 0.0), value(tick)});
    previous = tick.t_s;
  }
  return out;
}

// Neighbours are averaged where there are more points than can be seen.
std::vector<CurvePoint> thinned(std::vector<CurvePoint> points) {
  if (points.size() <= kMostTicks) return points;
  const size_t group = (points.size() + kMostTicks - 1) / kMostTicks;
  std::vector<CurvePoint> out;
  for (size_t begin = 0; begin < points.size(); begin += group) {
    const size_t end = std::min(begin + group, points.size());
    CurvePoint mean;
    for (size_t i = begin; i < end; ++i) {
      mean.x += points[i].x / static_cast<double>(end - begin);
      mean.y += points[i].y / static_cast<double>(end - begin);
    }
    out.push_back(mean);
  }
  return out;
}

void set_ends(Panel& panel) {
  double x = 0, y = 0;
  for (const Curve& curve : panel.curves) {
    for (const CurvePoint& p : curve.points) {
      if (std::isfinite(p.x)) x = std::max(x, p.x);
      if (std::isfinite(p.y)) y = std::max(y, p.y);
    }
  }
  panel.x_max = x > 0 ? x : 1;
  panel.y_max = axis_end(y > 0 ? y : 1);
}

Panel tick_panel(const std::string& y_label, const std::vector<RealRun>& real, const SimRun& sim,
                 double shift, const std::function<double(const TimeseriesRow&)>& real_value,
                 const std::function<double(const SimLogTick&)>& sim_value) {
  Panel panel;
  panel.x_label = "Time (s)";
  panel.y_label = y_label;
  // The first recording is drawn above the further ones, the simulator above all.
  for (size_t k = real.size(); k-- > 0;) {
    panel.curves.push_back(
        {side_name(real, k), real_kind(k), thinned(tick_points(real[k], shift, real_value))});
  }
  panel.curves.push_back({"Sim", CurveKind::kSim, thinned(tick_points(sim.log, shift, sim_value))});
  set_ends(panel);
  return panel;
}

std::vector<CurvePoint> cdf_points(std::vector<double> values, double scale) {
  std::vector<CurvePoint> out;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  if (n == 0) return out;
  out.push_back({values[0] * scale, 0});
  const size_t stride = n > kMostCdfPoints ? n / kMostCdfPoints : 1;
  for (size_t i = 0; i < n; i += stride) {
    out.push_back({values[i] * scale, 100 * static_cast<double>(i + 1) / static_cast<double>(n)});
  }
  if ((n - 1) % stride != 0) out.push_back({values[n - 1] * scale, 100});
  return out;
}

// "447.9", "4163": at least three digits that count, never an exponent.
std::string figure_text(double value) {
  if (!(std::abs(value) < 1e15)) return "-";
  if (std::abs(value) >= 1000) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, std::abs(value) >= 100 ? 1 : std::abs(value) >= 10 ? 2 : 3);
}

double largest(const MetricComparison& m) {
  double out = 0;
  for (const auto& values : m.real_values) {
    for (const double v : values) out = std::max(out, v);
  }
  for (const double v : m.sim_values) out = std::max(out, v);
  return out;
}

Panel cdf_panel(const Comparison& c, size_t metric, const char* title) {
  const MetricComparison& m = c.metrics[metric];
  const bool in_seconds = largest(m) >= kSecondsFrom_ms;
  const double scale = in_seconds ? 1e-3 : 1;
  const char* unit = in_seconds ? "s" : "ms";
  Panel panel;
  panel.title = title;
  const StatisticComparison& median = m.statistics[1];
  panel.subtitle = fmt::format("median {} / {} {}, KS {:.3f}", figure_text(median.real * scale),
                               figure_text(median.sim * scale), unit, m.ks);
  panel.x_label = fmt::format("{} ({})", metric_name(metric), unit);
  panel.y_label = "Requests (%)";
  for (size_t k = m.real_values.size(); k-- > 0;) {
    const std::string name = k > 0 ? ""
                             : m.real_values.size() == 1
                                 ? "vLLM"
                                 : fmt::format("vLLM, {} recordings", m.real_values.size());
    panel.curves.push_back({name, real_kind(k), cdf_points(m.real_values[k], scale)});
  }
  panel.curves.push_back({"Sim", CurveKind::kSim, cdf_points(m.sim_values, scale)});
  set_ends(panel);
  panel.y_max = 100;
  return panel;
}

}  // namespace

double axis_step(double maximum) {
  if (!(maximum > 0) || !std::isfinite(maximum)) return 1;
  const double unit = std::pow(10.0, std::floor(std::log10(maximum / 4)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    if (maximum / (unit * factor) <= 5) return unit * factor;
  }
  return unit * 10;
}

double axis_end(double maximum) {
  const double step = axis_step(maximum);
  const double next = std::ceil(maximum / step - 1e-9) * step;
  // A tic that is not far above the highest point gives the axis a labelled end.
  return next - maximum <= 0.4 * step ? next : maximum * 1.05;
}

Figure throughput_figure(const Comparison& c, const std::vector<RealRun>& real, const SimRun& sim) {
  Figure figure;
  figure.name = "throughput";
  figure.title = "Throughput \u2014 " + c.title;
  // A rate belongs to the middle of its tick.
  figure.panels.push_back(tick_panel(
      "Prompt tokens/s", real, sim, -0.5, [](const TimeseriesRow& r) { return r.prompt_throughput; },
      [](const SimLogTick& t) { return t.prompt_throughput; }));
  figure.panels.push_back(tick_panel(
      "Generation tokens/s", real, sim, -0.5, [](const TimeseriesRow& r) { return r.gen_throughput; },
      [](const SimLogTick& t) { return t.gen_throughput; }));
  return figure;
}

Figure requests_figure(const Comparison& c, const std::vector<RealRun>& real, const SimRun& sim) {
  Figure figure;
  figure.name = "requests";
  figure.title = "Running / Waiting \u2014 " + c.title;
  figure.panels.push_back(tick_panel(
      "Running", real, sim, 0, [](const TimeseriesRow& r) { return static_cast<double>(r.running); },
      [](const SimLogTick& t) { return static_cast<double>(t.running); }));
  figure.panels.push_back(tick_panel(
      "Waiting", real, sim, 0, [](const TimeseriesRow& r) { return static_cast<double>(r.waiting); },
      [](const SimLogTick& t) { return static_cast<double>(t.waiting); }));
  return figure;
}

Figure latency_figure(const Comparison& c) {
  Figure figure;
  figure.name = "latency";
  figure.title = "Latency CDFs \u2014 " + c.title;
  figure.width_px = 1800;
  figure.height_px = 600;
  figure.side_by_side = true;
  figure.panels.push_back(cdf_panel(c, 0, "Time to first token"));
  figure.panels.push_back(cdf_panel(c, 1, "Time per output token"));
  figure.panels.push_back(cdf_panel(c, 2, "Latency"));
  return figure;
}

Figure pairs_figure(const Comparison& c, const RealRun& real, const SimRun& sim) {
  Figure figure;
  figure.name = "pairs";
  figure.title = "Request by request \u2014 " + c.title;
  figure.width_px = 1800;
  figure.height_px = 640;
  figure.side_by_side = true;
  for (size_t m = 0; m < kNumMetrics; ++m) {
    const bool in_seconds = largest(c.metrics[m]) >= kSecondsFrom_ms;
    const double scale = in_seconds ? 1e-3 : 1;
    Curve pairs{"", CurveKind::kPairs, {}};
    double most = 0;
    const size_t stride = real.requests.size() / kMostPairs + 1;
    for (size_t i = 0; i < real.requests.size(); i += stride) {
      const RealRequest& r = real.requests[i];
      const auto it = std::lower_bound(sim.requests.begin(), sim.requests.end(), r.row,
                                       [](const SimRequest& s, int64_t id) { return s.id < id; });
      if (!r.arrival_s || it == sim.requests.end() || it->id != r.row || r.output_toks != it->output_toks)
        continue;
      if (m == 1 && !r.latency.tpot_ms) continue;
      const double x = m == 0 ? r.latency.ttft_ms : m == 1 ? *r.latency.tpot_ms : r.latency.latency_ms;
      const double y = m == 0 ? it->ttft_ms : m == 1 ? it->tpot_ms : it->latency_ms;
      pairs.points.push_back({x * scale, y * scale});
      most = std::max({most, x * scale, y * scale});
    }
    Panel panel;
    panel.title = metric_name(m);
    panel.subtitle = fmt::format("mean |error| {:.2f} %", c.metrics[m].matched.mean_abs_pct);
    panel.x_label = fmt::format("vLLM ({})", in_seconds ? "s" : "ms");
    panel.y_label = fmt::format("Sim ({})", in_seconds ? "s" : "ms");
    panel.curves.push_back({"", CurveKind::kDiagonal, {{0, 0}, {most, most}}});
    panel.curves.push_back(std::move(pairs));
    set_ends(panel);
    panel.x_max = panel.y_max;
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

}  // namespace vllm
