#include "bench/plots.h"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <system_error>

#include "base/file.h"
#include "metrics/latency.h"

namespace vllm {
namespace {

// More points than pixels only make the file large.
constexpr size_t kMostCdfPoints = 1000;

constexpr FigureSize kWide{1200, 480};

// Rows of "t values..." at the middle of each tick. The curve is broken by a blank line where the engine was
// idle; a tick without a row in which requests ran belongs to one long step and is drawn through.
std::string tick_block(const RunFigures& run,
                       const std::function<std::string(const TimeseriesRow&)>& values) {
  std::string out;
  const TimeseriesRow* previous = nullptr;
  for (const TimeseriesRow& row : run.timeseries) {
    const bool gap = previous != nullptr && row.t_s - previous->t_s > 1.5 * run.tick_s;
    if (gap && previous->running == 0 && previous->waiting == 0) out += "\n";
    out += fmt::format("{:.6g} {}\n", row.t_s - run.tick_s / 2, values(row));
    previous = &row;
  }
  if (out.empty()) out = "0 0 0 0\n";
  return out;
}

// The share of values that are at most x, with the ranks of the percentiles, so that these lie on the curve.
std::string cdf_block(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  if (values.empty()) return "0 0\n";
  if (values.size() == 1) return fmt::format("{0:.6g} 0\n{0:.6g} 100\n", values[0]);
  std::string out;
  const size_t points = std::min(values.size(), kMostCdfPoints);
  for (size_t i = 0; i < points; ++i) {
    const double q = 100.0 * static_cast<double>(i) / static_cast<double>(points - 1);
    out += fmt::format("{:.6g} {:.6g}\n", percentile(values, q), q);
  }
  return out;
}

// A round distance between tics such that at most five stand on an axis from 0 to `maximum`.
double tic_distance(double maximum) {
  if (!(maximum > 0)) return 1;
  const double unit = std::pow(10.0, std::floor(std::log10(maximum / 4)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    if (maximum / (unit * factor) <= 4) return unit * factor;
  }
  return unit * 10;
}

std::string time_axis() {
  return "set xlabel 'time since the start of the replay (s)'\nset xrange [0:*]\nset yrange [0:*]\n";
}

// "447.9", "4163": at least three digits that count, never an exponent.
std::string figure_text(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, value >= 100 ? 1 : value >= 10 ? 2 : 3);
}

// One distribution, in seconds where milliseconds would need too many digits.
std::string cdf_panel(const char* name, const char* block, std::vector<double> values_ms) {
  const bool in_seconds = summarise(values_ms).max >= 10'000;
  for (double& value : values_ms) value /= in_seconds ? 1000 : 1;
  const Summary s = summarise(values_ms);
  const char* unit = in_seconds ? "s" : "ms";
  const std::string figures = s.count == 0 ? "no request has one"
                                           : fmt::format("median {} {}, P99 {} {}", figure_text(s.median),
                                                         unit, figure_text(s.p99), unit);
  std::string out = fmt::format("{} << EOD\n{}EOD\n", block, cdf_block(values_ms));
  // A line break in a title needs gnuplot's double quotes; the text is ours and holds nothing to escape.
  out += fmt::format("set title \"{}\\n{}\"\nset xtics {:.6g}\n", name, figures, tic_distance(s.max));
  out += fmt::format("set xlabel '{}'\n", in_seconds ? "seconds" : "milliseconds");
  if (s.count == 0) return out + fmt::format("plot {} using 1:2 with lines linetype 1 notitle\n", block);
  out = fmt::format("{}_marks << EOD\n{:.9g} 50\n{:.9g} 99\nEOD\n", block, s.median, s.p99) + out;
  out += fmt::format(
      "plot {0} using 1:2 with lines linetype 1 notitle, {0}_marks using 1:2 with points pointtype 7 "
      "pointsize 0.7 linetype 2 notitle\n",
      block);
  return out;
}

}  // namespace

std::string throughput_script(const RunFigures& run, FigureFormat format, const std::string& output_path) {
  std::string out = figure_style(format, kWide, output_path);
  out += "$ticks << EOD\n" +
         tick_block(run,
                    [](const TimeseriesRow& r) {
                      return fmt::format("{:.6g} {:.6g} {:.6g}", r.prompt_compute_throughput,
                                         r.prompt_cached_throughput, r.gen_throughput);
                    }) +
         "EOD\n";
  out += "set title " + gnuplot_quoted("Throughput: " + run.title) + "\n" + time_axis();
  out += "set ylabel 'tokens per second'\n";
  out +=
      "plot $ticks using 1:2 with lines linetype 1 title 'prompt, computed', "
      "$ticks using 1:3 with lines linetype 3 title 'prompt, from the prefix cache', "
      "$ticks using 1:4 with lines linetype 2 title 'generated'\n";
  return out;
}

std::string requests_script(const RunFigures& run, FigureFormat format, const std::string& output_path) {
  std::string out = figure_style(format, kWide, output_path);
  out += "$ticks << EOD\n" +
         tick_block(run,
                    [](const TimeseriesRow& r) {
                      return fmt::format("{} {} {:.6g}", r.running, r.waiting, r.kv_cache_pct);
                    }) +
         "EOD\n";
  out += "set title " + gnuplot_quoted("Requests: " + run.title) + "\n" + time_axis();
  out += "set ylabel 'requests'\nset y2label 'KV blocks in use (%)' textcolor '#8a8f98'\n";
  out += "set y2range [0:100]\nset y2tics 25 nomirror textcolor '#8a8f98'\nset border 11\n";
  out +=
      "plot $ticks using 1:4 axes x1y2 with lines linecolor '#b8bdc5' linewidth 1.5 title 'KV blocks in "
      "use', "
      "$ticks using 1:2 with lines linetype 1 title 'running', "
      "$ticks using 1:3 with lines linetype 2 title 'waiting'\n";
  return out;
}

std::string latency_script(const RunFigures& run, FigureFormat format, const std::string& output_path) {
  std::string out = figure_style(format, {1200, 440}, output_path);
  out +=
      "set multiplot layout 1,3 title " + gnuplot_quoted("Latency: " + run.title) + " textcolor '#23272e'\n";
  out += "set xrange [0:*]\nset yrange [0:100]\nset ytics 25\n";
  out += "set ylabel 'requests (%)'\n";
  out += cdf_panel("Time to first token", "$ttft", run.ttft_ms);
  out += "unset ylabel\n";
  out += cdf_panel("Time per output token", "$tpot", run.tpot_ms);
  out += cdf_panel("End-to-end latency", "$e2el", run.e2el_ms);
  out += "unset multiplot\n";
  return out;
}

Status draw_run_figures(const RunFigures& run, const OutputDir& dir) {
  struct Figure {
    const char* name;
    std::string (*script)(const RunFigures&, FigureFormat, const std::string&);
  };
  constexpr Figure kFigures[] = {
      {"throughput", throughput_script}, {"requests", requests_script}, {"latency", latency_script}};
  const std::string folder = dir.file("plots");
  VLLM_RETURN_IF_ERROR(make_directories(folder));
  for (const Figure& figure : kFigures) {
    for (const FigureFormat format : {FigureFormat::kPng, FigureFormat::kSvg}) {
      const std::string path =
          join_path(folder, std::string(figure.name) + (format == FigureFormat::kPng ? ".png" : ".svg"));
      const std::string draft = path + ".partial";
      // "unset output" makes gnuplot finish the file before it ends.
      Status status = run_gnuplot(figure.script(run, format, draft) + "unset output\n");
      if (status.is_ok() && rename(draft.c_str(), path.c_str()) != 0) {
        status = io_error("{}: cannot be written ({})", path, std::generic_category().message(errno));
      }
      if (!status.is_ok()) {
        unlink(draft.c_str());
        return status;
      }
    }
  }
  return Status::ok();
}

}  // namespace vllm
