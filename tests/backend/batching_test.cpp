// A request's tokens and logits are the same, bit for bit, however its work was cut up and whatever ran
// beside it.

#include "base/random.h"
#include "support/plan_driver.h"

namespace vllm::testing {
namespace {

constexpr int kGenerated = 12;

std::vector<int32_t> random_prompt(int length, uint64_t seed, int64_t vocab) {
  Random random(seed);
  std::vector<int32_t> out(static_cast<size_t>(length));
  for (int32_t& token : out) token = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab)));
  return out;
}

void expect_same(const PlanDriver::Sequence& a, const PlanDriver::Sequence& b) {
  EXPECT_EQ(a.generated(), b.generated());
  ASSERT_EQ(a.logits.size(), b.logits.size());
  for (size_t i = 0; i < a.logits.size(); ++i) ASSERT_EQ(a.logits[i], b.logits[i]) << "token " << i;
}

struct Variant {
  std::string name, file;  // file empty: dummy weights with a sliding layer
  KvCacheDType kv;
  Isa isa;
};

class BatchingTest : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (GetParam().isa > best_isa()) GTEST_SKIP() << "this processor has no " << isa_name(GetParam().isa);
    reference_ = rig();
    ASSERT_NE(reference_, nullptr);
    vocab_ = reference_->model.vocab_size;
    prompt_ = random_prompt(150, 11, vocab_);
    reference_->driver->add(1, prompt_, params());
    ASSERT_TRUE(reference_->driver->generate(1, kGenerated).is_ok());
  }

  // It draws, so that the generator is under test as well.
  static SamplingParams params() {
    SamplingParams out;
    out.temperature = 0.8;
    out.top_p = 0.95;
    out.seed = 5;
    return out;
  }

  std::unique_ptr<Rig> rig(int threads = 2, int block_size = 16) const {
    RigOptions options;
    options.kv = GetParam().kv;
    options.block_size = block_size;
    options.executor.isa = GetParam().isa;
    options.executor.threads = threads;
    if (!GetParam().file.empty()) return make_rig(golden_path(GetParam().file), options);
    ModelConfig model = small_llama();
    model.layers[1].kind = LayerKind::kSliding;
    model.layers[1].sliding_window = 37;
    return make_dummy_rig(model, DType::kBF16, options);
  }

  const PlanDriver::Sequence& expected() const { return reference_->driver->at(1); }

  std::unique_ptr<Rig> reference_;
  int64_t vocab_ = 0;
  std::vector<int32_t> prompt_;
};

TEST_P(BatchingTest, InChunksOfAnySize) {
  for (const int chunk : {1, 7, 16, 17, 64, 100}) {
    SCOPED_TRACE(chunk);
    const auto r = rig();
    r->driver->add(1, prompt_, params());
    for (int done = 0; done < 150; done += chunk) {
      ASSERT_TRUE(r->driver->step({{1, std::min(chunk, 150 - done)}}).is_ok());
    }
    ASSERT_TRUE(r->driver->generate(1, kGenerated).is_ok());
    expect_same(r->driver->at(1), expected());
  }
}

TEST_P(BatchingTest, WithAnyNumberOfThreadsAndAnyBlockSize) {
  for (const int threads : {1, 3}) {
    for (const int block_size : {8, 32}) {
      const auto r = rig(threads, block_size);
      r->driver->add(1, prompt_, params());
      ASSERT_TRUE(r->driver->generate(1, kGenerated).is_ok());
      expect_same(r->driver->at(1), expected());
    }
  }
}

TEST_P(BatchingTest, BesideOthers) {
  const auto r = rig();
  PlanDriver& driver = *r->driver;
  // A neighbour decodes, another one is in its prompt, and ours stands at a different place in every step.
  driver.add(7, random_prompt(33, 1, vocab_));
  driver.add(8, random_prompt(90, 2, vocab_));
  driver.add(1, prompt_, params());
  ASSERT_TRUE(driver.step({{7, 33}}).is_ok());
  ASSERT_TRUE(driver.step({{7, 1}, {1, 50}, {8, 10}}).is_ok());
  ASSERT_TRUE(driver.step({{8, 60}, {1, 61}, {7, 1}}).is_ok());
  ASSERT_TRUE(driver.step({{1, 39}, {7, 1}, {8, 20}}).is_ok());
  for (int i = 1; i < kGenerated; ++i) {
    ASSERT_TRUE(i % 2 == 0 ? driver.step({{7, 1}, {8, 1}, {1, 1}}).is_ok()
                           : driver.step({{1, 1}, {7, 1}}).is_ok());
  }
  expect_same(driver.at(1), expected());
}

TEST_P(BatchingTest, PreemptedAndResumed) {
  const auto r = rig();
  PlanDriver& driver = *r->driver;
  driver.add(1, prompt_, params());
  driver.add(2, random_prompt(100, 3, vocab_));
  ASSERT_TRUE(driver.step({{1, 80}}).is_ok());
  driver.preempt(1);  // in the middle of its prompt
  ASSERT_TRUE(driver.step({{2, 100}}).is_ok());
  ASSERT_TRUE(driver.generate(1, 5).is_ok());
  driver.preempt(1);  // while it decodes; what it generated is computed again, in another cut
  ASSERT_TRUE(driver.step({{2, 1}}).is_ok());
  ASSERT_TRUE(driver.step({{1, 120}, {2, 1}}).is_ok());
  ASSERT_TRUE(driver.generate(1, kGenerated).is_ok());
  expect_same(driver.at(1), expected());
}

TEST_P(BatchingTest, WithAPrefixHit) {
  const auto r = rig();
  PlanDriver& driver = *r->driver;
  std::vector<int32_t> other = prompt_;
  other.resize(100);
  driver.add(2, other);
  ASSERT_TRUE(driver.step({{2, 100}}).is_ok());
  driver.add(1, prompt_, params());
  driver.share_prefix(1, 2, 6);
  ASSERT_TRUE(driver.generate(1, kGenerated).is_ok());
  EXPECT_EQ(driver.at(1).tables[0][5], driver.at(2).tables[0][5]);
  expect_same(driver.at(1), expected());
}

TEST_P(BatchingTest, BlocksOfAnEndedRequestAreUsedAgain) {
  const auto r = rig();
  PlanDriver& driver = *r->driver;
  driver.add(2, random_prompt(200, 4, vocab_));
  ASSERT_TRUE(driver.generate(2, 3).is_ok());
  driver.end(2);
  driver.add(1, prompt_, params());
  ASSERT_TRUE(driver.generate(1, kGenerated).is_ok());
  expect_same(driver.at(1), expected());
}

INSTANTIATE_TEST_SUITE_P(
    Models, BatchingTest,
    ::testing::Values(Variant{"float32", "tiny/f32", KvCacheDType::kFloat32, Isa::kAvx2},
                      Variant{"generic", "tiny/f32", KvCacheDType::kBFloat16, Isa::kGeneric},
                      Variant{"avx512", "tiny/f32", KvCacheDType::kBFloat16, Isa::kAvx512},
                      Variant{"biased", "tiny/f16-biased", KvCacheDType::kFloat16, Isa::kAvx2},
                      Variant{"q4_1", "tiny/tiny-Q4_1.gguf", KvCacheDType::kFp8, Isa::kAvx2},
                      Variant{"sliding", "", KvCacheDType::kBFloat16, Isa::kAvx2}),
    [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace vllm::testing
