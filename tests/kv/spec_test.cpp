// What a layer's block takes, how layers form groups, and how many blocks a sequence holds.

#include "kv/spec.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/units.h"
#include "support/models.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::mixed_model;

Options with(int block_size, int tp = 1, std::optional<KvCacheDType> dtype = std::nullopt) {
  Options options;
  options.kv.block_size = block_size;
  options.kv.kv_cache_dtype = dtype;
  options.parallel.tensor_parallel_size = tp;
  return options;
}

KvSpec spec_of(const ModelConfig& model, const Options& options) {
  auto spec = make_kv_spec(model, options);
  EXPECT_TRUE(spec.is_ok()) << spec.status().message();
  return spec ? std::move(spec).value() : KvSpec{};
}

std::string error_of(const ModelConfig& model, const Options& options) {
  const auto spec = make_kv_spec(model, options);
  EXPECT_FALSE(spec.is_ok());
  if (spec) return "";
  EXPECT_EQ(exit_code(spec.status()), 2);
  return spec.status().message();
}

TEST(KvSpec, WorkedValues) {
  const KvSpec qwen = spec_of(testing::qwen3_1_7b(), with(32));
  EXPECT_EQ(qwen.layers.size(), 28U);
  EXPECT_EQ(qwen.layers[0].bytes_per_block, 128 * kKiB);
  EXPECT_EQ(qwen.bytes_per_block, 7 * kMiB / 2);
  EXPECT_EQ(spec_of(testing::llama_3_1_8b(), with(16)).bytes_per_block, 2 * kMiB);
  const KvSpec deepseek = spec_of(testing::deepseek_v2_lite(), with(32));
  EXPECT_EQ(deepseek.bytes_per_block, 972 * kKiB);
  EXPECT_EQ(deepseek.groups.size(), 1U);
  EXPECT_EQ(deepseek.groups[0].kind, LayerKind::kMla);
}

TEST(KvSpec, ElementTypes) {
  const ModelConfig model = testing::qwen3_1_7b();
  EXPECT_EQ(spec_of(model, with(32, 1, KvCacheDType::kFloat32)).bytes_per_block, 7 * kMiB);
  EXPECT_EQ(spec_of(model, with(32, 1, KvCacheDType::kFloat16)).bytes_per_block, 7 * kMiB / 2);
  EXPECT_EQ(spec_of(model, with(32, 1, KvCacheDType::kFp8)).bytes_per_block, 7 * kMiB / 4);
  EXPECT_STREQ(kv_dtype_name(KvCacheDType::kFp8), "fp8");
}

TEST(KvSpec, AutoTypeFollowsDtypeAndAGgufIsBfloat16) {
  ModelConfig model = testing::qwen3_1_7b();
  Options options;
  EXPECT_EQ(resolve_kv_dtype(options, model), KvCacheDType::kBFloat16);
  model.dtype = DType::kF16;
  EXPECT_EQ(resolve_kv_dtype(options, model), KvCacheDType::kFloat16);
  options.model.dtype = DType::kF32;
  EXPECT_EQ(resolve_kv_dtype(options, model), KvCacheDType::kFloat32);
  model.from_gguf = true;
  EXPECT_EQ(resolve_kv_dtype(options, model), KvCacheDType::kBFloat16);
  options.kv.kv_cache_dtype = KvCacheDType::kFp8;
  EXPECT_EQ(resolve_kv_dtype(options, model), KvCacheDType::kFp8);
  model.from_gguf = false;
  model.dtype.reset();
  EXPECT_EQ(resolve_kv_dtype({}, model), KvCacheDType::kBFloat16);
}

TEST(KvSpec, TensorParallelSplitsHeadsAndNeverBelowOne) {
  const ModelConfig model = testing::llama_3_1_8b();
  EXPECT_EQ(spec_of(model, with(16, 4)).bytes_per_block, kMiB / 2);
  EXPECT_EQ(spec_of(model, with(16, 8)).bytes_per_block, kMiB / 4);
  // More ranks than KV heads: each holds one, and none is saved.
  EXPECT_EQ(spec_of(model, with(16, 16)).bytes_per_block, kMiB / 4);
}

TEST(KvSpec, LatentAttentionIsReplicatedOnEachRank) {
  const ModelConfig model = testing::deepseek_v2_lite();
  EXPECT_EQ(spec_of(model, with(32, 8)).bytes_per_block, 972 * kKiB);
}

TEST(KvSpec, TensorParallelThatDoesNotDivide) {
  const ModelConfig model = testing::llama_3_1_8b();
  EXPECT_THAT(error_of(model, with(16, 3)), HasSubstr("--tensor-parallel-size 3"));
  EXPECT_THAT(error_of(model, with(16, 3)), HasSubstr("32 attention heads"));
  EXPECT_THAT(error_of(model, with(16, 0)), HasSubstr("--tensor-parallel-size 0"));
  ModelConfig odd = model;
  odd.num_heads = 24;
  odd.num_kv_heads = 6;
  EXPECT_THAT(error_of(odd, with(16, 4)), HasSubstr("6 KV heads"));
  EXPECT_THAT(error_of(model, with(0)), HasSubstr("--block-size 0"));
}

// Layers by kind for shapes in the notation of counts.
std::vector<LayerKind> counted(int full, int sliding) {
  std::vector<LayerKind> kinds(static_cast<size_t>(full), LayerKind::kFull);
  kinds.insert(kinds.end(), static_cast<size_t>(sliding), LayerKind::kSliding);
  return kinds;
}

struct Grouping {
  int full, sliding;
  std::vector<size_t> sizes;
  size_t tensors;
};

TEST(KvSpec, HybridGroupsAreAsLargeAsTheRarestKind) {
  const Grouping cases[] = {
      {13, 13, {13, 13}, 13},                // Gemma 2: as many of each
      {10, 52, {10, 9, 9, 9, 9, 8, 8}, 10},  // Gemma 3 27B: six groups of at most ten
      {4, 5, {4, 5}, 5},                     // nearly equal: as large as the commoner kind
      {4, 6, {4, 3, 3}, 4},                  // 6 is 1.5 times 4, which is not less
      {1, 3, {1, 1, 1, 1}, 1},
      {5, 0, {5}, 5},
      {0, 5, {5}, 5},
  };
  for (const Grouping& c : cases) {
    SCOPED_TRACE(fmt::format("{} full, {} sliding", c.full, c.sliding));
    const KvSpec spec = spec_of(mixed_model(counted(c.full, c.sliding)), with(16));
    std::vector<size_t> sizes;
    for (const KvGroup& group : spec.groups) sizes.push_back(group.layers.size());
    EXPECT_EQ(sizes, c.sizes);
    EXPECT_EQ(spec.slot_bytes.size(), c.tensors);
    EXPECT_EQ(spec.bytes_per_block, static_cast<int64_t>(c.tensors) * spec.layers[0].bytes_per_block);
  }
}

// Every layer is in one group and one tensor, no two layers of a group share a tensor, and a part is large
// enough.
void check_layout(const KvSpec& spec) {
  std::set<int> seen;
  int64_t sum = 0;
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    std::set<int> slots;
    int64_t bytes = 0;
    for (const int layer : spec.groups[g].layers) {
      EXPECT_TRUE(seen.insert(layer).second);
      const LayerKv& kv = spec.layers[static_cast<size_t>(layer)];
      EXPECT_EQ(kv.group, static_cast<int>(g));
      EXPECT_EQ(kv.kind, spec.groups[g].kind);
      bytes += kv.bytes_per_block;
      if (kv.kind == LayerKind::kRecurrent) continue;
      EXPECT_TRUE(slots.insert(kv.slot).second);
      EXPECT_LE(kv.bytes_per_block, spec.slot_bytes.at(static_cast<size_t>(kv.slot)));
    }
    EXPECT_EQ(bytes, spec.groups[g].bytes_per_block);
    EXPECT_LE(bytes, spec.bytes_per_block);
  }
  for (const int64_t part : spec.slot_bytes) sum += part;
  EXPECT_EQ(sum, spec.bytes_per_block);
  EXPECT_EQ(seen.size(), spec.layers.size());
}

TEST(KvSpec, LayoutOfEveryArchitectureAndMixture) {
  for (const ModelConfig& model : testing::small_models()) {
    SCOPED_TRACE(model.architecture);
    for (const int tp : {1, 2, 4}) check_layout(spec_of(model, with(16, tp)));
  }
  for (int full = 0; full < 7; ++full) {
    for (int sliding = 0; sliding < 9; ++sliding) {
      for (int recurrent = 0; recurrent < 3; ++recurrent) {
        auto kinds = counted(full, sliding);
        kinds.insert(kinds.begin(), static_cast<size_t>(recurrent), LayerKind::kRecurrent);
        check_layout(spec_of(mixed_model(kinds), with(8)));
      }
    }
  }
}

TEST(KvSpec, SmallModelsHaveTwoLayersOfEachKind) {
  std::set<LayerKind> kinds;
  for (const ModelConfig& model : testing::small_models()) {
    std::map<LayerKind, int> counts;
    for (const LayerConfig& layer : model.layers) ++counts[layer.kind];
    for (const auto& [kind, count] : counts) {
      EXPECT_GE(count, 2) << model.architecture << " " << layer_kind_name(kind);
      kinds.insert(kind);
    }
  }
  EXPECT_EQ(kinds, (std::set<LayerKind>{LayerKind::kFull, LayerKind::kSliding, LayerKind::kMla}));
}

TEST(KvSpec, RecurrentLayersCountOnceForASequence) {
  const KvSpec spec =
      spec_of(mixed_model({LayerKind::kRecurrent, LayerKind::kFull, LayerKind::kRecurrent}), with(16));
  EXPECT_EQ(spec.recurrent_bytes_per_sequence, 1000 + 1001);
  ASSERT_EQ(spec.groups.size(), 2U);
  EXPECT_EQ(spec.groups[1].kind, LayerKind::kRecurrent);
  EXPECT_EQ(spec.groups[1].bytes_per_sequence, 2001);
  EXPECT_EQ(spec.groups[1].bytes_per_block, 0);
  EXPECT_EQ(spec.bytes_per_block, spec.layers[1].bytes_per_block);
  EXPECT_TRUE(has_block_groups(spec));
  EXPECT_FALSE(has_block_groups(spec_of(mixed_model({LayerKind::kRecurrent}), with(16))));
}

TEST(KvSpec, PartsOfATensorAreAsLargeAsTheirLargestLayer) {
  // Latent layers are smaller than full ones here: 64 elements a token against 256.
  const KvSpec spec =
      spec_of(mixed_model({LayerKind::kFull, LayerKind::kMla, LayerKind::kFull, LayerKind::kMla}), with(16));
  ASSERT_EQ(spec.groups.size(), 2U);
  EXPECT_LT(spec.groups[1].bytes_per_block, spec.groups[0].bytes_per_block);
  EXPECT_EQ(spec.bytes_per_block, spec.groups[0].bytes_per_block);
}

TEST(KvSpec, BlocksOfASequence) {
  const KvSpec full = spec_of(mixed_model(counted(2, 0)), with(16));
  EXPECT_EQ(max_blocks_per_sequence(full, 0, 100), 0);
  EXPECT_EQ(max_blocks_per_sequence(full, 1, 100), 1);
  EXPECT_EQ(max_blocks_per_sequence(full, 16, 100), 1);
  EXPECT_EQ(max_blocks_per_sequence(full, 17, 100), 2);
  EXPECT_EQ(blocks_of_sequence(full, 17, 100), 2);

  // A window of 64, 100 tokens a step: at most ceil(163 / 16) + 1 blocks.
  const KvSpec sliding = spec_of(mixed_model(counted(0, 2)), with(16));
  EXPECT_EQ(max_blocks_per_sequence(sliding, 2000, 100), 12);
  EXPECT_EQ(max_blocks_per_sequence(sliding, 32, 100), 3);
  EXPECT_EQ(blocks_of_sequence(sliding, 32, 100), 2);
  EXPECT_EQ(blocks_of_sequence(sliding, 2000, 100), 12);

  const KvSpec both = spec_of(mixed_model(counted(2, 4)), with(16));
  EXPECT_EQ(both.groups.size(), 3U);
  EXPECT_EQ(max_blocks_per_sequence(both, 2000, 100), 125 + 12 + 12);

  const KvSpec state = spec_of(mixed_model({LayerKind::kRecurrent}), with(16));
  EXPECT_EQ(max_blocks_per_sequence(state, 2000, 100), 0);
}

TEST(KvSpec, BlocksOfASequenceNeverFallWithItsLength) {
  for (const ModelConfig& model : testing::small_models()) {
    const KvSpec spec = spec_of(model, with(16));
    int64_t last = 0, last_exact = 0;
    for (int64_t length = 0; length <= 600; ++length) {
      const int64_t blocks = max_blocks_per_sequence(spec, length, 50);
      const int64_t exact = blocks_of_sequence(spec, length, 50);
      EXPECT_GE(blocks, last);
      EXPECT_GE(exact, last_exact);
      EXPECT_LE(exact, blocks);
      last = blocks;
      last_exact = exact;
    }
  }
}

TEST(KvSpec, ABlockBeyond64BitsIsAnError) {
  ModelConfig model = mixed_model(counted(4, 0));
  model.num_heads = model.num_kv_heads = 1 << 14;
  model.head_dim = model.v_head_dim = 1 << 14;
  model.layers.resize(4096);
  EXPECT_THAT(error_of(model, with(std::numeric_limits<int>::max())), HasSubstr("--block-size"));
}

}  // namespace
}  // namespace vllm
