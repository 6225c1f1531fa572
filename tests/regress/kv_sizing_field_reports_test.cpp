// Public reports about KV sizing in other systems, each as what must happen here instead. The name of a test
// says the report's subject.

#include "base/units.h"
#include "kv/plan.h"
#include "support/models.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

MemoryFacts gpu(int64_t total_bytes, int64_t free_bytes) {
  MemoryFacts facts;
  facts.device = "cuda";
  facts.total_bytes = total_bytes;
  facts.free_bytes = free_bytes;
  return facts;
}

// A pool that filled the device although max_num_seqs x max_model_len needed a sliver of it.
TEST(KvSizingFieldReports, ThePoolIsCappedAtThePossibleLoad) {
  Options options;
  options.scheduler.max_num_seqs = 4;
  options.model.max_model_len = 1024;
  const KvPlan plan = make_kv_plan(testing::llama_3_1_8b(), options, gpu(141 * kGiB, 140 * kGiB)).plan;
  EXPECT_EQ(plan.usable_blocks, 4 * 64);
  EXPECT_TRUE(plan.fits);
}

// Memory of other processes was subtracted from this engine's allowance, which gave a negative number of
// blocks.
TEST(KvSizingFieldReports, NeighboursMakeARefusalNotANegativePool) {
  Options options;
  options.kv.gpu_memory_utilization = 0.3;
  const PlanResult crowded = make_kv_plan(testing::qwen3_1_7b(), options, gpu(80 * kGiB, 10 * kGiB));
  EXPECT_EQ(crowded.status.code(), StatusCode::kRefused);
  EXPECT_GE(crowded.plan.blocks, 0);
  // 24 GiB are asked for and 30 are free: what others hold does not shrink the pool.
  MemoryFacts shared = gpu(80 * kGiB, 30 * kGiB), alone = gpu(80 * kGiB, 80 * kGiB);
  shared.weights_bytes = alone.weights_bytes = 4 * kGiB;
  EXPECT_EQ(make_kv_plan(testing::qwen3_1_7b(), options, shared).plan.blocks,
            make_kv_plan(testing::qwen3_1_7b(), options, alone).plan.blocks);
}

// "No available memory for the cache blocks" without a word about what took it.
TEST(KvSizingFieldReports, AnErrorListsWeightsWorkspaceGraphsAndReserve) {
  Options options;
  MemoryFacts facts = gpu(80 * kGiB, 80 * kGiB);
  facts.weights_bytes = 71 * kGiB;
  facts.workspace_bytes = 2 * kGiB;
  facts.graph_bytes = kGiB;
  const PlanResult result = make_kv_plan(testing::llama_3_1_8b(), options, facts);
  for (const char* part :
       {"weights 71.00 GiB", "workspace 2.00 GiB", "graphs 1.00 GiB", "reserve 256.0 MiB"}) {
    EXPECT_THAT(result.status.message(), HasSubstr(part));
  }
}

// Whether a length fits was not monotonic, because profiling depended on it.
TEST(KvSizingFieldReports, TheLengthDoesNotChangeThePoolOfAGivenBudget) {
  Options options;
  options.kv.gpu_memory_utilization = 0.5;
  int64_t blocks = 0;
  for (const int64_t length : {64, 4096, 131072}) {
    options.model.max_model_len = length;
    const KvPlan plan = make_kv_plan(testing::llama_3_1_8b(), options, gpu(80 * kGiB, 80 * kGiB)).plan;
    if (blocks == 0) blocks = plan.blocks;
    EXPECT_EQ(plan.blocks, blocks);
  }
}

// A block count that overrode the rest was ignored by the check against free memory.
TEST(KvSizingFieldReports, ABlockCountIsCheckedAgainstFreeMemory) {
  Options options;
  options.kv.num_blocks = 100'000;  // 195 GiB
  options.model.max_model_len = 1024;
  EXPECT_EQ(make_kv_plan(testing::llama_3_1_8b(), options, gpu(80 * kGiB, 80 * kGiB)).status.code(),
            StatusCode::kRefused);
}

// Too few blocks for a single sequence made requests hang for ever.
TEST(KvSizingFieldReports, APoolTooSmallForOneSequenceIsRefusedAtStart) {
  Options options;
  options.kv.num_blocks = 10;
  options.model.max_model_len = 1024;
  const PlanResult result = make_kv_plan(testing::llama_3_1_8b(), options, gpu(80 * kGiB, 80 * kGiB));
  EXPECT_EQ(result.status.code(), StatusCode::kRefused);
  EXPECT_THAT(result.status.message(), HasSubstr("--max-model-len 144 or less"));
}

// A request longer than the pool, but shorter than max_model_len, deadlocked the scheduler: no such request
// exists.
TEST(KvSizingFieldReports, MaxModelLenNeverExceedsWhatThePoolHolds) {
  Options options;
  for (const int64_t blocks : {2, 10, 100, 1000}) {
    options.kv.num_blocks = blocks;
    const KvPlan plan = make_kv_plan(testing::llama_3_1_8b(), options, gpu(80 * kGiB, 80 * kGiB)).plan;
    EXPECT_LE(plan.max_model_len, plan.longest_sequence);
    EXPECT_TRUE(check_request_fits(plan, plan.max_model_len - 1, 1, 2048).is_ok());
    EXPECT_FALSE(check_request_fits(plan, plan.max_model_len, 1, 2048).is_ok());
  }
}

// Tokens of a hybrid model were given as blocks x block size, three numbers for three things under one name.
TEST(KvSizingFieldReports, TokensOfAHybridAreThoseOfSequencesThatItHolds) {
  Options options;
  options.model.max_model_len = 8192;
  options.kv.num_blocks = 20'001;
  const KvPlan plan = make_kv_plan(testing::gemma3_27b(), options, gpu(640 * kGiB, 640 * kGiB)).plan;
  EXPECT_LT(plan.tokens, plan.usable_blocks * plan.spec.block_size);
  EXPECT_NEAR(static_cast<double>(plan.tokens), plan.concurrency_at_max_model_len * 8192.0, 1.0);
}

// A calculator's bytes, tokens and bytes per token did not agree with each other.
TEST(KvSizingFieldReports, BytesBlocksAndTokensAgree) {
  Options options;
  options.kv.kv_cache_memory_bytes = 10 * kGiB;
  options.model.max_model_len = 4096;
  const KvPlan plan = make_kv_plan(testing::llama_3_1_8b(), options, gpu(80 * kGiB, 80 * kGiB)).plan;
  EXPECT_EQ(plan.pool_bytes, plan.blocks * plan.spec.bytes_per_block);
  EXPECT_EQ(plan.tokens, plan.usable_blocks * plan.spec.block_size);
  EXPECT_EQ(plan.spec.bytes_per_block, 16 * 2 * 32 * 8 * 128 * 2);
}

// On unified memory a fraction of the total took what the neighbours lived on.
TEST(KvSizingFieldReports, AnIntegratedDeviceKeepsAReserveForItsNeighbours) {
  MemoryFacts facts = gpu(122 * kGiB, 38 * kGiB);
  facts.device = "integrated";
  facts.shared_with_host = true;
  Options options;
  options.kv.gpu_memory_utilization = 0.7;
  EXPECT_EQ(make_kv_plan(testing::qwen3_1_7b(), options, facts).status.code(), StatusCode::kRefused);
  options.kv.gpu_memory_utilization.reset();
  const KvPlan plan = make_kv_plan(testing::qwen3_1_7b(), options, facts).plan;
  EXPECT_LE(plan.pool_bytes, 19 * kGiB - 122 * kGiB / 10);
  EXPECT_GT(plan.blocks, 1);
}

}  // namespace
}  // namespace vllm
