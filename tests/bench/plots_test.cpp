#include "bench/plots.h"

#include "base/file.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunFigures figures() {
  RunFigures run;
  run.title = "model's, 3 requests";
  for (const double t : {1.0, 2.0, 5.0}) {
    TimeseriesRow row;
    row.t_s = t;
    row.gen_throughput = 10 * t;
    row.running = static_cast<int64_t>(t);
    run.timeseries.push_back(row);
  }
  run.ttft_ms = {300, 100, 200};
  run.tpot_ms = {5, 6};
  run.e2el_ms = {1000, 2000, 3000};
  return run;
}

TEST(PlotsTest, ValuesStandInTheMiddleOfTheirTickAndIdlenessBreaksTheCurve) {
  RunFigures run = figures();
  EXPECT_THAT(throughput_script(run, FigureFormat::kPng, "t.png"),
              HasSubstr("0.5 0 0 10\n1.5 0 0 20\n4.5 0 0 50\n"));
  run.timeseries[1].running = 0;
  const std::string script = throughput_script(run, FigureFormat::kPng, "/x/t.png");
  EXPECT_THAT(script, HasSubstr("0.5 0 0 10\n1.5 0 0 20\n\n4.5 0 0 50\n"));
  EXPECT_THAT(script, HasSubstr("set output '/x/t.png'"));
  EXPECT_THAT(script, HasSubstr("'Throughput: model''s, 3 requests'"));
}

TEST(PlotsTest, DistributionsAreSortedAndReachAHundredPercent) {
  const std::string script = latency_script(figures(), FigureFormat::kSvg, "l.svg");
  EXPECT_THAT(script, HasSubstr("$ttft << EOD\n100 0\n200 50\n300 100\nEOD\n"));
  EXPECT_THAT(script, HasSubstr("median 200.0 ms, P99 298.0 ms"));
  EXPECT_THAT(script, HasSubstr("$ttft_marks << EOD\n200 50\n298 99\nEOD\n"));
  EXPECT_THAT(script, HasSubstr("set xtics 100\n"));
}

TEST(PlotsTest, ALargeRunIsThinnedOut) {
  RunFigures run = figures();
  run.ttft_ms.clear();
  for (int i = 0; i < 100000; ++i) run.ttft_ms.push_back(i);
  const std::string script = latency_script(run, FigureFormat::kPng, "l.png");
  EXPECT_LT(script.size(), 40000u);
  EXPECT_THAT(script, HasSubstr("\n99.999 100\n"));
}

TEST(PlotsTest, LongTimesAreInSecondsAndNeverInExponents) {
  RunFigures run = figures();
  run.e2el_ms = {4000, 16050};
  const std::string script = latency_script(run, FigureFormat::kPng, "l.png");
  EXPECT_THAT(script, HasSubstr("End-to-end latency\\nmedian 10.03 s, P99 15.93 s"));
  EXPECT_THAT(script, HasSubstr("set xlabel 'seconds'"));
  run.e2el_ms = {4000, 9000};
  EXPECT_THAT(latency_script(run, FigureFormat::kPng, "l.png"), HasSubstr("median 6500 ms, P99 8950 ms"));
}

TEST(PlotsTest, BothFormatsShareOneStyle) {
  const std::string png = requests_script(figures(), FigureFormat::kPng, "a");
  const std::string svg = requests_script(figures(), FigureFormat::kSvg, "a");
  EXPECT_THAT(png, HasSubstr("pngcairo"));
  EXPECT_THAT(svg, HasSubstr("terminal svg"));
  for (const std::string& script : {png, svg}) {
    EXPECT_THAT(script, HasSubstr("Inter"));
    EXPECT_THAT(script, HasSubstr("set linetype 1 linecolor"));
  }
}

TEST(GnuplotTest, QuotesAsGnuplotReads) { EXPECT_EQ(gnuplot_quoted("it's\na 'b'"), "'it''s a ''b'''"); }

class DrawTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run_gnuplot("exit\n").code() == StatusCode::kRefused) GTEST_SKIP() << "gnuplot is not installed";
  }
};

TEST_F(DrawTest, DrawsEveryFigureOfARun) {
  testing::TempDir dir;
  const auto out = OutputDir::open(dir.path());
  const Status status = draw_run_figures(figures(), *out);
  ASSERT_TRUE(status.is_ok()) << status.message();
  for (const char* name : {"throughput", "requests", "latency"}) {
    const auto png = read_file(dir / fmt::format("plots/{}.png", name));
    ASSERT_TRUE(png.is_ok());
    EXPECT_EQ(png->substr(1, 3), "PNG");
    const auto svg = read_file(dir / fmt::format("plots/{}.svg", name));
    ASSERT_TRUE(svg.is_ok());
    EXPECT_THAT(*svg, HasSubstr("</svg>"));
    EXPECT_FALSE(file_exists(dir / fmt::format("plots/{}.png.partial", name)));
  }
}

TEST_F(DrawTest, AnEmptyRunIsNoError) {
  testing::TempDir dir;
  const auto out = OutputDir::open(dir.path());
  const Status status = draw_run_figures({}, *out);
  EXPECT_TRUE(status.is_ok()) << status.message();
}

TEST_F(DrawTest, WhatGnuplotComplainsAboutIsTold) {
  const Status status = run_gnuplot("plot nonsense(\n");
  EXPECT_EQ(status.code(), StatusCode::kFailed);
  EXPECT_THAT(status.message(), HasSubstr("gnuplot failed: "));
}

// A program that ends before it has read everything must not end us by a signal.
TEST_F(DrawTest, AnEarlyEndIsAnErrorNotASignal) {
  const Status status = run_gnuplot("exit\n" + std::string(1 << 22, '#'));
  EXPECT_THAT(status.message(), Not(HasSubstr("cannot be started")));
}

}  // namespace
}  // namespace vllm
