// Look-ups in compiled bundles: the golden numbers of the interface specification on the reference bundles,
// and every rule on small tables made here.

#include "sim/latency_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "base/random.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::shared_path;

struct Reference {
  ProfileBundle bundle;
  Architecture architecture;
};

// nullopt where the reference data are absent.
std::optional<Reference> reference(const std::string& model, const std::string& type, int tp,
                                   bool moe = false) {
  const auto dir = shared_path("reference/perf/RTXPRO6000/" + model + "/bf16");
  const auto yaml = shared_path("reference/configs/architecture/" + type + ".yaml");
  if (!dir || !yaml) return std::nullopt;
  auto bundle = read_profile_bundle(*dir, {tp, moe});
  auto architecture = read_architecture(*yaml);
  EXPECT_TRUE(bundle.is_ok()) << bundle.status().message();
  EXPECT_TRUE(architecture.is_ok()) << architecture.status().message();
  return Reference{std::move(bundle).value(), std::move(architecture).value()};
}

LatencyModel compiled(const Reference& r, int tp, bool moe, const LatencyPolicies& policies) {
  auto model = LatencyModel::compile(r.bundle, r.architecture, {"RTXPRO6000", tp, moe}, policies);
  EXPECT_TRUE(model.is_ok()) << model.status().message();
  return std::move(model).value();
}

// pc, kp, and the computed lengths of the decodes.
BatchShape batch(int64_t pc, int64_t kp, const std::vector<int64_t>& decodes) {
  BatchShape b;
  b.prefill_tokens = pc;
  b.prefill_kv = kp;
  b.decodes = static_cast<int64_t>(decodes.size());
  b.tokens = pc + b.decodes;
  b.sequences = b.decodes + (pc > 0 ? 1 : 0);
  int64_t sum = 0;
  for (const int64_t kv : decodes) sum += kv;
  if (decodes.empty()) return b;
  b.decode_kv_mean = sum / b.decodes;
  b.decode_kv_max = *std::max_element(decodes.begin(), decodes.end());
  b.decode_kv_min = *std::min_element(decodes.begin(), decodes.end());
  return b;
}

TEST(LatencyModelGolden, Llama8BOnOneDegree) {
  const auto r = reference("meta-llama/Llama-3.1-8B", "llama", 1);
  if (!r) GTEST_SKIP() << "reference data are absent";
  LatencyModel m = compiled(*r, 1, false, LatencyPolicies::compat());
  const auto dense = [&](const char* layer, int64_t tokens) {
    return m.dense_ns(m.find_dense(layer), tokens);
  };
  const auto sequence = [&](const char* layer, int64_t s) {
    return m.per_sequence_ns(m.find_per_sequence(layer), s);
  };
  EXPECT_EQ(dense("embedding", 1), 3147);
  EXPECT_EQ(dense("qkv_proj", 17), 37772);
  EXPECT_EQ(dense("qkv_proj", 100), 42688);
  EXPECT_EQ(dense("o_proj", 2100), 191674);
  EXPECT_EQ(dense("down_proj", 2048), 608715);
  EXPECT_EQ(dense("layernorm", 1000), 5821);
  EXPECT_EQ(sequence("lm_head", 1), 714006);
  EXPECT_EQ(sequence("lm_head", 57), 713134);
  EXPECT_EQ(sequence("lm_head", 300), 845073);
  EXPECT_EQ(sequence("sampler", 128), 63766);
  EXPECT_EQ(m.attention_table_ns(0, 0, 1, 100), 10405);
  EXPECT_EQ(m.attention_table_ns(0, 0, 64, 1200), 251614);
  EXPECT_EQ(m.attention_table_ns(0, 0, 128, 900), 362235);
  EXPECT_EQ(m.attention_table_ns(2048, 0, 0, 0), 172609);
  EXPECT_EQ(m.attention_table_ns(512, 700, 0, 0), 53578);
  EXPECT_EQ(m.attention_table_ns(300, 0, 50, 1000), 258185);
  EXPECT_EQ(m.attention_table_ns(1000, 3000, 100, 1500), 1041184);
}

TEST(LatencyModelGolden, SkewOnLlama8B) {
  const auto r = reference("meta-llama/Llama-3.1-8B", "llama", 1);
  if (!r) GTEST_SKIP() << "reference data are absent";
  LatencyModel m = compiled(*r, 1, false, LatencyPolicies::compat());
  EXPECT_EQ(m.attention_ns(batch(0, 0, {100, 200, 3000})), 23917);
  std::vector<int64_t> mixed(30, 500);
  mixed.insert(mixed.end(), 10, 4000);
  EXPECT_EQ(m.attention_ns(batch(0, 0, mixed)), 200308);
  EXPECT_EQ(m.attention_ns(batch(512, 0, {300, 900})), 39251);
  EXPECT_EQ(m.attention_ns(batch(500, 0, {300, 900})), 34337);
}

// The whole of a step by the rule of section 9.1 with a host of 256 bytes a ns.
TEST(LatencyModelGolden, WholeSteps) {
  const auto r = reference("meta-llama/Llama-3.1-8B", "llama", 1);
  if (!r) GTEST_SKIP() << "reference data are absent";
  LatencyModel m = compiled(*r, 1, false, LatencyPolicies::compat());
  const auto step = [&](const BatchShape& b) {
    const BoundSequence& s = m.sequence();
    int64_t total = 2 * 2 * b.tokens / 256 + 4 * b.tokens / 256;
    for (const auto& layer : s.prologue) total += m.layer_ns(layer, b);
    for (const auto* part : {&s.pre_attn, &s.post_attn, &s.mlp}) {
      for (const auto& layer : *part) total += 32 * m.layer_ns(layer, b);
    }
    for (const auto& layer : s.head) total += m.layer_ns(layer, b);
    return total;
  };
  EXPECT_EQ(step(batch(2048, 0, {})), 82945408);
  EXPECT_EQ(step(batch(0, 0, {100})), 11212513);
  EXPECT_EQ(step(batch(0, 0, std::vector<int64_t>(64, 1000))), 18681369);
}

TEST(LatencyModelGolden, ExpertsOfQwen30B) {
  const auto r = reference("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3_moe", 2, true);
  if (!r) GTEST_SKIP() << "reference data are absent";
  LatencyModel m = compiled(*r, 2, true, LatencyPolicies::compat());
  EXPECT_EQ(m.moe_ns(1, 8), 50230);
  EXPECT_EQ(m.moe_ns(100, 64), 446208);
  EXPECT_EQ(m.moe_ns(1024, 64), 550528);
  EXPECT_EQ(m.moe_ns(2040, 64), 680861);
  EXPECT_EQ(m.moe_ns(3000, 64), 804011);
  EXPECT_EQ(m.moe_ns(64, 20), 159810);
  EXPECT_EQ(m.moe_ns(64, 128), 827810);
}

TEST(LatencyModelGolden, EveryReferenceBundleIsWhole) {
  const struct {
    const char *model, *type;
    bool moe;
  } bundles[] = {{"meta-llama/Llama-3.1-8B", "llama", false},
                 {"Qwen/Qwen3-32B", "qwen3", false},
                 {"Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3_moe", true}};
  for (const auto& b : bundles) {
    for (const int tp : {1, 2}) {
      const auto r = reference(b.model, b.type, tp, b.moe);
      if (!r) GTEST_SKIP() << "reference data are absent";
      compiled(*r, tp, b.moe, LatencyPolicies::native());
      EXPECT_TRUE(r->bundle.meta.skew.enabled);
      EXPECT_GT(r->bundle.tables(tp)->skew.size(), 3000u);
      EXPECT_GT(r->bundle.tables(tp)->alpha_default, 0.05);
    }
  }
}

// ---- rules, on tables made here ----

Architecture small_architecture() {
  Architecture a;
  a.path = "small.yaml";
  a.prologue = {"embedding"};
  a.pre_attn = {"layernorm", "rotary_emb", "attention"};
  a.mlp_dense = {"mlp"};
  a.mlp_moe = {"moe"};
  a.head = {"lm_head"};
  a.catalog = {{"embedding", ProfiledKind::kDense, false},     {"layernorm", ProfiledKind::kDense, true},
               {"rotary_emb", ProfiledKind::kDense, false},    {"mlp", ProfiledKind::kDense, false},
               {"attention", ProfiledKind::kAttention, false}, {"moe", ProfiledKind::kMoe, false},
               {"lm_head", ProfiledKind::kPerSequence, false}};
  return a;
}

ProfileTables small_tables(int tp) {
  ProfileTables t;
  t.tp = tp;
  t.dir = fmt::format("bundle/tp{}", tp);
  for (const char* layer : {"embedding", "layernorm", "rotary_emb", "mlp"}) {
    t.dense.push_back({layer, {2, 4, 8}, {20 * tp, 40 * tp, 100 * tp}});
  }
  t.per_sequence = {{"lm_head", {1, 2}, {10, 30}}};
  t.attention = {{0, 0, 1, 16, 100},   {0, 0, 1, 32, 200}, {0, 0, 4, 16, 400},  {0, 0, 4, 32, 800},
                 {16, 0, 0, 0, 50},    {16, 32, 0, 0, 90}, {16, 0, 1, 16, 150}, {16, 0, 1, 32, 250},
                 {16, 32, 1, 16, 190}, {32, 0, 0, 0, 70}};
  t.moe = {{4, 1, 10}, {4, 2, 20}, {8, 2, 40}, {8, 4, 60}};
  return t;
}

ProfileBundle small_bundle() {
  ProfileBundle b;
  b.dir = "bundle";
  b.by_tp[1] = small_tables(1);
  b.by_tp[2] = small_tables(2);
  return b;
}

LatencyModel small(const ProfileBundle& bundle = small_bundle(), int tp = 1, bool moe = true,
                   const LatencyPolicies& policies = LatencyPolicies::compat()) {
  auto model = LatencyModel::compile(bundle, small_architecture(), {"CARD", tp, moe}, policies);
  EXPECT_TRUE(model.is_ok()) << model.status().message();
  return std::move(model).value();
}

std::string compile_error(const ProfileBundle& bundle, bool moe = false,
                          const Architecture& a = small_architecture()) {
  const auto model = LatencyModel::compile(bundle, a, {"CARD", 2, moe}, LatencyPolicies::native());
  if (model) return "accepted";
  EXPECT_EQ(exit_code(model.status()), 2);
  return model.status().message();
}

TEST(LatencyModelTest, CurvesInterpolateExtrapolateAndClamp) {
  LatencyModel m = small();
  const LayerHandle mlp = m.find_dense("embedding");
  EXPECT_EQ(m.dense_ns(mlp, 0), 20);  // below the first key its value
  EXPECT_EQ(m.dense_ns(mlp, 2), 20);
  EXPECT_EQ(m.dense_ns(mlp, 3), 30);
  EXPECT_EQ(m.dense_ns(mlp, 5), 55);
  EXPECT_EQ(m.dense_ns(mlp, 8), 100);
  EXPECT_EQ(m.dense_ns(mlp, 10), 130);  // from the last two
  EXPECT_EQ(m.find_dense("lm_head"), -1);
  EXPECT_EQ(m.find_per_sequence("mlp"), -1);
}

TEST(LatencyModelTest, NoTimeIsBelowOne) {
  ProfileBundle b = small_bundle();
  b.by_tp[1].dense[0] = {"embedding", {1, 2}, {1000, 1}};
  LatencyModel m = small(b);
  EXPECT_EQ(m.dense_ns(m.find_dense("embedding"), 1000000), 1);
  b.by_tp[1].dense[0] = {"embedding", {1, 2}, {1, 1000000000000}};
  m = small(b);
  EXPECT_EQ(m.dense_ns(m.find_dense("embedding"), 1 << 30), 4000000000000000000);  // and none overflows
}

TEST(LatencyModelTest, StableLayersComeFromDegreeOne) {
  LatencyModel m = small(small_bundle(), 2);
  EXPECT_EQ(m.dense_ns(m.find_dense("embedding"), 2), 40);
  EXPECT_EQ(m.dense_ns(m.find_dense("layernorm"), 2), 20);
}

TEST(LatencyModelTest, AttentionBlendsAllAxes) {
  LatencyModel m = small();
  EXPECT_EQ(m.attention_table_ns(0, 0, 1, 24), 150);
  EXPECT_EQ(m.attention_table_ns(0, 0, 2, 16), 200);
  EXPECT_EQ(m.attention_table_ns(0, 0, 1, 8), 100);   // clamped below
  EXPECT_EQ(m.attention_table_ns(0, 0, 1, 64), 400);  // extrapolated above
  EXPECT_EQ(m.attention_table_ns(16, 16, 0, 0), 70);
  EXPECT_EQ(m.attention_table_ns(8, 0, 1, 16), 125);
  // A row with one point has one value, whatever is asked.
  EXPECT_EQ(m.attention_table_ns(16, 32, 1, 32), 190);
}

TEST(LatencyModelTest, AnAbsentSliceIsTheNearest) {
  LatencyModel m = small();
  EXPECT_EQ(m.attention_table_ns(16, 0, 4, 16), 150);  // (16, 1)
  EXPECT_EQ(m.attention_table_ns(32, 0, 1, 16), 70);   // (32, 0)
  EXPECT_EQ(m.attention_table_ns(24, 0, 0, 0), 60);
}

TEST(LatencyModelTest, ExpertsInterpolateTokensInside) {
  LatencyModel m = small();
  EXPECT_EQ(m.moe_ns(2, 4), 20);
  EXPECT_EQ(m.moe_ns(2, 6), 30);
  EXPECT_EQ(m.moe_ns(3, 8), 50);
  EXPECT_EQ(m.moe_ns(1, 2), 10);   // clamped below
  EXPECT_EQ(m.moe_ns(2, 10), 50);  // extrapolated above
}

TEST(LatencyModelTest, TheSequenceIsBoundToTheTables) {
  const LatencyModel m = small();
  EXPECT_EQ(m.sequence().pre_attn.size(), 3u);
  EXPECT_EQ(m.sequence().mlp[0].kind, ProfiledKind::kMoe);
  EXPECT_EQ(small(small_bundle(), 1, false).sequence().mlp[0].name, "mlp");
  const auto tpu = LatencyModel::compile(small_bundle(), small_architecture(), {"TPUv6e", 1, true},
                                         LatencyPolicies::native());
  ASSERT_TRUE(tpu.is_ok());
  EXPECT_EQ(tpu->sequence().pre_attn.size(), 2u);  // no rotary_emb there
}

TEST(LatencyModelTest, BundlesThatLackSomething) {
  ProfileBundle b = small_bundle();
  b.by_tp[2].dense.pop_back();
  EXPECT_THAT(compile_error(b), HasSubstr("bundle/tp2/dense.csv: has no rows for layer 'mlp'"));
  b = small_bundle();
  b.by_tp[2].per_sequence.clear();
  EXPECT_THAT(compile_error(b), HasSubstr("bundle/tp2/per_sequence.csv: has no rows for layer 'lm_head'"));
  b = small_bundle();
  b.by_tp.erase(1);
  EXPECT_THAT(compile_error(b), HasSubstr("bundle: has no tables tp1, which layer 'layernorm' is read from"));
  b = small_bundle();
  b.by_tp[1].moe.clear();
  EXPECT_THAT(compile_error(b, true), HasSubstr("has no moe.csv in tp1"));
  b.by_tp.erase(2);
  EXPECT_THAT(compile_error(b), HasSubstr("degree 2 was not read"));
  Architecture a = small_architecture();
  a.mlp_dense.clear();
  EXPECT_THAT(compile_error(small_bundle(), false, a), HasSubstr("'sequence.mlp_dense' is empty"));
}

TEST(LatencyModelTest, SkewKeysAndAlphas) {
  ProfileBundle b = small_bundle();
  b.meta.skew = {true, {{0, 10}, {"n"}}, {{-1, 2}, {"s"}}, {{0, 1e9}, {"k"}}, {{-1, 1e9}, {"p"}}};
  b.by_tp[1].alpha_default = 0.25;
  b.by_tp[1].skew = {{0, 0, 0, 0, 0, 0.5}, {16, 0, 0, 0, 0, -3}, {64, 0, 0, 0, 0, 4}};
  BatchShape shape = batch(0, 0, {16, 16, 16, 32});
  const int64_t mean = 400 + 100, slowest = 800;  // kd 20 of 16..32
  LatencyModel compat = small(b);
  EXPECT_EQ(compat.attention_table_ns(0, 0, 4, 20), mean);
  EXPECT_EQ(compat.attention_ns(shape), mean + (slowest - mean) / 2);
  LatencyModel native = small(b, 1, true, LatencyPolicies::native());
  EXPECT_EQ(native.attention_ns(shape), mean + (slowest - mean) / 2);
  // A chunk sum without an entry: the default, or the nearest entry.
  shape.prefill_tokens = 3;
  const int64_t m = compat.attention_table_ns(3, 0, 4, 20), s = compat.attention_table_ns(3, 0, 4, 32);
  EXPECT_EQ(compat.attention_ns(shape),
            std::llrint(static_cast<double>(m) + 0.25 * static_cast<double>(s - m)));
  EXPECT_EQ(native.attention_ns(shape),
            std::llrint(static_cast<double>(m) + 0.5 * static_cast<double>(s - m)));
  // Alphas outside of [0, 1]: as they are, or capped.
  shape.prefill_tokens = 16;
  const int64_t m16 = compat.attention_table_ns(16, 0, 4, 20), s16 = compat.attention_table_ns(16, 0, 4, 32);
  ASSERT_GT(s16, m16);
  EXPECT_EQ(compat.attention_ns(shape), std::max<int64_t>(1, m16 - 3 * (s16 - m16)));
  EXPECT_EQ(native.attention_ns(shape), m16);
}

TEST(LatencyModelTest, NoSkewForOneLengthOrOneDecode) {
  ProfileBundle b = small_bundle();
  b.meta.skew = {true, {{0, 10}, {"n"}}, {{-1, 2}, {"s"}}, {{0, 1e9}, {"k"}}, {{-1, 1e9}, {"p"}}};
  b.by_tp[1].alpha_default = 1;
  LatencyModel m = small(b);
  EXPECT_EQ(m.attention_ns(batch(0, 0, {16, 16, 16, 16})), 400);
  EXPECT_EQ(m.attention_ns(batch(0, 0, {16})), 100);
  EXPECT_EQ(m.attention_ns(batch(0, 0, {16, 16, 16, 32})), 800);
}

TEST(LatencyModelTest, QueriesOutOfRangeAreCounted) {
  LatencyModel m = small();
  EXPECT_TRUE(m.out_of_range().empty());
  m.dense_ns(m.find_dense("embedding"), 8);
  m.dense_ns(m.find_dense("embedding"), 9);
  m.attention_table_ns(0, 0, 4, 33);
  m.attention_table_ns(0, 0, 5, 20);
  m.moe_ns(4, 9);
  const auto report = m.out_of_range();
  ASSERT_EQ(report.size(), 4u);
  EXPECT_EQ(report[0].table, "dense tp1");
  EXPECT_EQ(report[0].layer, "embedding");
  EXPECT_EQ(report[0].axis, "tokens");
  EXPECT_EQ(report[0].queries, 2);
  EXPECT_EQ(report[0].outside, 1);
  EXPECT_EQ(report[0].profiled_max, 8);
  EXPECT_EQ(report[0].seen_max, 9);
  EXPECT_EQ(report[1].axis, "n_decode");
  EXPECT_EQ(report[2].axis, "kv_decode");
  EXPECT_EQ(report[3].axis, "activated_experts");
}

TEST(LatencyModelTest, BalancedExperts) {
  const auto compat = [](int64_t tokens, int64_t ep) {
    const ExpertLoad load = balanced_expert_load(tokens, 8, 128, ep, LatencyPolicies::compat());
    return std::pair(load.tokens, load.experts);
  };
  EXPECT_EQ(compat(100, 1), std::pair(int64_t{100}, int64_t{128}));
  EXPECT_EQ(compat(1, 1), std::pair(int64_t{1}, int64_t{8}));
  EXPECT_EQ(compat(1, 2), std::pair(int64_t{1}, int64_t{4}));
  EXPECT_EQ(compat(2048, 2), std::pair(int64_t{2040}, int64_t{64}));
  EXPECT_EQ(compat(0, 2), std::pair(int64_t{0}, int64_t{0}));
  const auto native = [](int64_t tokens, int64_t ep) {
    return balanced_expert_load(tokens, 8, 128, ep, LatencyPolicies::native());
  };
  EXPECT_EQ(native(1, 1).experts, 8);
  EXPECT_EQ(native(2, 1).experts, 16);  // 15.5
  EXPECT_EQ(native(1000, 2).experts, 64);
  EXPECT_LT(native(16, 2).experts, compat(16, 2).second);
  EXPECT_EQ(native(0, 2).experts, 0);
}

// The plain twin: a look-up written for reading, over the rows themselves, against random queries.
double plain_line(const std::vector<std::pair<int64_t, double>>& points, int64_t x) {
  if (x <= points.front().first || points.size() == 1) return points.front().second;
  size_t high = 1;
  while (high + 1 < points.size() && points[high].first < x) ++high;
  const auto& [k0, v0] = points[high - 1];
  const auto& [k1, v1] = points[high];
  if (x == k1) return v1;
  return v0 + static_cast<double>(x - k0) / static_cast<double>(k1 - k0) * (v1 - v0);
}

TEST(LatencyModelTest, EqualToThePlainLookUpOnTheReferenceBundle) {
  const auto r = reference("meta-llama/Llama-3.1-8B", "llama", 1);
  if (!r) GTEST_SKIP() << "reference data are absent";
  LatencyModel m = compiled(*r, 1, false, LatencyPolicies::compat());
  std::map<std::pair<int64_t, int64_t>, std::map<int64_t, std::vector<std::pair<int64_t, double>>>> slices;
  std::set<int64_t> pcs, nds;
  for (const AttentionRow& row : r->bundle.tables(1)->attention) {
    slices[{row.prefill_chunk, row.n_decode}][row.kv_prefill].emplace_back(row.kv_decode, row.ns);
    pcs.insert(row.prefill_chunk);
    nds.insert(row.n_decode);
  }
  const auto slice_at = [&](int64_t pc, int64_t nd, int64_t kp, int64_t kd) {
    auto best = slices.begin();
    int64_t distance = INT64_MAX;
    for (auto it = slices.begin(); it != slices.end(); ++it) {
      const int64_t dp = it->first.first - pc, dn = it->first.second - nd;
      if (dp * dp + dn * dn >= distance) continue;
      distance = dp * dp + dn * dn;
      best = it;
    }
    std::vector<std::pair<int64_t, double>> line;
    for (const auto& [key, points] : best->second) line.emplace_back(key, plain_line(points, kd));
    return plain_line(line, kp);
  };
  Random random(7);
  for (int i = 0; i < 3000; ++i) {
    const int64_t pc = random.below(3) == 0 ? 0 : random.between(0, 3000),
                  nd = random.between(pc == 0 ? 1 : 0, 300);
    const int64_t kp = random.between(0, 20000), kd = random.between(0, 20000);
    std::vector<std::pair<int64_t, double>> over_pc;
    for (const int64_t p : pcs) {
      std::vector<std::pair<int64_t, double>> over_nd;
      for (const int64_t n : nds) over_nd.emplace_back(n, slice_at(p, n, kp, kd));
      over_pc.emplace_back(p, plain_line(over_nd, nd));
    }
    const double expected = std::max(1.0, plain_line(over_pc, pc));
    ASSERT_EQ(m.attention_table_ns(pc, kp, nd, kd), static_cast<int64_t>(expected))
        << pc << " " << kp << " " << nd << " " << kd;
  }
}

}  // namespace
}  // namespace vllm
