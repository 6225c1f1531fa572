// What holds for every plan, on random models, options and machines from fixed seeds.

#include <algorithm>

#include "base/random.h"
#include "base/units.h"
#include "formats/json.h"
#include "kv/plan.h"
#include "support/models.h"

namespace vllm {
namespace {

using testing::mixed_model;

ModelConfig random_model(Random& random) {
  std::vector<LayerKind> kinds;
  const int64_t layers = random.between(1, 12);
  const bool mla = random.below(4) == 0;
  for (int64_t i = 0; i < layers; ++i) {
    const uint64_t pick = random.below(5);
    kinds.push_back(pick == 0   ? LayerKind::kRecurrent
                    : pick <= 2 ? (mla ? LayerKind::kMla : LayerKind::kFull)
                                : LayerKind::kSliding);
  }
  ModelConfig model = mixed_model(kinds);
  model.num_kv_heads = int64_t{1} << random.below(4);
  model.head_dim = model.v_head_dim = 8 * random.between(1, 16);
  model.max_position_embeddings = random.between(1, 100'000);
  const int64_t window = random.between(1, 5000);
  for (LayerConfig& layer : model.layers) {
    if (layer.kind == LayerKind::kSliding) layer.sliding_window = window;
  }
  return model;
}

Options random_options(Random& random, const ModelConfig& model) {
  Options options;
  options.kv.block_size = static_cast<int>(random.between(1, 64));
  options.kv.kv_cache_dtype = static_cast<KvCacheDType>(random.below(2));
  options.parallel.tensor_parallel_size = 1 << random.below(4);
  options.scheduler.max_num_seqs = static_cast<int>(random.between(1, 300));
  options.scheduler.max_num_batched_tokens = static_cast<int>(random.between(1, 8192));
  if (random.below(2) == 0) options.model.max_model_len = random.between(1, model.max_position_embeddings);
  return options;
}

MemoryFacts random_facts(Random& random) {
  MemoryFacts facts;
  const char* devices[] = {"cpu", "cuda", "integrated"};
  facts.device = devices[random.below(3)];
  facts.shared_with_host = facts.device == "integrated";
  facts.total_bytes = random.between(64 * kMiB, 100 * kGiB);
  facts.free_bytes = random.between(0, facts.total_bytes);
  facts.weights_bytes = random.between(0, facts.total_bytes / 2);
  facts.workspace_bytes = random.between(0, kGiB);
  facts.graph_bytes = random.below(2) == 0 ? 0 : random.between(0, kGiB);
  facts.process_bytes = random.below(2) == 0 ? 0 : random.between(0, kGiB);
  facts.measured = random.below(2) == 0;
  return facts;
}

int64_t taken(const MemoryFacts& facts) {
  return facts.weights_bytes + facts.workspace_bytes + facts.graph_bytes + facts.process_bytes +
         device_reserve_bytes(facts);
}

void check_plan(const ModelConfig& model, const Options& options, const MemoryFacts& facts,
                const PlanResult& result) {
  const KvPlan& plan = result.plan;
  ASSERT_EQ(plan.fits, result.status.is_ok());
  if (!plan.fits) {
    EXPECT_EQ(exit_code(result.status), 2);
    return;
  }
  const bool blocks = has_block_groups(plan.spec);
  EXPECT_EQ(plan.usable_blocks, plan.blocks - 1);
  EXPECT_EQ(plan.pool_bytes, plan.blocks * plan.spec.bytes_per_block + plan.recurrent_bytes);
  EXPECT_LE(plan.pool_bytes + taken(facts), facts.free_bytes);
  if (options.kv.num_blocks) {
    EXPECT_EQ(plan.blocks, *options.kv.num_blocks);
  }
  if (plan.decided_by == "kv-cache-memory") {
    EXPECT_LE(plan.pool_bytes, *options.kv.kv_cache_memory_bytes);
    // One block more would be too many.
    if (blocks) {
      EXPECT_GT(plan.pool_bytes + plan.spec.bytes_per_block, *options.kv.kv_cache_memory_bytes);
    }
  }
  if (plan.decided_by == "gpu-memory-utilization") {
    const auto allowed = static_cast<double>(facts.total_bytes) * *options.kv.gpu_memory_utilization;
    EXPECT_LE(static_cast<double>(plan.pool_bytes + taken(facts)), allowed + 1.0);
  }
  if (plan.decided_by == "default" && facts.device == "cpu") {
    EXPECT_LE(plan.pool_bytes, std::min(kGiB, facts.free_bytes / 4));
  }
  EXPECT_GE(plan.max_model_len, 1);
  EXPECT_LE(plan.max_model_len, options.model.max_model_len.value_or(model.max_position_embeddings));
  if (options.model.max_model_len) {
    EXPECT_EQ(plan.max_model_len, *options.model.max_model_len);
  }
  EXPECT_LE(plan.max_model_len, plan.longest_sequence);
  EXPECT_LE(plan.longest_sequence, model.max_position_embeddings);
  const int batched = options.scheduler.max_num_batched_tokens;
  EXPECT_LE(max_blocks_per_sequence(plan.spec, plan.longest_sequence, batched), plan.usable_blocks);
  if (plan.longest_sequence < model.max_position_embeddings) {
    EXPECT_GT(max_blocks_per_sequence(plan.spec, plan.longest_sequence + 1, batched), plan.usable_blocks);
  }
  EXPECT_GE(plan.concurrency_at_max_model_len, 1.0);
  EXPECT_GE(plan.tokens, plan.max_model_len);
  // Any request within max_model_len is served.
  EXPECT_TRUE(plan.max_model_len < 2 || check_request_fits(plan, plan.max_model_len - 1, 1, batched).is_ok());
}

void random_knob(Random& random, const MemoryFacts& facts, Options& options) {
  const uint64_t pick = random.below(8);
  if (pick & 1) options.kv.num_blocks = random.between(1, 20'000);
  if (pick & 2) options.kv.kv_cache_memory_bytes = random.between(1, facts.total_bytes);
  if (pick & 4) options.kv.gpu_memory_utilization = random.uniform_positive();
}

TEST(KvPlanProperties, OfTenThousandPlans) {
  Random random(20261130);
  int fitting = 0, refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    SCOPED_TRACE(i);
    const ModelConfig model = random_model(random);
    Options options = random_options(random, model);
    const MemoryFacts facts = random_facts(random);
    random_knob(random, facts, options);
    const PlanResult result = make_kv_plan(model, options, facts);
    check_plan(model, options, facts, result);
    ++(result.plan.fits ? fitting : refused);
    // Shown without harm whatever was filled, and the same each time.
    const PlanResult again = make_kv_plan(model, options, facts);
    ASSERT_EQ(kv_plan_text(result.plan), kv_plan_text(again.plan));
    ASSERT_EQ(kv_plan_json(result.plan).dump(), kv_plan_json(again.plan).dump());
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_GT(fitting, 2000);
  EXPECT_GT(refused, 2000);
}

TEST(KvPlanProperties, AnAbsoluteSizeHidesTheMachine) {
  Random random(7);
  int compared = 0;
  for (int i = 0; i < 3000; ++i) {
    const ModelConfig model = random_model(random);
    Options options = random_options(random, model);
    MemoryFacts a = random_facts(random), b = random_facts(random);
    b.device = a.device;
    b.shared_with_host = a.shared_with_host;
    b.weights_bytes = a.weights_bytes;  // a function of model and options
    if (random.below(2) == 0) {
      options.kv.num_blocks = random.between(1, 20'000);
    } else {
      options.kv.kv_cache_memory_bytes = random.between(1, 10 * kGiB);
    }
    const PlanResult first = make_kv_plan(model, options, a), second = make_kv_plan(model, options, b);
    if (!first.plan.fits || !second.plan.fits) continue;
    ASSERT_EQ(kv_plan_text(first.plan), kv_plan_text(second.plan));
    ASSERT_EQ(kv_plan_json(first.plan).dump(), kv_plan_json(second.plan).dump());
    ++compared;
  }
  EXPECT_GT(compared, 300);
}

TEST(KvPlanProperties, MoreBudgetNeverGivesLess) {
  Random random(11);
  for (int i = 0; i < 300; ++i) {
    const ModelConfig model = random_model(random);
    Options options = random_options(random, model);
    options.model.max_model_len.reset();
    MemoryFacts facts;
    facts.total_bytes = facts.free_bytes = 200 * kGiB;
    int64_t last_blocks = 0, last_longest = 0, last_tokens = 0;
    double last_concurrency = 0;
    for (int64_t budget = 64 * kKiB; budget <= 64 * kGiB; budget += budget / 3) {
      options.kv.kv_cache_memory_bytes = budget;
      const KvPlan plan = make_kv_plan(model, options, facts).plan;
      EXPECT_GE(plan.blocks, last_blocks);
      EXPECT_GE(plan.longest_sequence, last_longest);
      last_blocks = plan.blocks;
      last_longest = plan.longest_sequence;
      if (!plan.fits || plan.max_model_len < model.max_position_embeddings) continue;
      EXPECT_GE(plan.tokens, last_tokens);
      EXPECT_GE(plan.concurrency_at_max_model_len, last_concurrency);
      last_tokens = plan.tokens;
      last_concurrency = plan.concurrency_at_max_model_len;
    }
    ASSERT_FALSE(::testing::Test::HasFailure()) << i;
  }
}

TEST(KvPlanProperties, LongerSequencesNeverFitWhereShorterDoNot) {
  Random random(13);
  for (int i = 0; i < 300; ++i) {
    const ModelConfig model = random_model(random);
    Options options = random_options(random, model);
    options.kv.num_blocks = random.between(2, 2000);
    MemoryFacts facts;
    facts.total_bytes = facts.free_bytes = 2000 * kGiB;
    bool fitted = true;
    for (int64_t length = 1; length <= model.max_position_embeddings; length += 1 + length / 4) {
      options.model.max_model_len = length;
      const bool fits = make_kv_plan(model, options, facts).plan.fits;
      EXPECT_TRUE(fitted || !fits) << length;
      fitted = fits;
    }
  }
}

}  // namespace
}  // namespace vllm
