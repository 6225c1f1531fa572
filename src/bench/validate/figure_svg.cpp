// Figures as SVG, for the report. Colours come from the classes of the page (html_report.cpp), so that they
// follow its light and dark style.

#include <cmath>

#include "bench/validate/figures.h"
#include "bench/validate/markup.h"

namespace vllm {
namespace {

constexpr int kMostTics = 12;

struct Frame {
  double left = 0, top = 0, width = 0, height = 0;  // of the axes
};

const char* curve_class(CurveKind kind) {
  switch (kind) {
    case CurveKind::kReal:
      return "real";
    case CurveKind::kOtherReal:
      return "other";
    case CurveKind::kSim:
      return "sim";
    case CurveKind::kPairs:
      return "pairs";
    case CurveKind::kDiagonal:
      break;
  }
  return "diagonal";
}

// Whole numbers in groups of three, fractions as short as the distance of the tics allows.
std::string tic_text(double value, double step) {
  if (step >= 1 && std::abs(value) < 1e15) {
    std::string digits = fmt::format("{:.0f}", value);
    for (size_t at = digits.size(); digits.size() > 4 && at > 3;) digits.insert(at -= 3, "\u2009");
    if (step == std::floor(step)) return digits;
  }
  return fmt::format("{:.4g}", value);
}

std::string text_at(double x, double y, const char* css_class, const std::string& anchor,
                    const std::string& text, const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     css_class, anchor, more, escaped_markup(text));
}

std::string axes(const Panel& panel, const Frame& f, bool with_x_label, bool with_y_label) {
  std::string out;
  const double x_step = axis_step(panel.x_max);
  const double y_step = panel.y_max == 100 ? 25 : axis_step(panel.y_max);
  // Counted, so that no number out of a file makes it run on.
  for (int i = 0; i <= kMostTics && i * y_step <= panel.y_max * (1 + 1e-9); ++i) {
    const double v = i * y_step;
    const double y = f.top + f.height * (1 - v / panel.y_max);
    out += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                       f.left, f.left + f.width, y, y);
    out += text_at(f.left - 8, y + 4, "tic", "end", tic_text(v, y_step));
  }
  for (int i = 0; i <= kMostTics && i * x_step <= panel.x_max * (1 + 1e-9); ++i) {
    const double v = i * x_step;
    const double x = f.left + f.width * v / panel.x_max;
    out += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x,
                       x, f.top, f.top + f.height);
    out += text_at(x, f.top + f.height + 18, "tic", "middle", tic_text(v, x_step));
  }
  if (with_x_label)
    out += text_at(f.left + f.width / 2, f.top + f.height + 38, "label", "middle", panel.x_label);
  if (with_y_label) {
    const double x = f.left - 58, y = f.top + f.height / 2;
    out += text_at(x, y, "label", "middle", panel.y_label,
                   fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y));
  }
  return out;
}

std::string curve_path(const Panel& panel, const Curve& curve, const Frame& f) {
  std::string out;
  const auto place = [&](const CurvePoint& p) {
    return std::pair{f.left + f.width * p.x / panel.x_max, f.top + f.height * (1 - p.y / panel.y_max)};
  };
  if (curve.kind == CurveKind::kPairs) {
    for (const CurvePoint& p : curve.points) {
      const auto [x, y] = place(p);
      if (std::isfinite(x) && std::isfinite(y)) {
        out += fmt::format("<circle class=\"pairs\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"/>", x, y);
      }
    }
    return out + "\n";
  }
  bool broken = true;
  for (const CurvePoint& p : curve.points) {
    const auto [x, y] = place(p);
    if (!std::isfinite(x) || !std::isfinite(y)) {
      broken = true;
      continue;
    }
    out += fmt::format("{}{:.1f} {:.1f}", broken ? "M" : "L", x, y);
    broken = false;
  }
  if (out.empty()) return out;
  const std::string name = curve.name.empty() ? "" : "<title>" + escaped_markup(curve.name) + "</title>";
  return fmt::format("<path class=\"{}\" d=\"{}\">{}</path>\n", curve_class(curve.kind), out, name);
}

std::string key(const Panel& panel, double right, double y) {
  std::string out;
  double x = right;
  for (size_t k = panel.curves.size(); k-- > 0;) {
    const Curve& curve = panel.curves[k];
    if (curve.name.empty()) continue;
    out += text_at(x, y, "label", "end", curve.name);
    x -= 7.3 * static_cast<double>(curve.name.size()) + 8;
    out += fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", curve_class(curve.kind),
                       x - 30, y - 5, x, y - 5);
    x -= 52;
  }
  return out;
}

}  // namespace

std::string figure_svg(const Figure& figure) {
  // Half of the paper's size, which is what fits a page.
  const double width = figure.side_by_side ? 1200 : 1000;
  const double panel_height = figure.side_by_side ? 250 : 190;
  const auto count = static_cast<double>(figure.panels.size());
  const double top = figure.side_by_side ? 84 : 44;
  const double height =
      figure.side_by_side ? top + panel_height + 50 : top + count * (panel_height + 34) + 24;
  std::string out = fmt::format(
      "<svg class=\"figure\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\" "
      "xmlns=\"http://www.w3.org/2000/svg\">\n",
      width, height, escaped_markup(figure.title));
  out += text_at(12, 24, "title", "start", figure.title);
  if (!figure.panels.empty()) out += key(figure.panels[0], width - 16, 24);
  for (size_t k = 0; k < figure.panels.size(); ++k) {
    const Panel& panel = figure.panels[k];
    const auto place = static_cast<double>(k);
    Frame f;
    f.height = panel_height;
    if (figure.side_by_side) {
      f.width = (width - 24) / count - 86;
      f.left = 76 + place * (width - 24) / count;
      f.top = top;
    } else {
      f.width = width - 100;
      f.left = 84;
      f.top = top + place * (panel_height + 34);
    }
    const bool last = figure.side_by_side || k + 1 == figure.panels.size();
    out += axes(panel, f, last, !figure.side_by_side || k == 0 || figure.panels[0].y_label != panel.y_label);
    if (!panel.title.empty()) {
      out += text_at(f.left, f.top - 24, "panel", "start", panel.title);
      out += text_at(f.left, f.top - 8, "tic", "start", panel.subtitle);
    }
    for (const Curve& curve : panel.curves) out += curve_path(panel, curve, f);
  }
  return out + "</svg>\n";
}

}  // namespace vllm
