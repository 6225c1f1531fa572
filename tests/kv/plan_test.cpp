// The plan: who decides, how large the pool is, what is refused and with which words.

#include "kv/plan.h"
#include "formats/json.h"

#include <cmath>
#include <limits>

#include "base/units.h"
#include "support/models.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::mixed_model;

Options options_of(int block_size = 16) {
  Options options;
  options.kv.block_size = block_size;
  return options;
}

MemoryFacts cpu(int64_t total_bytes, int64_t free_bytes) {
  MemoryFacts facts;
  facts.total_bytes = total_bytes;
  facts.free_bytes = free_bytes;
  return facts;
}

MemoryFacts gpu(int64_t total_bytes, int64_t free_bytes) {
  MemoryFacts facts = cpu(total_bytes, free_bytes);
  facts.device = "cuda";
  return facts;
}

MemoryFacts integrated(int64_t total_bytes, int64_t free_bytes) {
  MemoryFacts facts = cpu(total_bytes, free_bytes);
  facts.device = "integrated";
  facts.shared_with_host = true;
  return facts;
}

KvPlan plan_of(const ModelConfig& model, const Options& options, const MemoryFacts& facts) {
  const PlanResult result = make_kv_plan(model, options, facts);
  EXPECT_TRUE(result.status.is_ok()) << result.status.message();
  EXPECT_TRUE(result.plan.fits);
  return result.plan;
}

std::string refusal_of(const ModelConfig& model, const Options& options, const MemoryFacts& facts) {
  const PlanResult result = make_kv_plan(model, options, facts);
  EXPECT_FALSE(result.status.is_ok());
  EXPECT_FALSE(result.plan.fits);
  EXPECT_EQ(exit_code(result.status), 2);
  EXPECT_EQ(result.status.message().find('\n'), std::string::npos);
  return result.status.message();
}

const MemoryFacts kLargeCpu = cpu(64 * kGiB, 60 * kGiB);

// --- sizes

TEST(KvPlan, TheWorkedCase) {
  Options options = options_of(32);
  options.kv.kv_cache_memory_bytes = kGiB;
  const KvPlan plan = plan_of(testing::qwen3_1_7b(), options, kLargeCpu);
  EXPECT_EQ(plan.blocks, 292);
  EXPECT_EQ(plan.usable_blocks, 291);
  EXPECT_EQ(plan.tokens, 9312);
  EXPECT_EQ(plan.pool_bytes, 292 * 7 * kMiB / 2);
  EXPECT_LE(plan.pool_bytes, kGiB);
  EXPECT_EQ(plan.longest_sequence, 9312);
  EXPECT_EQ(plan.max_model_len, 9312);
  EXPECT_EQ(plan.concurrency_at_max_model_len, 1.0);
  EXPECT_EQ(plan.decided_by, "kv-cache-memory");
}

TEST(KvPlan, ABlockCountIsTakenExactly) {
  Options options = options_of(32);
  options.kv.num_blocks = 64;
  options.model.max_model_len = 1024;
  const KvPlan plan = plan_of(testing::qwen3_1_7b(), options, kLargeCpu);
  EXPECT_EQ(plan.blocks, 64);
  EXPECT_EQ(plan.usable_blocks, 63);
  EXPECT_EQ(plan.pool_bytes, 224 * kMiB);
  EXPECT_EQ(plan.tokens, 2016);
  EXPECT_EQ(plan.blocks_at_max_model_len, 32);
  EXPECT_DOUBLE_EQ(plan.concurrency_at_max_model_len, 63.0 / 32.0);
}

// --- precedence

TEST(KvPlan, TheStrongerKnobDecidesAndTheOthersAreNamed) {
  Options options = options_of();
  options.model.max_model_len = 1024;
  options.kv.gpu_memory_utilization = 0.5;
  EXPECT_EQ(plan_of(testing::qwen3_1_7b(), options, kLargeCpu).decided_by, "gpu-memory-utilization");
  options.kv.kv_cache_memory_bytes = kGiB;
  const KvPlan by_bytes = plan_of(testing::qwen3_1_7b(), options, kLargeCpu);
  EXPECT_EQ(by_bytes.decided_by, "kv-cache-memory");
  EXPECT_THAT(by_bytes.overridden, ElementsAre("gpu-memory-utilization"));
  options.kv.num_blocks = 200;
  const KvPlan by_count = plan_of(testing::qwen3_1_7b(), options, kLargeCpu);
  EXPECT_EQ(by_count.decided_by, "num-blocks");
  EXPECT_THAT(by_count.overridden, ElementsAre("kv-cache-memory", "gpu-memory-utilization"));
  EXPECT_EQ(by_count.blocks, 200);
  ASSERT_EQ(by_count.notes.size(), 2U);
  EXPECT_THAT(by_count.notes[0], HasSubstr("--kv-cache-memory is set, but --num-blocks is stronger"));
}

TEST(KvPlan, APinnedPoolDoesNotMoveWithAnythingElse) {
  Options options = options_of();
  options.kv.kv_cache_memory_bytes = kGiB;
  options.model.max_model_len = 1024;
  const int64_t blocks = plan_of(testing::qwen3_1_7b(), options, kLargeCpu).blocks;
  options.scheduler.max_num_seqs = 1;
  options.scheduler.max_num_batched_tokens = 64;
  options.model.max_model_len = 16;
  EXPECT_EQ(plan_of(testing::qwen3_1_7b(), options, kLargeCpu).blocks, blocks);
}

// --- default

TEST(KvPlan, TheDefaultOnACpuIsAGibibyteAtMost) {
  const KvPlan plan = plan_of(testing::qwen3_1_7b(), options_of(), kLargeCpu);
  EXPECT_EQ(plan.decided_by, "default");
  EXPECT_EQ(plan.blocks, kGiB / (7 * kMiB / 4));
}

TEST(KvPlan, TheDefaultOnASmallCpuIsAQuarterOfWhatIsAvailable) {
  const KvPlan plan = plan_of(testing::qwen3_1_7b(), options_of(), cpu(4 * kGiB, 2 * kGiB));
  EXPECT_EQ(plan.blocks, (kGiB / 2) / (7 * kMiB / 4));
}

TEST(KvPlan, TheDefaultOnACpuShrinksToWhatTheRestLeaves) {
  MemoryFacts facts = cpu(4 * kGiB, 4 * kGiB);
  facts.weights_bytes = 3 * kGiB;
  facts.workspace_bytes = 512 * kMiB;
  const KvPlan plan = plan_of(testing::qwen3_1_7b(), options_of(), facts);
  EXPECT_EQ(plan.pool_bytes, 384 * kMiB / (7 * kMiB / 4) * (7 * kMiB / 4));
  facts.weights_bytes = 4 * kGiB;
  EXPECT_THAT(refusal_of(testing::qwen3_1_7b(), options_of(), facts),
              HasSubstr("nothing is left for the KV pool"));
}

TEST(KvPlan, TheDefaultStopsAtWhatCanBeUsed) {
  Options options = options_of();
  options.model.max_model_len = 100;
  options.scheduler.max_num_seqs = 3;
  const KvPlan plan = plan_of(testing::qwen3_1_7b(), options, kLargeCpu);
  // The cap counts usable blocks: 3 sequences of 7 blocks, and the null block beside them.
  EXPECT_EQ(plan.usable_blocks, 3 * 7);
  EXPECT_EQ(plan.blocks, 22);
  EXPECT_EQ(plan.concurrency_at_max_model_len, 3.0);
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_THAT(plan.notes[0], HasSubstr("21 blocks"));
}

TEST(KvPlan, TheDefaultOnAGpuIsNineTenthsOfTheDevice) {
  MemoryFacts facts = gpu(80 * kGiB, 79 * kGiB);
  facts.weights_bytes = 15 * kGiB;
  facts.workspace_bytes = 2 * kGiB;
  facts.graph_bytes = kGiB;
  facts.process_bytes = kGiB / 2;
  const KvPlan plan = plan_of(testing::llama_3_1_8b(), options_of(), facts);
  const int64_t budget = 72 * kGiB - 18 * kGiB - kGiB / 2 - 256 * kMiB;
  EXPECT_EQ(plan.blocks, budget / (2 * kMiB));
  EXPECT_EQ(plan.reserve_bytes, 256 * kMiB);
}

TEST(KvPlan, TheDefaultOnAnIntegratedDeviceIsHalfOfWhatIsAvailable) {
  const KvPlan plan = plan_of(testing::llama_3_1_8b(), options_of(), integrated(128 * kGiB, 60 * kGiB));
  EXPECT_EQ(plan.device, "integrated");
  const int64_t reserve = 128 * kGiB / 10;  // more than 4 GiB
  EXPECT_EQ(plan.reserve_bytes, reserve);
  EXPECT_EQ(plan.blocks, (30 * kGiB - reserve) / (2 * kMiB));
}

// --- utilisation

TEST(KvPlan, UtilisationCountsEverythingThisProcessTakes) {
  Options options = options_of();
  options.kv.gpu_memory_utilization = 0.5;
  options.model.max_model_len = 4096;
  MemoryFacts facts = gpu(100 * kGiB, 60 * kGiB);
  facts.weights_bytes = 16 * kGiB;
  facts.process_bytes = kGiB;
  facts.workspace_bytes = 2 * kGiB;
  facts.graph_bytes = kGiB;
  facts.measured = true;
  const KvPlan plan = plan_of(testing::llama_3_1_8b(), options, facts);
  EXPECT_EQ(plan.blocks, (30 * kGiB - 256 * kMiB) / (2 * kMiB));
  EXPECT_TRUE(plan.measured);
  EXPECT_EQ(plan.free_bytes, 60 * kGiB);
  EXPECT_EQ(plan.total_bytes, 100 * kGiB);
  EXPECT_EQ(plan.workspace_bytes, 2 * kGiB);
}

TEST(KvPlan, UtilisationRefusesWhatOthersHold) {
  Options options = options_of();
  options.kv.gpu_memory_utilization = 0.9;
  const std::string message = refusal_of(testing::llama_3_1_8b(), options, gpu(80 * kGiB, 50 * kGiB));
  EXPECT_THAT(message, HasSubstr("--gpu-memory-utilization 0.9"));
  EXPECT_THAT(message, HasSubstr("50.00 GiB are free"));
  EXPECT_THAT(message, HasSubstr("others hold 30.00 GiB"));
  EXPECT_THAT(message, HasSubstr("give --gpu-memory-utilization 0.62 or less"));
  options.kv.gpu_memory_utilization = 0.62;
  plan_of(testing::llama_3_1_8b(), options, gpu(80 * kGiB, 50 * kGiB));
}

TEST(KvPlan, UtilisationThatLeavesNothingNamesTheParts) {
  Options options = options_of();
  options.kv.gpu_memory_utilization = 0.2;
  MemoryFacts facts = gpu(80 * kGiB, 80 * kGiB);
  facts.weights_bytes = 15 * kGiB;
  facts.workspace_bytes = 2 * kGiB;
  facts.graph_bytes = kGiB;
  facts.process_bytes = kGiB;
  const std::string message = refusal_of(testing::llama_3_1_8b(), options, facts);
  for (const char* part : {"weights 15.00 GiB", "workspace 2.00 GiB", "graphs 1.00 GiB", "other use 1.00 GiB",
                           "reserve 256.0 MiB", "--max-num-batched-tokens"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(KvPlan, UtilisationLeavingLessThanTwoBlocks) {
  Options options = options_of();
  options.kv.gpu_memory_utilization = 1.0;
  MemoryFacts facts = cpu(kGiB, kGiB);
  facts.weights_bytes = kGiB - 128 * kMiB - 3 * kMiB;
  EXPECT_THAT(refusal_of(testing::llama_3_1_8b(), options, facts), HasSubstr("two blocks of 2.0 MiB"));
}

TEST(KvPlan, UtilisationBeyondAnyUseIsSaid) {
  Options options = options_of();
  options.kv.gpu_memory_utilization = 0.5;
  options.model.max_model_len = 16;
  options.scheduler.max_num_seqs = 2;
  const KvPlan plan = plan_of(testing::qwen3_1_7b(), options, kLargeCpu);
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_THAT(plan.notes[0], HasSubstr("2 sequences of 16 tokens hold at most 2 blocks"));
}

// --- absolute sizes

TEST(KvPlan, ABudgetLargerThanMemoryIsRefusedWithWhatWouldFit) {
  Options options = options_of();
  options.model.max_model_len = 1024;
  options.kv.kv_cache_memory_bytes = 100 * kGiB;
  MemoryFacts facts = cpu(24 * kGiB, 20 * kGiB);
  facts.weights_bytes = 3 * kGiB;
  facts.workspace_bytes = kGiB;
  const std::string message = refusal_of(testing::qwen3_1_7b(), options, facts);
  EXPECT_THAT(message, HasSubstr("--kv-cache-memory 107374182400"));
  EXPECT_THAT(message, HasSubstr("20.00 GiB are free of 24.00 GiB on cpu"));
  const int64_t most = 16 * kGiB - 128 * kMiB;
  EXPECT_THAT(message, HasSubstr(fmt::format("accepted is --kv-cache-memory {} or less", most)));
  options.kv.kv_cache_memory_bytes = most;
  plan_of(testing::qwen3_1_7b(), options, facts);

  options.kv.kv_cache_memory_bytes.reset();
  options.kv.num_blocks = 1'000'000;
  const int64_t most_blocks = most / (7 * kMiB / 4);
  EXPECT_THAT(refusal_of(testing::qwen3_1_7b(), options, facts),
              HasSubstr(fmt::format("accepted is --num-blocks {} or less", most_blocks)));
  options.kv.num_blocks = most_blocks;
  plan_of(testing::qwen3_1_7b(), options, facts);
  options.kv.num_blocks = most_blocks + 1;
  refusal_of(testing::qwen3_1_7b(), options, facts);
}

TEST(KvPlan, NothingFitsBesideTheWeights) {
  Options options = options_of();
  options.kv.num_blocks = 64;
  options.model.max_model_len = 64;
  MemoryFacts facts = cpu(4 * kGiB, 4 * kGiB);
  facts.weights_bytes = 5 * kGiB;
  EXPECT_THAT(refusal_of(testing::qwen3_1_7b(), options, facts), HasSubstr("not even two blocks fit"));
}

TEST(KvPlan, TooFewBlocks) {
  Options options = options_of();
  options.kv.num_blocks = 1;
  EXPECT_THAT(refusal_of(testing::qwen3_1_7b(), options, kLargeCpu), HasSubstr("the null block"));
  options.kv.num_blocks.reset();
  options.kv.kv_cache_memory_bytes = 2 * kMiB;
  const std::string message = refusal_of(testing::qwen3_1_7b(), options, kLargeCpu);
  EXPECT_THAT(message, HasSubstr("holds 1 blocks"));
  EXPECT_THAT(message, HasSubstr("accepted is 3.5 MiB (3670016 bytes) or more"));
  options.kv.kv_cache_memory_bytes = 3670016;
  options.model.max_model_len = 16;
  EXPECT_EQ(plan_of(testing::qwen3_1_7b(), options, kLargeCpu).usable_blocks, 1);
}

TEST(KvPlan, WithAnAbsoluteSizeNothingOfTheMachineShows) {
  for (const bool by_blocks : {true, false}) {
    Options options = options_of();
    options.model.max_model_len = 512;
    if (by_blocks) {
      options.kv.num_blocks = 64;
    } else {
      options.kv.kv_cache_memory_bytes = 256 * kMiB;
    }
    MemoryFacts a = cpu(64 * kGiB, 60 * kGiB), b = cpu(32 * kGiB, 9 * kGiB);
    a.weights_bytes = b.weights_bytes = kGiB;
    a.workspace_bytes = 100 * kMiB;
    b.workspace_bytes = 90 * kMiB;
    b.process_bytes = kMiB;
    b.measured = true;
    const KvPlan first = plan_of(testing::qwen3_1_7b(), options, a);
    const KvPlan second = plan_of(testing::qwen3_1_7b(), options, b);
    EXPECT_EQ(kv_plan_text(first), kv_plan_text(second));
    EXPECT_EQ(json_text(kv_plan_json(first)), json_text(kv_plan_json(second)));
    const Json json = kv_plan_json(first);
    for (const char* key : {"free_bytes", "total_bytes", "workspace_bytes", "graph_bytes", "process_bytes"}) {
      EXPECT_TRUE(json[key].is_null()) << key;
    }
    EXPECT_EQ(json["measured"], false);
    EXPECT_EQ(json["reserve_bytes"], 128 * kMiB);
    // The check itself still runs.
    refusal_of(testing::qwen3_1_7b(), options, cpu(kGiB, 200 * kMiB));
  }
}

TEST(KvPlan, AutoLengthDoesNotDependOnFreeMemoryWithAnAbsoluteSize) {
  Options options = options_of(32);
  options.kv.kv_cache_memory_bytes = kGiB;
  const KvPlan a = plan_of(testing::qwen3_1_7b(), options, kLargeCpu);
  const KvPlan b = plan_of(testing::qwen3_1_7b(), options, cpu(8 * kGiB, 2 * kGiB));
  EXPECT_EQ(kv_plan_text(a), kv_plan_text(b));
  EXPECT_EQ(a.max_model_len, 9312);
}

TEST(KvPlan, TheReserveOfAnIntegratedDeviceThatIsHereIsNotShownWithAnAbsoluteSize) {
  Options options = options_of();
  options.kv.num_blocks = 64;
  options.model.max_model_len = 512;
  const KvPlan here = plan_of(testing::qwen3_1_7b(), options, integrated(128 * kGiB, 100 * kGiB));
  EXPECT_FALSE(here.reserve_bytes.has_value());
  options.kv.device_memory = DeviceMemoryOption{128 * kGiB, true};
  const KvPlan elsewhere =
      plan_of(testing::qwen3_1_7b(), options, hypothetical_memory_facts(*options.kv.device_memory));
  EXPECT_EQ(elsewhere.reserve_bytes, 128 * kGiB / 10);
}

// --- lengths

TEST(KvPlan, AutoLengthIsReducedInOneLine) {
  Options options = options_of();
  options.kv.num_blocks = 101;
  const KvPlan plan = plan_of(testing::llama_3_1_8b(), options, kLargeCpu);
  EXPECT_EQ(plan.max_model_len, 1600);
  EXPECT_EQ(plan.longest_sequence, 1600);
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_EQ(plan.notes[0],
            "max_model_len is reduced from the model's 131072 to 1600, the longest sequence that 100 usable "
            "blocks hold");
}

TEST(KvPlan, AutoLengthThatFitsIsTheModelsOwn) {
  Options options = options_of();
  options.kv.num_blocks = 9000;
  const KvPlan plan = plan_of(testing::llama_3_1_8b(), options, kLargeCpu);
  EXPECT_EQ(plan.max_model_len, 131072);
  EXPECT_EQ(plan.longest_sequence, 131072);
  EXPECT_TRUE(plan.notes.empty());
}

TEST(KvPlan, APinnedLengthThatDoesNotFitNamesTheLongestThatDoes) {
  Options options = options_of();
  options.kv.num_blocks = 101;
  options.model.max_model_len = 1601;
  const PlanResult result = make_kv_plan(testing::llama_3_1_8b(), options, kLargeCpu);
  EXPECT_EQ(result.plan.longest_sequence, 1600);
  const std::string message = refusal_of(testing::llama_3_1_8b(), options, kLargeCpu);
  EXPECT_THAT(message, HasSubstr("--max-model-len 1601"));
  EXPECT_THAT(message, HasSubstr("101 blocks"));
  EXPECT_THAT(message, HasSubstr("accepted is --max-model-len 1600 or less, or auto; or raise --num-blocks"));
  options.model.max_model_len = 1600;
  plan_of(testing::llama_3_1_8b(), options, kLargeCpu);
}

TEST(KvPlan, ALengthBeyondTheModelsIsRefused) {
  Options options = options_of();
  options.model.max_model_len = 131073;
  EXPECT_THAT(refusal_of(testing::llama_3_1_8b(), options, kLargeCpu), HasSubstr("positions for 131072"));
}

TEST(KvPlan, ThreeNumbersOfAHybridAgree) {
  // Full and sliding layers take blocks of one pool, so tokens are not blocks times block size.
  Options options = options_of();
  options.kv.num_blocks = 10'001;
  options.model.max_model_len = 32'768;
  const KvPlan plan = plan_of(testing::gemma3_27b(), options, cpu(640 * kGiB, 640 * kGiB));
  const int64_t sliding = (1024 - 1 + 2048 + 15) / 16 + 1;  // blocks of each sliding group
  EXPECT_EQ(plan.blocks_at_max_model_len, 2048 + 6 * sliding);
  EXPECT_EQ(plan.spec.groups.size(), 7U);
  EXPECT_DOUBLE_EQ(plan.concurrency_at_max_model_len,
                   10'000.0 / static_cast<double>(plan.blocks_at_max_model_len));
  EXPECT_EQ(plan.tokens, int64_t{10'000} * 32'768 / plan.blocks_at_max_model_len);
  EXPECT_EQ(plan.pool_bytes, 10'001 * plan.spec.bytes_per_block);
  // The longest sequence is exact: one token more needs a block too many.
  EXPECT_LE(max_blocks_per_sequence(plan.spec, plan.longest_sequence, 2048), 10'000);
  if (plan.longest_sequence < 131'072) {
    EXPECT_GT(max_blocks_per_sequence(plan.spec, plan.longest_sequence + 1, 2048), 10'000);
  }
}

// --- recurrent state

TEST(KvPlan, RecurrentStateIsInsideTheBudget) {
  const ModelConfig model = mixed_model({LayerKind::kRecurrent, LayerKind::kFull, LayerKind::kRecurrent});
  Options options = options_of();
  options.scheduler.max_num_seqs = 10;
  options.model.max_model_len = 64;
  options.kv.kv_cache_memory_bytes = 200'000;
  const KvPlan plan = plan_of(model, options, kLargeCpu);
  EXPECT_EQ(plan.recurrent_bytes, 10 * 2001);
  EXPECT_EQ(plan.spec.bytes_per_block, 16 * 4 * 64 * 2);
  EXPECT_EQ(plan.blocks, (200'000 - 20'010) / 8192);
  EXPECT_EQ(plan.pool_bytes, plan.blocks * 8192 + 20'010);
  EXPECT_LE(plan.concurrency_at_max_model_len, 10.0);
  options.kv.kv_cache_memory_bytes = 30'000;
  const std::string message = refusal_of(model, options, kLargeCpu);
  EXPECT_THAT(message, HasSubstr("recurrent state for 10 sequences"));
  EXPECT_THAT(message, HasSubstr(fmt::format("{} bytes", 20'010 + 2 * 8192)));
}

TEST(KvPlan, SequenceSlotsLimitConcurrencyToo) {
  const ModelConfig model = mixed_model({LayerKind::kRecurrent, LayerKind::kFull});
  Options options = options_of();
  options.scheduler.max_num_seqs = 3;
  options.model.max_model_len = 16;
  options.kv.num_blocks = 100;
  EXPECT_EQ(plan_of(model, options, kLargeCpu).concurrency_at_max_model_len, 3.0);
}

TEST(KvPlan, AModelWithoutBlocks) {
  const ModelConfig model = mixed_model({LayerKind::kRecurrent, LayerKind::kRecurrent});
  Options options = options_of();
  options.scheduler.max_num_seqs = 4;
  const KvPlan plan = plan_of(model, options, kLargeCpu);
  EXPECT_EQ(plan.pool_bytes, 4 * 2001);
  EXPECT_EQ(plan.concurrency_at_max_model_len, 4.0);
  EXPECT_EQ(plan.max_model_len, 2048);
  options.kv.kv_cache_memory_bytes = 100;
  refusal_of(model, options, kLargeCpu);
}

// --- a device that is not here

TEST(KvPlan, AnswersForAMachineThatOneDoesNotOwn) {
  Options options = options_of();
  options.kv.device_memory = DeviceMemoryOption{80 * kGiB, false};
  options.parallel.tensor_parallel_size = 4;
  const ModelConfig model = testing::llama_3_1_8b();
  MemoryFacts facts = hypothetical_memory_facts(*options.kv.device_memory);
  facts.weights_bytes = 4 * kGiB;
  facts.workspace_bytes = estimate_gpu_workspace_bytes(model, options);
  facts.graph_bytes = estimate_gpu_graph_bytes(model, options);
  const KvPlan plan = plan_of(model, options, facts);
  EXPECT_EQ(plan.device, "cuda");
  EXPECT_EQ(plan.spec.bytes_per_block, kMiB / 2);
  EXPECT_EQ(plan.max_model_len, 131072);
  EXPECT_FALSE(plan.measured);
  EXPECT_GT(*plan.workspace_bytes, 256 * kMiB);
  EXPECT_LT(*plan.workspace_bytes, 4 * kGiB);
  EXPECT_GT(*plan.graph_bytes, 0);
  EXPECT_THAT(plan.notes.at(0), HasSubstr("not here, with 80.00 GiB"));
  options.runtime.enforce_eager = true;
  EXPECT_EQ(estimate_gpu_graph_bytes(model, options), 0);
  EXPECT_EQ(hypothetical_memory_facts({kGiB, true}).device, "integrated");
  EXPECT_TRUE(hypothetical_memory_facts({kGiB, true}).shared_with_host);
}

TEST(KvPlan, EstimatesGrowWithTheStepAndShrinkWithTheRanks) {
  const ModelConfig model = testing::llama_3_1_8b();
  Options options = options_of();
  const int64_t base = estimate_gpu_workspace_bytes(model, options);
  options.scheduler.max_num_batched_tokens *= 2;
  EXPECT_GT(estimate_gpu_workspace_bytes(model, options), base);
  options = options_of();
  options.scheduler.max_num_seqs *= 2;
  EXPECT_GT(estimate_gpu_workspace_bytes(model, options), base);
  EXPECT_GT(estimate_gpu_graph_bytes(model, options), estimate_gpu_graph_bytes(model, options_of()));
  options = options_of();
  options.parallel.tensor_parallel_size = 4;
  EXPECT_LT(estimate_gpu_workspace_bytes(model, options), base);
}

TEST(KvPlan, Float32KvIsForTheCpu) {
  Options options = options_of();
  options.model.max_model_len = 128;
  options.kv.kv_cache_dtype = KvCacheDType::kFloat32;
  EXPECT_THAT(refusal_of(testing::llama_3_1_8b(), options, gpu(80 * kGiB, 80 * kGiB)),
              HasSubstr("--kv-cache-dtype float32 is for the CPU"));
  plan_of(testing::llama_3_1_8b(), options, kLargeCpu);
}

// --- what only an embedding program can pass

TEST(KvPlan, ValuesThatParsingWouldHaveRefused) {
  const auto message = [](auto change) {
    Options options = options_of();
    change(options);
    return refusal_of(testing::qwen3_1_7b(), options, kLargeCpu);
  };
  EXPECT_THAT(message([](Options& o) { o.kv.num_blocks = 0; }), HasSubstr("--num-blocks 0"));
  EXPECT_THAT(message([](Options& o) { o.kv.num_blocks = int64_t{1} << 40; }),
              HasSubstr("--num-blocks 1099511627776"));
  EXPECT_THAT(message([](Options& o) { o.kv.kv_cache_memory_bytes = -1; }),
              HasSubstr("--kv-cache-memory -1"));
  EXPECT_THAT(message([](Options& o) { o.kv.gpu_memory_utilization = 1.5; }),
              HasSubstr("--gpu-memory-utilization 1.5"));
  EXPECT_THAT(message([](Options& o) { o.kv.gpu_memory_utilization = std::nan(""); }), HasSubstr("nan"));
  EXPECT_THAT(message([](Options& o) { o.model.max_model_len = 0; }), HasSubstr("--max-model-len 0"));
  EXPECT_THAT(message([](Options& o) { o.scheduler.max_num_seqs = 0; }), HasSubstr("--max-num-seqs 0"));
  EXPECT_THAT(message([](Options& o) { o.scheduler.max_num_batched_tokens = -5; }),
              HasSubstr("--max-num-batched-tokens -5"));
  EXPECT_THAT(message([](Options& o) { o.kv.block_size = 0; }), HasSubstr("--block-size 0"));
}

TEST(KvPlan, HugeNumbersDoNotOverflow) {
  Options options = options_of();
  options.kv.num_blocks = std::numeric_limits<int32_t>::max();
  options.model.max_model_len = 16;
  EXPECT_THAT(refusal_of(testing::gemma3_27b(), options, kLargeCpu), HasSubstr("does not fit"));
  options.kv.num_blocks.reset();
  options.kv.kv_cache_memory_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(refusal_of(testing::gemma3_27b(), options, kLargeCpu), HasSubstr("does not fit"));
  options.kv.kv_cache_memory_bytes.reset();
  MemoryFacts facts = kLargeCpu;
  facts.weights_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(refusal_of(testing::gemma3_27b(), options, facts), HasSubstr("nothing is left"));
  ModelConfig model = mixed_model({LayerKind::kRecurrent});
  model.layers[0].state_bytes_per_sequence = std::numeric_limits<int64_t>::max() / 4;
  refusal_of(model, options, kLargeCpu);
}

// --- requests

TEST(KvPlan, RequestsThatCanNeverFit) {
  Options options = options_of();
  options.kv.num_blocks = 11;
  options.model.max_model_len = 160;
  const KvPlan plan = plan_of(testing::llama_3_1_8b(), options, kLargeCpu);
  const auto check = [&](int64_t prompt, int64_t max_tokens) {
    return check_request_fits(plan, prompt, max_tokens, 2048);
  };
  EXPECT_TRUE(check(1, 1).is_ok());
  EXPECT_TRUE(check(159, 1).is_ok());
  EXPECT_TRUE(check(100, 60).is_ok());
  for (const auto& [prompt, max_tokens] : {std::pair<int64_t, int64_t>{160, 1},
                                           {101, 60},
                                           {0, 5},
                                           {5, 0},
                                           {5, std::numeric_limits<int64_t>::max()}}) {
    const Status status = check(prompt, max_tokens);
    EXPECT_EQ(status.code(), StatusCode::kRefused) << prompt << " " << max_tokens;
  }
  EXPECT_THAT(check(160, 1).message(), HasSubstr("160 tokens, but max_model_len is 160"));
  EXPECT_THAT(check(101, 60).message(),
              HasSubstr("101 tokens and 60 to generate are 161, but max_model_len is 160"));
}

TEST(KvPlan, TheLastTokenOfARequestNeedsNoBlock) {
  // A pool of 10 usable blocks behind a longer max_model_len, as an embedding program could make it.
  Options options = options_of();
  options.kv.num_blocks = 11;
  options.model.max_model_len = 160;
  KvPlan plan = plan_of(testing::llama_3_1_8b(), options, kLargeCpu);
  plan.max_model_len = 1000;
  EXPECT_TRUE(check_request_fits(plan, 100, 61, 2048).is_ok());
  const Status status = check_request_fits(plan, 100, 62, 2048);
  EXPECT_THAT(status.message(), HasSubstr("need 11 blocks, but the KV pool has 10 usable ones"));
}

TEST(KvPlan, RequestsOfAHybridCountEachGroup) {
  Options options = options_of();
  options.scheduler.max_num_batched_tokens = 64;
  options.model.max_model_len = 2048;
  options.kv.num_blocks = 1 + 128 + 2 * 9;
  const KvPlan plan =
      plan_of(mixed_model({LayerKind::kFull, LayerKind::kSliding, LayerKind::kSliding}), options, kLargeCpu);
  EXPECT_EQ(plan.blocks_at_max_model_len, 128 + 2 * 9);
  EXPECT_TRUE(check_request_fits(plan, 2000, 48, 64).is_ok());
  EXPECT_TRUE(check_request_fits(plan, 10, 6, 64).is_ok());
}

}  // namespace
}  // namespace vllm
