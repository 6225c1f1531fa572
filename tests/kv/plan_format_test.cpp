// How a plan looks: the keys of its JSON and the table for people.

#include <sstream>

#include "base/units.h"
#include "formats/json.h"
#include "kv/plan.h"
#include "support/models.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

KvPlan worked_plan() {
  Options options;
  options.kv.block_size = 32;
  options.kv.kv_cache_memory_bytes = kGiB;
  options.kv.gpu_memory_utilization = 0.5;
  options.model.max_model_len = 1024;
  options.scheduler.max_num_seqs = 8;
  MemoryFacts facts;
  facts.total_bytes = facts.free_bytes = 64 * kGiB;
  facts.weights_bytes = 3'441'149'952;
  return make_kv_plan(testing::qwen3_1_7b(), options, facts).plan;
}

TEST(KvPlanFormat, JsonHasEveryAgreedKeyInOrder) {
  std::vector<std::string> keys;
  const Json json = kv_plan_json(worked_plan());
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  const std::vector<std::string> agreed = {"device",
                                           "decided_by",
                                           "overridden",
                                           "block_size",
                                           "blocks",
                                           "usable_blocks",
                                           "tokens",
                                           "bytes_per_block",
                                           "pool_bytes",
                                           "groups",
                                           "weights_bytes",
                                           "workspace_bytes",
                                           "graph_bytes",
                                           "reserve_bytes",
                                           "total_bytes",
                                           "free_bytes",
                                           "max_model_len",
                                           "longest_sequence",
                                           "concurrency_at_max_model_len",
                                           "fits",
                                           "measured"};
  ASSERT_GE(keys.size(), agreed.size());
  EXPECT_EQ(std::vector<std::string>(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(agreed.size())),
            agreed);
}

TEST(KvPlanFormat, JsonOfTheWorkedCase) {
  const Json json = kv_plan_json(worked_plan());
  EXPECT_EQ(json["decided_by"], "kv-cache-memory");
  EXPECT_EQ(json["overridden"], Json::array({"gpu-memory-utilization"}));
  EXPECT_EQ(json["blocks"], 292);
  EXPECT_EQ(json["usable_blocks"], 291);
  EXPECT_EQ(json["tokens"], 9312);
  EXPECT_EQ(json["bytes_per_block"], 3'670'016);
  EXPECT_EQ(json["pool_bytes"], 1'071'644'672);
  EXPECT_EQ(json["weights_bytes"], 3'441'149'952);
  EXPECT_EQ(json["kv_cache_dtype"], "bfloat16");
  EXPECT_EQ(json["tensor_parallel_size"], 1);
  EXPECT_EQ(json["concurrency_at_max_model_len"], 291.0 / 32.0);
  EXPECT_EQ(json["fits"], true);
  ASSERT_EQ(json["groups"].size(), 1U);
  EXPECT_EQ(json["groups"][0]["kind"], "full");
  EXPECT_EQ(json["groups"][0]["layers"].size(), 28U);
  EXPECT_EQ(json["groups"][0]["bytes_per_block"], 3'670'016);
}

TEST(KvPlanFormat, GroupsSayTheirKindWindowAndBytes) {
  Options options;
  options.kv.num_blocks = 100;
  options.model.max_model_len = 64;
  MemoryFacts facts;
  facts.total_bytes = facts.free_bytes = 64 * kGiB;
  const auto model = testing::mixed_model({LayerKind::kFull, LayerKind::kSliding, LayerKind::kRecurrent});
  const KvPlan plan = make_kv_plan(model, options, facts).plan;
  const Json groups = kv_plan_json(plan)["groups"];
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[1]["kind"], "sliding");
  EXPECT_EQ(groups[1]["window"], 64);
  EXPECT_EQ(groups[2]["kind"], "recurrent");
  EXPECT_EQ(groups[2]["bytes_per_sequence"], 1000);
  EXPECT_FALSE(groups[2].contains("bytes_per_block"));
  const std::string text = kv_plan_text(plan);
  EXPECT_THAT(text, HasSubstr("sliding 64"));
  EXPECT_THAT(text, HasSubstr("1,000 bytes a sequence"));
  EXPECT_THAT(text, HasSubstr("of it, for 128 sequences"));
}

TEST(KvPlanFormat, TextSaysWhichKnobDecidedAndWhatItIsMadeOf) {
  const std::string text = kv_plan_text(worked_plan());
  for (const char* part :
       {"292 blocks of 32 tokens", "decided by --kv-cache-memory: fits", "1,071,644,672", "3,441,149,952",
        "291 usable, 1 null block", "9,312", "28 layers, 3,670,016 bytes a block", "max_model_len", "9.09",
        "Note: --gpu-memory-utilization is set", "raise --kv-cache-memory"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(text.back(), '\n');
}

TEST(KvPlanFormat, TextOfAMeasuredPlanShowsTheShapeOfTheProfileAndWhatOthersHold) {
  Options options;
  options.kv.gpu_memory_utilization = 0.5;
  MemoryFacts facts;
  facts.device = "cuda";
  facts.total_bytes = 80 * kGiB;
  facts.free_bytes = 70 * kGiB;
  facts.weights_bytes = 15 * kGiB;
  facts.workspace_bytes = kGiB;
  facts.measured = true;
  const std::string text = kv_plan_text(make_kv_plan(testing::llama_3_1_8b(), options, facts).plan);
  EXPECT_THAT(text, HasSubstr("measured, a step of 2048 tokens, 128 rows of logits"));
  EXPECT_THAT(text, HasSubstr("10.00 GiB are held by others"));
  facts.measured = false;
  EXPECT_THAT(kv_plan_text(make_kv_plan(testing::llama_3_1_8b(), options, facts).plan),
              HasSubstr("estimated, a step"));
}

TEST(KvPlanFormat, ColumnsAreAligned) {
  std::istringstream lines(kv_plan_text(worked_plan()));
  std::string line;
  size_t rows = 0;
  while (std::getline(lines, line)) {
    EXPECT_TRUE(line.empty() || line.back() != ' ');
    if (line.rfind("  KV pool  ", 0) == 0 || line.rfind("  weights", 0) == 0 ||
        line.rfind("  blocks", 0) == 0) {
      EXPECT_NE(line[45], ' ') << line;
      EXPECT_EQ(line[46], ' ') << line;
      ++rows;
    }
  }
  EXPECT_EQ(rows, 3U);
}

TEST(KvPlanFormat, APlanThatDoesNotFitIsShownAsFarAsItGoes) {
  Options options;
  options.kv.kv_cache_memory_bytes = 100 * kGiB;
  MemoryFacts facts;
  facts.total_bytes = facts.free_bytes = 10 * kGiB;
  const PlanResult result = make_kv_plan(testing::llama_3_1_8b(), options, facts);
  EXPECT_FALSE(result.status.is_ok());
  EXPECT_EQ(kv_plan_json(result.plan)["fits"], false);
  EXPECT_EQ(kv_plan_json(result.plan)["blocks"], 51200);
  EXPECT_THAT(kv_plan_text(result.plan), HasSubstr("does not fit"));
  // Even when nothing could be computed.
  EXPECT_THAT(kv_plan_text(KvPlan{}), HasSubstr("does not fit"));
}

}  // namespace
}  // namespace vllm
