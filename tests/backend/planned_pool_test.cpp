// What an allocator takes when it follows a plan is what the plan says, on devices that are not there.

#include <numeric>

#include "base/units.h"
#include "support/fake_device_memory.h"
#include "support/models.h"

namespace vllm {
namespace {

using testing::allocate_planned_pool;
using testing::facts_of;
using testing::FakeDevice;
using testing::FakeDeviceMemory;
using testing::mixed_model;

// Plans, allocates, and compares byte for byte. Returns the bytes.
int64_t check_pool(const ModelConfig& model, const Options& options, FakeDeviceMemory& memory) {
  const PlanResult result = make_kv_plan(model, options, facts_of(memory));
  EXPECT_TRUE(result.status.is_ok()) << result.status.message();
  if (!result.status) return 0;
  const auto pool = allocate_planned_pool(result.plan, memory);
  EXPECT_TRUE(pool.is_ok()) << pool.status().message();
  EXPECT_EQ(memory.held_bytes(MemoryPurpose::kKvCache), result.plan.pool_bytes);
  EXPECT_LE(result.plan.pool_bytes, options.kv.kv_cache_memory_bytes.value_or(result.plan.pool_bytes));
  // The first and the last byte of every tensor can be written.
  for (const DeviceBuffer& tensor : *pool)
    tensor.data()[0] = tensor.data()[tensor.bytes() - 1] = std::byte{1};
  return result.plan.pool_bytes;
}

TEST(PlannedPool, EqualsThePlanForEveryArchitectureTypeAndRankCount) {
  for (const ModelConfig& model : testing::small_models()) {
    for (const KvCacheDType dtype :
         {KvCacheDType::kBFloat16, KvCacheDType::kFloat16, KvCacheDType::kFloat32, KvCacheDType::kFp8}) {
      for (const int tp : {1, 2, 4}) {
        SCOPED_TRACE(fmt::format("{} {} tp {}", model.architecture, kv_dtype_name(dtype), tp));
        FakeDeviceMemory memory({.name = "cpu", .total_bytes = 8 * kGiB});
        Options options;
        options.kv.kv_cache_dtype = dtype;
        options.parallel.tensor_parallel_size = tp;
        options.kv.kv_cache_memory_bytes = 100 * kMiB;
        check_pool(model, options, memory);
        options.kv.num_blocks = 300;
        check_pool(model, options, memory);
        EXPECT_EQ(memory.held_bytes(MemoryPurpose::kKvCache), 0);
      }
    }
  }
}

TEST(PlannedPool, EqualsThePlanForMixturesOfAllKinds) {
  using enum LayerKind;
  for (const auto& kinds : std::vector<std::vector<LayerKind>>{
           {kFull, kFull, kSliding, kSliding, kRecurrent, kRecurrent},
           {kMla, kMla, kSliding, kSliding, kSliding, kSliding, kSliding},
           {kRecurrent, kRecurrent},
           {kFull, kSliding, kSliding, kSliding, kSliding, kFull, kMla, kMla}}) {
    FakeDeviceMemory memory({.name = "cpu", .total_bytes = 8 * kGiB});
    Options options;
    options.scheduler.max_num_seqs = 5;
    options.kv.kv_cache_memory_bytes = 50 * kMiB;
    EXPECT_GT(check_pool(mixed_model(kinds), options, memory), 0);
  }
}

TEST(PlannedPool, TheLargeModelsOnFourGpus) {
  for (const ModelConfig& model :
       {testing::llama_3_1_8b(), testing::gemma3_27b(), testing::deepseek_v2_lite()}) {
    FakeDeviceMemory memory({.name = "cuda", .total_bytes = 80 * kGiB});
    Options options;
    options.parallel.tensor_parallel_size = 4;
    options.kv.gpu_memory_utilization = 0.9;
    EXPECT_GT(check_pool(model, options, memory), 70 * kGiB);
  }
}

// A device that shares its memory with the host, and a neighbour that uses most of it (field reports: host
// wedged, neighbours killed).
TEST(PlannedPool, ABusyNeighbourOnAnIntegratedDeviceShrinksOrRefusesAndNothingIsTaken) {
  const ModelConfig model = testing::qwen3_1_7b();
  Options options;
  options.model.max_model_len = 1024;
  FakeDeviceMemory memory({.name = "integrated", .total_bytes = 122 * kGiB});
  const auto blocks = [&] { return make_kv_plan(model, options, facts_of(memory)).plan.blocks; };
  const int64_t alone = blocks();
  memory.neighbour_takes(80 * kGiB);
  const int64_t shared = blocks();
  EXPECT_GT(shared, 0);
  EXPECT_LT(shared, alone);
  memory.neighbour_takes(30 *
                         kGiB);  // 12 GiB are left, which the reserve of 12.2 GiB keeps for the neighbours
  const PlanResult busy = make_kv_plan(model, options, facts_of(memory));
  EXPECT_EQ(busy.status.code(), StatusCode::kRefused);
  EXPECT_FALSE(busy.plan.fits);

  for (const bool by_blocks : {true, false}) {
    Options absolute = options;
    if (by_blocks) {
      absolute.kv.num_blocks = 64;
    } else {
      absolute.kv.kv_cache_memory_bytes = kGiB;
    }
    EXPECT_EQ(make_kv_plan(model, absolute, facts_of(memory)).status.code(), StatusCode::kRefused);
  }
  options.kv.gpu_memory_utilization = 0.7;
  EXPECT_EQ(make_kv_plan(model, options, facts_of(memory)).status.code(), StatusCode::kRefused);
  EXPECT_TRUE(memory.allocations().empty());
}

TEST(PlannedPool, MemoryThatIsGoneWhenThePoolIsTakenIsARefusalToo) {
  FakeDeviceMemory memory({.name = "cuda", .total_bytes = 10 * kGiB});
  Options options;
  options.kv.kv_cache_memory_bytes = 4 * kGiB;
  options.model.max_model_len = 1024;
  const PlanResult result = make_kv_plan(testing::qwen3_1_7b(), options, facts_of(memory));
  ASSERT_TRUE(result.status.is_ok());
  memory.neighbour_takes(7 * kGiB);
  EXPECT_EQ(allocate_planned_pool(result.plan, memory).status().code(), StatusCode::kRefused);
  EXPECT_EQ(memory.held_bytes(MemoryPurpose::kKvCache), 0);
}

}  // namespace
}  // namespace vllm
