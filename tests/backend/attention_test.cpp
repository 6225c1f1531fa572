// Paged attention against a plain twin: every score at once, in double, over what the cache really stored.

#include "backend/cpu/attention.h"

#include <cmath>

#include "base/random.h"
#include "model/float_convert.h"
#include "support/plan_driver.h"

namespace vllm::testing {
namespace {

struct Setting {
  KvCacheDType kv;
  int64_t heads, kv_heads, head_dim;
  int block_size;
  int64_t window;
};

float stored(KvCacheDType type, float f) {
  switch (type) {
    case KvCacheDType::kBFloat16:
      return bf16_to_f32(f32_to_bf16(f));
    case KvCacheDType::kFloat16:
      return f16_to_f32(f32_to_f16(f));
    case KvCacheDType::kFp8:
      return e4m3_to_f32(f32_to_e4m3(f));
    case KvCacheDType::kFloat32:
      break;
  }
  return f;
}

class PagedAttention {
 public:
  PagedAttention(const Setting& s, int64_t length, Isa isa)
      : s_(s), length_(length), kernels_(cpu_kernels(isa)), model_(make_model(s)) {
    const int64_t pages = (length + s.block_size - 1) / s.block_size;
    const KvPlan plan = make_test_plan(model_, s.kv, s.block_size, 2 * pages + 1);
    auto cache = CpuKvCache::create(model_, plan.spec, plan.blocks, plan.pool_bytes, *memory_);
    EXPECT_TRUE(cache.is_ok()) << cache.status().message();
    cache_.emplace(std::move(cache).value());
    // Pages anywhere in the pool, none of them in order.
    for (int64_t i = 0; i < pages; ++i) table_.push_back(static_cast<BlockId>(2 * pages - 2 * i));
    q_ = numbers(length * s.heads * s.head_dim);
    k_ = numbers(length * s.kv_heads * s.head_dim);
    v_ = numbers(length * s.kv_heads * s.head_dim);
    const int64_t width = s.kv_heads * s.head_dim;
    for (int64_t p = 0; p < length; ++p) {
      cache_->write(0, table_[static_cast<size_t>(p / s.block_size)], static_cast<int>(p % s.block_size),
                    k_.data() + p * width, v_.data() + p * width);
    }
  }

  // Query tokens [begin, end), attended in pieces of the shape's own size.
  std::vector<float> run(int64_t begin, int64_t end) {
    const AttentionShape shape{
        .num_heads = s_.heads, .num_kv_heads = s_.kv_heads, .head_dim = s_.head_dim, .scale = scale()};
    std::vector<float> out(static_cast<size_t>((end - begin) * s_.heads * s_.head_dim), NAN);
    std::vector<float> scratch(static_cast<size_t>(shape.scratch_floats()), NAN);
    const float* q = q_.data() + begin * s_.heads * s_.head_dim;
    for (int64_t at = begin; at < end; at += shape.tokens_per_task()) {
      for (int head = 0; head < s_.kv_heads; ++head) {
        const AttentionTask task{.table = table_.data(),
                                 .row = at - begin,
                                 .count = std::min(shape.tokens_per_task(), end - at),
                                 .position = at,
                                 .kv_head = head};
        attend(kernels_, shape, *cache_, 0, s_.window, task, q, out.data(), scratch.data());
      }
    }
    return out;
  }

  double expected(int64_t position, int64_t head, int64_t element) const {
    const int64_t kv_head = head / (s_.heads / s_.kv_heads), width = s_.kv_heads * s_.head_dim;
    const int64_t oldest = s_.window > 0 ? std::max<int64_t>(0, position - s_.window + 1) : 0;
    double sum = 0, total = 0;
    for (int64_t p = oldest; p <= position; ++p) {
      double score = 0;
      for (int64_t i = 0; i < s_.head_dim; ++i) {
        score += double{q_[(position * s_.heads + head) * s_.head_dim + i]} *
                 double{stored(s_.kv, k_[p * width + kv_head * s_.head_dim + i])};
      }
      const double weight = std::exp(score * double{scale()});
      total += weight;
      sum += weight * double{stored(s_.kv, v_[p * width + kv_head * s_.head_dim + element])};
    }
    return sum / total;
  }

  std::vector<BlockId>& table() { return table_; }

 private:
  static ModelConfig make_model(const Setting& s) {
    ModelConfig model = small_llama();
    model.num_layers = 1;
    model.layers.resize(1);
    model.num_heads = s.heads;
    model.num_kv_heads = s.kv_heads;
    model.head_dim = model.v_head_dim = s.head_dim;
    return model;
  }
  std::vector<float> numbers(int64_t n) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& f : out) f = static_cast<float>(random_.normal());
    return out;
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(s_.head_dim)); }

  Setting s_;
  int64_t length_;
  const CpuKernels& kernels_;
  ModelConfig model_;
  std::unique_ptr<DeviceMemory> memory_ = make_cpu_device_memory();
  std::optional<CpuKvCache> cache_;
  std::vector<BlockId> table_;
  std::vector<float> q_, k_, v_;
  Random random_{23};
};

const std::vector<Setting> kSettings = {
    {KvCacheDType::kFloat32, 4, 2, 8, 16, 0},   {KvCacheDType::kBFloat16, 9, 3, 64, 16, 0},
    {KvCacheDType::kFloat16, 6, 6, 20, 8, 0},   {KvCacheDType::kFp8, 8, 1, 32, 32, 0},
    {KvCacheDType::kFloat32, 4, 2, 16, 16, 50}, {KvCacheDType::kBFloat16, 4, 4, 16, 5, 1},
    {KvCacheDType::kFloat32, 80, 1, 8, 16, 7},
};

TEST(AttentionTest, EqualsThePlainTwin) {
  for (const Setting& s : kSettings) {
    for (const Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > best_isa()) continue;
      const int64_t length = 150;
      PagedAttention attention(s, length, isa);
      const std::vector<float> out = attention.run(0, length);
      for (const int64_t p : {0, 1, 15, 16, 62, 63, 64, 65, 127, 128, 149}) {
        for (int64_t head = 0; head < s.heads; ++head) {
          for (int64_t i = 0; i < s.head_dim; i += 3) {
            ASSERT_NEAR(out[(p * s.heads + head) * s.head_dim + i], attention.expected(p, head, i), 2e-6)
                << kv_dtype_name(s.kv) << " window " << s.window << " position " << p << " head " << head;
          }
        }
      }
    }
  }
}

TEST(AttentionTest, ARowIsTheSameBitForBitInAnyCut) {
  for (const Setting& s : kSettings) {
    const int64_t length = 150, width = s.heads * s.head_dim;
    PagedAttention attention(s, length, best_isa());
    const std::vector<float> all = attention.run(0, length);
    for (const int64_t step : {1, 3, 50}) {
      for (int64_t begin = 0; begin < length; begin += step) {
        const int64_t end = std::min(begin + step, length);
        const std::vector<float> some = attention.run(begin, end);
        ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin() + begin * width)) << "from " << begin;
      }
    }
  }
}

// Blocks that a window has left are the null block in the table: nothing may be read through them.
TEST(AttentionTest, BlocksOutsideTheWindowAreNotRead) {
  const Setting s{KvCacheDType::kFloat32, 4, 2, 8, 16, 20};
  PagedAttention attention(s, 150, best_isa());
  const std::vector<float> before = attention.run(120, 130);
  // The oldest position that token 120 sees is 101, in block 6.
  for (int i = 0; i < 6; ++i) attention.table()[static_cast<size_t>(i)] = -1000000;
  EXPECT_EQ(attention.run(120, 130), before);
}

}  // namespace
}  // namespace vllm::testing
