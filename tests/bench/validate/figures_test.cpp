#include "bench/validate/figures.h"

#include <cmath>

#include "bench/validate/html_report.h"
#include "bench/validate/markup.h"
#include "bench/validate/support.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Sides {
  std::vector<RealRun> real;
  SimRun sim;
  Comparison comparison;
};

Sides sides(const std::string& title = "t") {
  const testing::ValidateDir dir;
  Sides out;
  out.real.push_back(*read_real_run(dir.run(), ArrivalAnchor::kPickup));
  out.sim = *read_sim_run(dir.csv(), dir.log(), "");
  out.comparison = compare_runs(out.real, out.sim, ArrivalAnchor::kPickup, title);
  return out;
}

TEST(Figures, AxesHaveFewRoundTics) {
  EXPECT_DOUBLE_EQ(axis_step(100), 20);
  EXPECT_DOUBLE_EQ(axis_step(128), 50);
  EXPECT_DOUBLE_EQ(axis_step(7), 2);
  EXPECT_DOUBLE_EQ(axis_step(0), 1);
  EXPECT_DOUBLE_EQ(axis_step(INFINITY), 1);
  EXPECT_DOUBLE_EQ(axis_end(2400), 2500);
  EXPECT_NEAR(axis_end(128), 134.4, 1e-9) << "the next tic is too far up";
  for (double most = 1e-6; most < 1e15; most *= 1.7) EXPECT_LE(most / axis_step(most), 5.001) << most;
}

TEST(Figures, BothSidesAreDrawn) {
  const Sides s = sides();
  const Figure requests = requests_figure(s.comparison, s.real, s.sim);
  ASSERT_EQ(requests.panels.size(), 2u);
  ASSERT_EQ(requests.panels[0].curves.size(), 2u);
  EXPECT_EQ(requests.panels[0].curves[0].name, "vLLM 0.19.0");
  EXPECT_EQ(requests.panels[0].curves[1].kind, CurveKind::kSim);
  EXPECT_EQ(requests.panels[0].curves[1].points[0].x, 1);
  const Figure throughput = throughput_figure(s.comparison, s.real, s.sim);
  EXPECT_EQ(throughput.panels[0].curves[0].points[0].x, 0.5) << "a rate belongs to the middle of its tick";
  const Figure latency = latency_figure(s.comparison);
  ASSERT_EQ(latency.panels.size(), 3u);
  const auto& sim = latency.panels[0].curves[1].points;  // 600 and 1100 ms
  ASSERT_EQ(sim.size(), 3u);
  EXPECT_EQ(sim[0].y, 0);
  EXPECT_EQ(sim[1].x, 600);
  EXPECT_EQ(sim[1].y, 50);
  EXPECT_EQ(sim[2].y, 100);
}

TEST(Figures, GnuplotGetsBlocksThatBreakWhereACurveDoes) {
  Figure figure;
  figure.title = "it's";
  figure.panels.emplace_back();
  figure.panels[0].curves.push_back({"a", CurveKind::kReal, {{0, 1}, {1, NAN}, {2, 3}}});
  const std::string script = figure_gnuplot(figure, "/x/'y'.png");
  EXPECT_THAT(script, HasSubstr("$d0_0 << EOD\n0 1\n\n2 3\nEOD\n"));
  EXPECT_THAT(script, HasSubstr("set output '/x/''y''.png'"));
  EXPECT_THAT(script, HasSubstr("'it''s'"));
}

TEST(Figures, SvgBreaksCurvesAndStaysFinite) {
  Figure figure;
  figure.title = "<t>";
  figure.panels.emplace_back();
  figure.panels[0].x_max = 4;
  figure.panels[0].curves.push_back({"a", CurveKind::kReal, {{0, 1}, {1, NAN}, {2, 1}, {INFINITY, 1}}});
  const std::string svg = figure_svg(figure);
  EXPECT_THAT(svg, HasSubstr("aria-label=\"&lt;t&gt;\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  figure.panels[0].y_max = 1e308;
  figure.panels[0].x_max = 1e-300;
  EXPECT_LT(figure_svg(figure).size(), 20000u) << "tics are counted";
}

TEST(Report, TextIsEscapedAndReplacedWhereItIsNoText) {
  EXPECT_EQ(escaped_markup("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escaped_markup("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(escaped_markup("\xC3(\x01"), "\xEF\xBF\xBD(\xEF\xBF\xBD");
  EXPECT_EQ(escaped_markup("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "a surrogate";
}

TEST(Report, VerdictsComeFirstAndReasonsOfForceAreThere) {
  Sides s = sides("T <i>");
  const std::string page = html_report(s.comparison, s.real, s.sim);
  EXPECT_THAT(page, HasSubstr("<title>T &lt;i&gt;</title>"));
  EXPECT_LT(page.find("statistics are within 5 %"), page.find("<svg"));
  EXPECT_THAT(page, HasSubstr("engine_kwargs.max_num_seqs"));
  s.comparison.refusals.push_back("because");
  EXPECT_THAT(html_report(s.comparison, s.real, s.sim),
              HasSubstr("compared by force (--force)</b><p>because</p>"));
}

}  // namespace
}  // namespace vllm
