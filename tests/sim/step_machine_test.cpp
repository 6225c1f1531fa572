#include "sim/step_machine.h"

#include <cmath>

namespace vllm {
namespace {

StepBundle bundle_with_graphs() {
  StepBundle b;
  b.scheduling_depth = 2;
  b.capture_sizes = {1, 2, 4, 8, 16};
  b.full_graph_rows = 8;
  b.host.gap_ms = 0.5;
  b.host.gap_row_ms = 0.01;
  b.host.empty_ms = 0.3;
  b.host.graph_launch_ms = 2;
  b.host.graph_launch_row_ms = 0.1;
  b.host.piecewise_launch_ms = 10;
  b.host.eager_launch_ms = 20;
  b.host.eager_quantiles = {1, 1};
  b.host.eager_streams = true;
  b.host.eager_head_ms = 3;
  b.host.eager_tail_ms = 1;
  b.host.graph_head_ms = 1;
  b.host.output_ms = 0.05;
  b.graph.terms = {{StepFeature::kConstant, 0, 5},
                   {StepFeature::kPaddedRows, 0, 0.01},
                   {StepFeature::kDecodeContext, 0, 0.05}};
  b.graph.largest_rows = 16;
  b.eager.terms = {{StepFeature::kTokens, 0, 20}, {StepFeature::kPrefillPairs, 0, 2}};
  return b;
}

StepGraphs graphs_of(const StepBundle& b) { return {b.capture_sizes, b.full_graph_rows}; }

StepShape decode(int64_t rows, int64_t context) {
  StepShape shape;
  for (int64_t i = 0; i < rows; ++i) shape.add_row(1, context);
  return shape;
}

StepShape prefill(int64_t tokens, int64_t computed = 0) {
  StepShape shape;
  shape.add_row(tokens, computed);
  return shape;
}

TEST(StepShape, CountsWhatCostsDependOn) {
  StepShape shape = decode(2, 100);
  shape.add_row(10, 50);
  EXPECT_EQ(shape.tokens, 12);
  EXPECT_EQ(shape.rows, 3);
  EXPECT_EQ(shape.decode_context, 200);
  EXPECT_EQ(shape.prefill_pairs, 10 * (50 + 5));
}

TEST(StepGraphs, KindAndPadding) {
  const StepGraphs graphs = graphs_of(bundle_with_graphs());
  EXPECT_EQ(graphs.kind(StepShape{}), StepKind::kEmpty);
  EXPECT_EQ(graphs.kind(decode(8, 1)), StepKind::kGraph);
  EXPECT_EQ(graphs.kind(decode(9, 1)), StepKind::kPiecewise);  // more rows than whole graphs have
  EXPECT_EQ(graphs.kind(prefill(9)), StepKind::kPiecewise);
  EXPECT_EQ(graphs.kind(prefill(1)), StepKind::kGraph);  // a chunk of one token is a row like others
  EXPECT_EQ(graphs.kind(prefill(17)), StepKind::kEager);
  EXPECT_EQ(graphs.padded(decode(3, 1)), 4);
  EXPECT_EQ(graphs.padded(prefill(17)), 17);
  EXPECT_EQ((StepGraphs{{}, 0}).kind(decode(1, 1)), StepKind::kEager);
}

TEST(StepDevice, TermsBendAtTheirKnots) {
  const StepTerm terms[] = {{StepFeature::kRows, 0, 1}, {StepFeature::kRows, 4, 2}};
  EXPECT_DOUBLE_EQ(sum_terms(terms, step_features(decode(3, 0), 3, 0)), 3);
  EXPECT_DOUBLE_EQ(sum_terms(terms, step_features(decode(6, 0), 6, 0)), 6 + 2 * 2);
}

TEST(StepDevice, GraphCostsPaddedRowsAndContext) {
  const StepBundle b = bundle_with_graphs();
  EXPECT_NEAR(device_ms(b, StepKind::kGraph, decode(3, 1000), 4, 0), 5 + 0.04 + 0.15, 1e-9);
  EXPECT_EQ(device_ms(b, StepKind::kEmpty, StepShape{}, 0, 0), 0);
}

// Beyond what was fitted the matrices are computed, not waited for: 0.02 ms a row, once that is more than the
// 3.5 ms for reading the weights.
TEST(StepDevice, BeyondTheFitTheRooflineTakesOver) {
  const StepBundle b = bundle_with_graphs();
  EXPECT_NEAR(device_ms(b, StepKind::kGraph, decode(100, 0), 100, 0), 5 + 1, 1e-9);
  EXPECT_NEAR(device_ms(b, StepKind::kGraph, decode(1000, 0), 1000, 0), 5 + 10 + (20 - 3.5), 1e-9);
  EXPECT_NEAR(device_ms(b, StepKind::kGraph, decode(1000, 1000), 1000, 0), 5 + 10 + (20 - 3.5) + 50, 1e-6);
}

TEST(StepDevice, AStepWithoutAGraphReadsTheWeightsToo) {
  const StepBundle b = bundle_with_graphs();
  EXPECT_NEAR(device_ms(b, StepKind::kEager, prefill(20), 20, 0), 5 + 0.16, 1e-9);
  EXPECT_NEAR(device_ms(b, StepKind::kEager, prefill(1000), 1000, 0), 20 + 2 * 0.5, 1e-9);
}

TEST(StepMachine, AGraphStep) {
  const StepBundle b = bundle_with_graphs();
  StepMachine machine(b, graphs_of(b), 1, 1);
  const auto first = machine.launch(decode(1, 0), 100);
  EXPECT_NEAR(first.launched_ms, 102.1, 1e-9);
  EXPECT_NEAR(first.device_end_ms, 101.1 + 5.01, 1e-9);  // the device begins 1 ms before the launch returns
  const auto second = machine.launch(decode(1, 0), 102.1);
  EXPECT_NEAR(second.device_end_ms, 101.1 + 2 * 5.01, 1e-9);  // right behind the first
  EXPECT_NEAR(machine.outputs_ms(first, second.launched_ms), 101.1 + 5.01 + 0.05, 1e-9);
  EXPECT_NEAR(machine.outputs_ms(first, 200), 200, 1e-9);  // the host comes late
  EXPECT_NEAR(machine.gap_ms(10), 0.6, 1e-9);
}

TEST(StepMachine, AStepWithoutAGraphStreams) {
  const StepBundle b = bundle_with_graphs();
  StepMachine machine(b, graphs_of(b), 1, 1);
  const auto small = machine.launch(prefill(100), 0);
  EXPECT_NEAR(small.launched_ms, 20, 1e-9);
  EXPECT_NEAR(small.device_end_ms, 21, 1e-9);  // the last kernel is launched at 20
  const auto large = machine.launch(prefill(2000), 20);
  EXPECT_NEAR(large.device_end_ms, 23 + 40 + 2 * 2, 1e-9);  // begins 3 ms after planning
}

TEST(StepMachine, EmptyStepsCostTheHostAlone) {
  const StepBundle b = bundle_with_graphs();
  StepMachine machine(b, graphs_of(b), 1, 1);
  const auto empty = machine.launch(StepShape{}, 10);
  EXPECT_NEAR(empty.launched_ms, 10.3, 1e-9);
  EXPECT_NEAR(empty.device_end_ms, 10.3, 1e-9);
}

TEST(StepMachine, TheHostsFactorIsTheHostsAlone) {
  const StepBundle b = bundle_with_graphs();
  StepMachine machine(b, graphs_of(b), 2, 1);
  const auto step = machine.launch(decode(1, 0), 0);
  EXPECT_NEAR(step.launched_ms, 4.2, 1e-9);
  EXPECT_NEAR(step.device_end_ms, 3.2 + 5.01, 1e-9);
}

TEST(BusyShare, CountsTheLastMoments) {
  BusyShare busy;
  EXPECT_EQ(busy.at(0), 0);
  busy.add(0, 50);
  EXPECT_NEAR(busy.at(50), 0.25, 1e-12);
  busy.add(100, 150);
  EXPECT_NEAR(busy.at(220), (30 + 50) / 200.0, 1e-12);
  EXPECT_EQ(busy.at(1000), 0);
}

TEST(NormalCdf, IsTheNormalDistribution) {
  for (const double z : {-9.0, -3.0, -1.0, -0.1, 0.0, 0.5, 1.96, 4.0, 9.0}) {
    EXPECT_NEAR(normal_cdf(z), 0.5 * std::erfc(-z / std::sqrt(2.0)), 1e-7) << z;
  }
}

// Mean and correlation of what is drawn are those that the bundle states.
TEST(LaunchNoise, HasTheStatedMomentsAndCorrelation) {
  StepHost host;
  host.eager_quantiles = {0.5, 0.75, 1, 1.25, 1.5};  // uniform
  host.eager_correlation = 0.6;
  host.eager_correlation_s = 0.2;
  LaunchNoise noise(host, 7);
  constexpr int kDraws = 100'000;
  double sum = 0, square = 0, lag = 0, before = 1;
  for (int i = 0; i < kDraws; ++i) {
    const double v = noise.next(i * 100.0) - 1;  // every 0.1 s
    sum += v;
    square += v * v;
    if (i > 0) lag += v * before;
    before = v;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);
  EXPECT_NEAR(square / kDraws, 1.0 / 12, 0.003);
  EXPECT_NEAR(lag / square, 0.6 * std::exp(-0.5), 0.03);
}

TEST(LaunchNoise, EqualSeedsGiveEqualDraws) {
  StepHost host;
  host.eager_quantiles = {0.5, 1.5};
  LaunchNoise a(host, 1), b(host, 1), c(host, 2);
  bool differs = false;
  for (int i = 0; i < 10; ++i) {
    const double v = a.next(i);
    EXPECT_EQ(v, b.next(i));
    differs |= v != c.next(i);
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace vllm
