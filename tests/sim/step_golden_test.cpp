// Whole steps of the reference's configurations, and what the two modes make of them.

#include <fmt/format.h>

#include "sim/npu_machine.h"
#include "sim/sim_setup.h"
#include "support/reference.h"

namespace vllm {
namespace {

using testing::shared_path;

std::unique_ptr<SimSetup> setup_of(const std::string& cluster, const std::vector<std::string>& more = {}) {
  const std::string root = *shared_path("reference");
  std::vector<std::string> args = {
      "--mode",         "compat",          "--cluster-config", root + "/" + cluster,
      "--configs-root", root + "/configs", "--profiles-root",  root + "/perf"};
  args.insert(args.end(), more.begin(), more.end());
  const Result<ParsedOptions> parsed = parse_options(Program::kSim, args);
  EXPECT_TRUE(parsed.is_ok()) << parsed.status().message();
  Result<std::unique_ptr<SimSetup>> setup = make_sim_setup(*parsed);
  EXPECT_TRUE(setup.is_ok()) << setup.status().message();
  return std::move(setup.value());
}

// One step of instance 0 on an idle cluster: when its last NPU is done.
TimeNs step_ns(SimSetup& setup, const StepShape& shape, bool merged) {
  StepGraphs graphs;
  setup.builders[0]->build(shape, merged, graphs);
  NpuMachine::Config config = setup.config.machine;
  config.solve_rings = merged;
  NpuMachine machine(config);
  for (size_t i = 0; i < graphs.size(); ++i) machine.start(static_cast<int>(i), graphs[i]);
  while (machine.has_events()) machine.run_round();
  return machine.now();
}

StepShape prefill(int64_t tokens) {
  StepShape shape;
  shape.requests = shape.prefills = shape.batch.sequences = 1;
  shape.batch.tokens = shape.batch.prefill_tokens = tokens;
  return shape;
}

StepShape decodes(int64_t count, int64_t kv) {
  StepShape shape;
  shape.requests = shape.batch.sequences = shape.batch.tokens = shape.batch.decodes = count;
  shape.batch.decode_kv_mean = shape.batch.decode_kv_max = shape.batch.decode_kv_min = kv;
  return shape;
}

TEST(StepGolden, OneRankTakesWhatTheReferenceTakes) {
  if (!shared_path("reference")) GTEST_SKIP() << "no reference data";
  const auto setup = setup_of("configs/cluster/single_node_single_instance.json");
  for (const bool merged : {false, true}) {
    EXPECT_EQ(step_ns(*setup, prefill(2048), merged), 82'945'408);
    EXPECT_EQ(step_ns(*setup, decodes(1, 100), merged), 11'212'513);
    EXPECT_EQ(step_ns(*setup, decodes(64, 1000), merged), 18'681'369);
  }
}

TEST(StepGolden, MergedRowsAndSolvedRingsEndWhenAllEventsDo) {
  if (!shared_path("reference")) GTEST_SKIP() << "no reference data";
  for (const char* cluster : {"examples/RTXPRO6000/Qwen3-32B/config.json",
                              "configs/cluster/single_node_moe_single_instance.json"}) {
    const auto setup = setup_of(cluster);
    for (const int64_t tokens : {1, 7, 128, 2048}) {
      EXPECT_EQ(step_ns(*setup, prefill(tokens), true), step_ns(*setup, prefill(tokens), false)) << tokens;
      EXPECT_EQ(step_ns(*setup, decodes(tokens, 500), true), step_ns(*setup, decodes(tokens, 500), false))
          << tokens;
    }
  }
}

TEST(StepGolden, ShapesCountChunksAndDecodes) {
  StepPlan plan;
  plan.total_tokens = 10;
  plan.entries.resize(4);
  const std::pair<int32_t, int32_t> entries[] = {{1, 7}, {5, 0}, {3, 100}, {1, 12}};
  for (size_t i = 0; i < 4; ++i) {
    plan.entries[i].num_tokens = entries[i].first;
    plan.entries[i].num_computed = entries[i].second;
  }
  StepShape shape = shape_of(plan);
  EXPECT_EQ(shape.prefills, 2);
  EXPECT_EQ(shape.batch.prefill_tokens, 8);
  EXPECT_EQ(shape.batch.prefill_kv, 100);
  EXPECT_EQ(shape.batch.decodes, 2);
  EXPECT_EQ(shape.batch.decode_kv_mean, 9);
  EXPECT_EQ(shape.batch.decode_kv_max, 12);
  EXPECT_EQ(shape.batch.decode_kv_min, 7);
  EXPECT_EQ(shape.batch.sequences, 4);
  pad_shape(shape, 16);
  EXPECT_EQ(shape.batch.tokens, 16);
  EXPECT_EQ(shape.batch.sequences, 10);
  EXPECT_EQ(shape.batch.decodes, 2);
  StepShape dummy = dummy_shape();
  pad_shape(dummy, 16);
  EXPECT_EQ(dummy.batch.sequences, 16);
}

}  // namespace
}  // namespace vllm
