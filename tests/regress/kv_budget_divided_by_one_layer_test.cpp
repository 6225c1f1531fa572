// A server was reported to take 27 GB for a model of 1.4 GB: the byte budget was divided by the bytes of one
// layer's block, and the pool was then allocated for all layers. 1 GiB / 128 KiB = 8,192 blocks, times 28
// layers = 28 GiB. The fixture that should have seen it had one layer.

#include "base/units.h"
#include "support/fake_device_memory.h"
#include "support/models.h"

namespace vllm {
namespace {

using testing::FakeDeviceMemory;

Options reported() {
  Options options;
  options.kv.block_size = 32;
  options.model.max_model_len = 1024;
  options.scheduler.max_num_seqs = 8;
  return options;
}

TEST(KvBudgetDividedByOneLayer, TheBudgetBindsWhateverTheNumberOfLayers) {
  Options options = reported();
  options.kv.kv_cache_memory_bytes = kGiB;
  FakeDeviceMemory memory({.name = "integrated", .total_bytes = 122 * kGiB});
  const PlanResult result = make_kv_plan(testing::qwen3_1_7b(), options, testing::facts_of(memory));
  ASSERT_TRUE(result.status.is_ok()) << result.status.message();
  EXPECT_EQ(result.plan.blocks, 292);
  EXPECT_NE(result.plan.blocks, 8192);
  const auto pool = testing::allocate_planned_pool(result.plan, memory);
  ASSERT_TRUE(pool.is_ok());
  EXPECT_EQ(pool->size(), 28U);
  EXPECT_EQ(memory.held_bytes(MemoryPurpose::kKvCache), 1'071'644'672);
  EXPECT_LE(memory.held_bytes(MemoryPurpose::kKvCache), kGiB);
}

TEST(KvBudgetDividedByOneLayer, TheBudgetBindsForEveryArchitecture) {
  for (const ModelConfig& model : testing::small_models()) {
    SCOPED_TRACE(model.architecture);
    Options options = reported();
    options.kv.kv_cache_memory_bytes = 300 * kMiB;
    FakeDeviceMemory memory({.name = "integrated", .total_bytes = 122 * kGiB});
    const PlanResult result = make_kv_plan(model, options, testing::facts_of(memory));
    ASSERT_TRUE(result.status.is_ok()) << result.status.message();
    const auto pool = testing::allocate_planned_pool(result.plan, memory);
    ASSERT_TRUE(pool.is_ok());
    EXPECT_LE(memory.held_bytes(MemoryPurpose::kKvCache), 300 * kMiB);
    EXPECT_GT(memory.held_bytes(MemoryPurpose::kKvCache), 300 * kMiB - result.plan.spec.bytes_per_block);
  }
}

TEST(KvBudgetDividedByOneLayer, TheWorkaroundAndNoKnobTakeLittle) {
  FakeDeviceMemory memory({.name = "integrated", .total_bytes = 122 * kGiB});
  Options options = reported();
  // No knob: 8 sequences of 1024 tokens can use 256 blocks, so that is what is taken, not half of the device.
  EXPECT_EQ(make_kv_plan(testing::qwen3_1_7b(), options, testing::facts_of(memory)).plan.blocks, 257);
  options.kv.num_blocks = 64;
  EXPECT_EQ(make_kv_plan(testing::qwen3_1_7b(), options, testing::facts_of(memory)).plan.pool_bytes,
            224 * kMiB);
}

}  // namespace
}  // namespace vllm
