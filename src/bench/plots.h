#pragma once

// The figures of a recorded run: throughput, running and waiting requests, and the distributions of the
// latencies.

#include <string>
#include <vector>

#include "base/status.h"
#include "bench/gnuplot.h"
#include "bench/output_dir.h"
#include "formats/recording.h"

namespace vllm {

struct RunFigures {
  std::string title;  // what was run on what
  double tick_s = 1.0;
  std::vector<TimeseriesRow> timeseries;
  std::vector<double> ttft_ms, tpot_ms, e2el_ms;  // in any order
};

std::string throughput_script(const RunFigures& run, FigureFormat format, const std::string& output_path);
std::string requests_script(const RunFigures& run, FigureFormat format, const std::string& output_path);
std::string latency_script(const RunFigures& run, FigureFormat format, const std::string& output_path);

// plots/{throughput,requests,latency}.{png,svg} below the run's folder, each by rename. kRefused when gnuplot
// is not installed.
Status draw_run_figures(const RunFigures& run, const OutputDir& dir);

}  // namespace vllm
