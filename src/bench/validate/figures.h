#pragma once

// The figures of a comparison, described once and drawn twice: by gnuplot as PNG, and by ourselves as SVG for
// the report, which needs no other program.

#include <string>
#include <vector>

#include "base/status.h"
#include "bench/validate/comparison.h"

namespace vllm {

struct CurvePoint {
  double x = 0, y = 0;  // a NaN y breaks the curve
};

enum class CurveKind {
  kReal,       // solid
  kOtherReal,  // a further recording: solid and pale
  kSim,        // dashed
  kPairs,      // points
  kDiagonal,   // thin and grey
};

struct Curve {
  std::string name;  // empty: not in the key
  CurveKind kind = CurveKind::kReal;
  std::vector<CurvePoint> points;
};

struct Panel {
  std::string title;     // may be empty
  std::string subtitle;  // figures below the title; may be empty
  std::string x_label, y_label;
  double x_max = 1, y_max = 1;  // axes begin at 0
  std::vector<Curve> curves;
};

struct Figure {
  std::string name;  // "throughput": of the file
  std::string title;
  int width_px = 1200, height_px = 750;
  bool side_by_side = false;  // panels in a row, in place of one below the other
  std::vector<Panel> panels;
};

Figure throughput_figure(const Comparison& comparison, const std::vector<RealRun>& real, const SimRun& sim);
Figure requests_figure(const Comparison& comparison, const std::vector<RealRun>& real, const SimRun& sim);
Figure latency_figure(const Comparison& comparison);
// Each request of the first recording against its simulated twin; only in the report.
Figure pairs_figure(const Comparison& comparison, const RealRun& real, const SimRun& sim);

// Distance between tics such that at most about five stand on an axis from 0 to `maximum`.
double axis_step(double maximum);
// The maximum, or the next tic if the curves end just below it.
double axis_end(double maximum);

std::string figure_gnuplot(const Figure& figure, const std::string& output_path);
std::string figure_svg(const Figure& figure);

// <folder>/<prefix><name>.png, by rename. kRefused when gnuplot is not installed.
Status draw_png(const Figure& figure, const std::string& path);

}  // namespace vllm
