// Figures through gnuplot.

#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <system_error>

#include "base/file.h"
#include "bench/gnuplot.h"
#include "bench/validate/figures.h"

namespace vllm {
namespace {

const char* curve_style(CurveKind kind) {
  switch (kind) {
    case CurveKind::kReal:
      return "with lines linecolor '#1f6feb' linewidth 2";
    case CurveKind::kOtherReal:
      return "with lines linecolor '#a9c8f7' linewidth 1.4";
    case CurveKind::kSim:
      return "with lines linecolor '#d9480f' linewidth 2 dashtype (10,6)";
    case CurveKind::kPairs:
      return "with points linecolor '#1f6feb' pointtype 7 pointsize 0.5";
    case CurveKind::kDiagonal:
      break;
  }
  return "with lines linecolor '#8a8f98' linewidth 1";
}

std::string data_block(const std::string& name, const Curve& curve) {
  std::string out = name + " << EOD\n";
  for (const CurvePoint& p : curve.points) {
    // An empty line breaks the curve.
    out += std::isfinite(p.x) && std::isfinite(p.y) ? fmt::format("{:.9g} {:.9g}\n", p.x, p.y) : "\n";
  }
  if (curve.points.empty()) out += "0 NaN\n";
  return out + "EOD\n";
}

std::string panel_script(const Panel& panel, size_t number, bool with_key) {
  std::string out, plot;
  for (size_t k = 0; k < panel.curves.size(); ++k) {
    const Curve& curve = panel.curves[k];
    const std::string name = fmt::format("$d{}_{}", number, k);
    out += data_block(name, curve);
    plot += fmt::format("{}{} using 1:2 {} {}", k == 0 ? "plot " : ", ", name, curve_style(curve.kind),
                        curve.name.empty() ? "notitle" : "title " + gnuplot_quoted(curve.name));
  }
  if (panel.title.empty()) {
    out += "unset title\n";
  } else {
    // A line break needs gnuplot's double quotes; these titles are ours and hold nothing to escape.
    out += fmt::format("set title \"{}\\n{}\"\n", panel.title, panel.subtitle);
  }
  out += with_key ? "set key\n" : "unset key\n";
  out += fmt::format("set xlabel {}\nset ylabel {}\n", gnuplot_quoted(panel.x_label),
                     gnuplot_quoted(panel.y_label));
  out += fmt::format("set xrange [0:{:.9g}]\nset yrange [0:{:.9g}]\n", panel.x_max, panel.y_max);
  out += fmt::format("set xtics {:.9g}\nset ytics {:.9g}\n", axis_step(panel.x_max),
                     panel.y_max == 100 ? 25 : axis_step(panel.y_max));
  return out + plot + "\n";
}

}  // namespace

std::string figure_gnuplot(const Figure& figure, const std::string& output_path) {
  std::string out = figure_style(FigureFormat::kPng, {figure.width_px, figure.height_px}, output_path);
  // The same picture at half the size of its paper: letters and lines keep their share of it.
  out += fmt::format(
      "set terminal pngcairo noenhanced size {},{} font 'Inter,{}' linewidth 1.6 background '#ffffff'\n",
      figure.width_px, figure.height_px, 17);
  out += fmt::format("set output {}\nset key Left reverse samplen 2.4\n", gnuplot_quoted(output_path));
  const int count = static_cast<int>(figure.panels.size());
  out += fmt::format("set multiplot layout {},{} title {} font 'Inter,20' textcolor '#23272e'\n",
                     figure.side_by_side ? 1 : count, figure.side_by_side ? count : 1,
                     gnuplot_quoted(figure.title));
  for (size_t k = 0; k < figure.panels.size(); ++k) {
    // Panels that lie below each other share the axis of time, and all of them the key.
    Panel panel = figure.panels[k];
    if (!figure.side_by_side && k + 1 < figure.panels.size()) panel.x_label.clear();
    if (figure.side_by_side && k > 0) panel.y_label.clear();
    if (figure.side_by_side) out += "set key bottom right inside vertical\n";
    out += panel_script(panel, k, k == 0);
  }
  return out + "unset multiplot\nunset output\n";
}

Status draw_png(const Figure& figure, const std::string& path) {
  const std::string draft = path + ".partial";
  Status status = run_gnuplot(figure_gnuplot(figure, draft));
  if (status.is_ok() && rename(draft.c_str(), path.c_str()) != 0) {
    status = io_error("{}: cannot be written ({})", path, std::generic_category().message(errno));
  }
  if (!status.is_ok()) unlink(draft.c_str());
  return status;
}

}  // namespace vllm
