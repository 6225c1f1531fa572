// Look-ups in compiled bundles: the golden numbers of the interface specification on the reference bundles,
// and every rule on small tables made here.

#include "sim/latency_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace vllm
