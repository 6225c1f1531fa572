#include "backend/cpu/cpu_executor.h"

#include <cmath>

#include "support/plan_driver.h"

namespace vllm::testing {
namespace {

CpuExecutorConfig config_of(int seqs, int tokens, int threads) {
  CpuExecutorConfig config;
  config.max_num_seqs = seqs;
  config.max_num_batched_tokens = tokens;
  config.threads = threads;
  return config;
}

// ---- memory
// ------------------------------------------------------------------------------------------------------

TEST(CpuExecutorMemoryTest, WhatIsEstimatedIsAllocated) {
  RealClock clock;
  for (const bool local_rope : {false, true}) {
    for (const auto& config : {config_of(1, 1, 1), config_of(16, 300, 3), config_of(64, 7, 2)}) {
      ModelConfig model = small_llama(1000);
      model.layers[1].local_rope = local_rope;
      const auto memory = make_cpu_device_memory();
      auto weights = load_weights("", model, LoadFormat::kDummy, DType::kF32, 1);
      ASSERT_TRUE(weights.is_ok());
      const auto executor = CpuExecutor::create(model, std::move(weights).value(), config, *memory, clock);
      ASSERT_TRUE(executor.is_ok()) << executor.status().message();
      EXPECT_EQ(memory->held_bytes(MemoryPurpose::kWorkspace),
                CpuExecutor::estimate_workspace_bytes(model, config));
      EXPECT_EQ(memory->held_bytes(MemoryPurpose::kKvCache), 0);
    }
  }
}

TEST(CpuExecutorMemoryTest, AnEstimateBeyondAllNumbersSaturates) {
  ModelConfig model = small_llama();
  model.intermediate_size = int64_t{1} << 50;
  EXPECT_EQ(CpuExecutor::estimate_workspace_bytes(model, config_of(1, 2048, 1)), INT64_MAX);
}

TEST(CpuExecutorMemoryTest, ThePoolTakesExactlyThePlannedBytes) {
  for (const KvCacheDType kv :
       {KvCacheDType::kFloat32, KvCacheDType::kFloat16, KvCacheDType::kBFloat16, KvCacheDType::kFp8}) {
    RigOptions options;
    options.kv = kv;
    options.blocks = 33;
    const auto rig = make_dummy_rig(small_llama(), DType::kF32, options);
    ASSERT_NE(rig, nullptr);
    // 2 layers, 16 tokens, 2 heads of 8, K and V.
    EXPECT_EQ(rig->plan.pool_bytes, 33 * 2 * 16 * 2 * 8 * 2 * kv_dtype_bytes(kv));
    EXPECT_EQ(rig->memory->held_bytes(MemoryPurpose::kKvCache), rig->plan.pool_bytes);
  }
}

TEST(CpuExecutorMemoryTest, ProfilingRunsTheLargestStepAndLeavesNothingBehind) {
  RealClock clock;
  const auto memory = make_cpu_device_memory();
  const ModelConfig model = small_llama(500);
  const auto config = config_of(5, 203, 2);
  auto weights = load_weights("", model, LoadFormat::kDummy, DType::kBF16, 1);
  auto executor = CpuExecutor::create(model, std::move(weights).value(), config, *memory, clock);
  ASSERT_TRUE(executor.is_ok());
  const auto peak = (*executor)->profile_workspace();
  ASSERT_TRUE(peak.is_ok()) << peak.status().message();
  // The workspace was taken before; a step takes nothing of size beyond it.
  EXPECT_GE(*peak, 0);
  EXPECT_LT(*peak, 64 << 20);
  EXPECT_EQ(memory->held_bytes(MemoryPurpose::kWorkspace),
            CpuExecutor::estimate_workspace_bytes(model, config));
  EXPECT_EQ(memory->held_bytes(MemoryPurpose::kKvCache), 0);
  EXPECT_GT(memory->peak_held_bytes(MemoryPurpose::kKvCache), 0) << "it ran on a cache";
  // It is an executor like any other afterwards.
  const KvPlan plan = make_test_plan(model, KvCacheDType::kBFloat16, 16, 20);
  ASSERT_TRUE((*executor)->allocate_kv(plan).is_ok());
  PlanDriver driver(**executor, plan, model.vocab_size);
  driver.add(1, {1, 2, 3});
  EXPECT_TRUE(driver.generate(1, 3).is_ok());
}

class NoMemory final : public DeviceMemory {
 public:
  DeviceMemoryInfo info() const override { return {}; }
  Result<DeviceBuffer> allocate(MemoryPurpose purpose, int64_t) override {
    return refused("no memory for {}", memory_purpose_name(purpose));
  }
  int64_t held_bytes(MemoryPurpose) const override { return 0; }
  int64_t peak_held_bytes(MemoryPurpose) const override { return 0; }

 private:
  void release(MemoryPurpose, std::byte*, int64_t) override {}
};

TEST(CpuExecutorMemoryTest, AFullDeviceIsAnError) {
  RealClock clock;
  NoMemory memory;
  const ModelConfig model = small_llama();
  auto weights = load_weights("", model, LoadFormat::kDummy, DType::kF32, 1);
  const auto executor =
      CpuExecutor::create(model, std::move(weights).value(), config_of(1, 1, 1), memory, clock);
  ASSERT_FALSE(executor.is_ok());
  EXPECT_EQ(executor.status().message(), "no memory for workspace");
}

// ---- refusals
// ----------------------------------------------------------------------------------------------------

Status create_status(const ModelConfig& model, const CpuExecutorConfig& config = config_of(2, 8, 1)) {
  RealClock clock;
  const auto memory = make_cpu_device_memory();
  auto weights = load_weights("", small_llama(), LoadFormat::kDummy, DType::kF32, 1);
  return CpuExecutor::create(model, std::move(weights).value(), config, *memory, clock).status();
}

TEST(CpuExecutorRefusalTest, NamesWhatItCannotCompute) {
  const auto refused_for = [](void (*change)(ModelConfig&), const std::string& what) {
    ModelConfig model = small_llama();
    change(model);
    const Status status = create_status(model);
    EXPECT_EQ(status.code(), StatusCode::kRefused);
    EXPECT_EQ(status.message(), "'config.json' (LlamaForCausalLM) has " + what +
                                    ", which the plain CPU forward cannot compute: it runs the Llama family");
  };
  refused_for([](ModelConfig& m) { m.layers[1].kind = LayerKind::kRecurrent; }, "layers of kind recurrent");
  refused_for([](ModelConfig& m) { m.layers[0].kind = LayerKind::kMla; }, "layers of kind mla");
  refused_for([](ModelConfig& m) { m.layers[0].moe = true; }, "a mixture of experts");
  refused_for([](ModelConfig& m) { m.hidden_act = "gelu"; }, "the activation 'gelu'");
  refused_for([](ModelConfig& m) { m.final_logit_softcap = 30; }, "soft-capped logits");
  refused_for([](ModelConfig& m) { m.norm_plus_one = true; }, "norms of another kind");
  refused_for([](ModelConfig& m) { m.v_head_dim = 4; }, "value heads of another width than its key heads");
  refused_for([](ModelConfig& m) { m.num_kv_heads = 4; }, "6 heads over 4 KV heads");
  ModelConfig model = small_llama();
  model.rope.type = "longrope";
  EXPECT_EQ(create_status(model).message(),
            "'config.json' scales its rotary embedding by type 'longrope', which this build cannot compute; "
            "accepted "
            "are default, linear, dynamic, llama3 and yarn");
}

TEST(CpuExecutorRefusalTest, ImpossibleConfigurations) {
  EXPECT_EQ(create_status(small_llama(), config_of(0, 8, 1)).message(),
            "The CPU executor needs at least 1 thread, 1 sequence and 1 token a step, not 1, 0 and 8");
  if (best_isa() == Isa::kAvx512) GTEST_SKIP() << "this processor has every instruction set that there is";
  CpuExecutorConfig config = config_of(1, 1, 1);
  config.isa = Isa::kAvx512;
  EXPECT_EQ(create_status(small_llama(), config).message(),
            fmt::format("This machine's processor has no avx512; the best that it has is {}",
                        isa_name(best_isa())));
}

// ---- plans
// -------------------------------------------------------------------------------------------------------

TEST(CpuExecutorTest, IsNamedForItsInstructionSet) {
  RigOptions options;
  options.executor.isa = Isa::kGeneric;
  const auto rig = make_dummy_rig(small_llama(), DType::kF32, options);
  EXPECT_EQ(rig->executor->name(), "cpu-plain-generic");
  EXPECT_EQ(rig->executor->isa(), Isa::kGeneric);
  EXPECT_EQ(rig->executor->max_in_flight(), 2);
}

TEST(CpuExecutorTest, AnEmptyPlanIsAStep) {
  const auto rig = make_dummy_rig(small_llama(), DType::kF32);
  StepPlan plan;
  StepResult result;
  ASSERT_TRUE(rig->executor->launch(plan).is_ok());
  ASSERT_TRUE(rig->executor->collect(result).is_ok());
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_GT(result.ready_ns, 0);
}

TEST(CpuExecutorTest, AChunkSamplesNothing) {
  const auto rig = make_dummy_rig(small_llama(), DType::kF32);
  rig->driver->add(1, std::vector<int32_t>(20, 3));
  ASSERT_TRUE(rig->driver->step({{1, 10}}).is_ok());
  EXPECT_TRUE(rig->driver->at(1).generated().empty());
  ASSERT_TRUE(rig->driver->step({{1, 10}}).is_ok());
  EXPECT_EQ(rig->driver->at(1).generated().size(), 1u);
}

// The plan of one request's single entry, tokens and blocks given.
StepPlan single(int64_t step, RequestId id, int32_t computed, std::vector<int32_t> tokens,
                std::vector<BlockId> blocks, bool starts) {
  StepPlan plan;
  plan.step = step;
  plan.entries.push_back({.id = id,
                          .num_tokens = static_cast<int32_t>(tokens.size()),
                          .num_computed = computed,
                          .samples = true,
                          .starts = starts});
  plan.tokens = std::move(tokens);
  plan.block_counts = {static_cast<int32_t>(blocks.size())};
  plan.blocks = std::move(blocks);
  plan.total_tokens = static_cast<int64_t>(plan.tokens.size());
  return plan;
}

TEST(CpuExecutorTest, ATokenInFlightIsTheOneSampledBefore) {
  const auto alone = make_dummy_rig(small_llama(), DType::kF32);
  alone->driver->add(1, {5, 6, 7});
  ASSERT_TRUE(alone->driver->generate(1, 6).is_ok());

  const auto rig = make_dummy_rig(small_llama(), DType::kF32);
  rig->executor->add_request(1, {});
  std::vector<StepPlan> plans{single(0, 1, 0, {5, 6, 7}, {4}, true)};
  for (int32_t i = 0; i < 5; ++i) plans.push_back(single(i + 1, 1, 3 + i, {kTokenInFlight}, {}, false));
  std::vector<int32_t> tokens;
  StepResult result;
  ASSERT_TRUE(rig->executor->launch(plans[0]).is_ok());
  for (size_t i = 1; i < plans.size(); ++i) {
    ASSERT_TRUE(rig->executor->launch(plans[i]).is_ok());
    ASSERT_TRUE(rig->executor->collect(result).is_ok());
    tokens.push_back(result.tokens.at(0));
  }
  ASSERT_TRUE(rig->executor->collect(result).is_ok());
  tokens.push_back(result.tokens.at(0));
  EXPECT_EQ(tokens, alone->driver->at(1).generated());
}

TEST(CpuExecutorTest, RequestsWithoutASeedDrawByTheEnginesSeedAndTheirNumber) {
  SamplingParams params;
  params.temperature = 1.5;
  const auto tokens = [&](RequestId id, int64_t engine_seed, std::optional<int64_t> seed) {
    RigOptions options;
    options.executor.seed = engine_seed;
    const auto rig = make_dummy_rig(small_llama(), DType::kF32, options);
    SamplingParams mine = params;
    mine.seed = seed;
    rig->driver->add(id, {1, 2, 3}, mine);
    EXPECT_TRUE(rig->driver->generate(id, 12).is_ok());
    return rig->driver->at(id).generated();
  };
  EXPECT_EQ(tokens(1, 42, std::nullopt), tokens(1, 42, std::nullopt));
  EXPECT_NE(tokens(1, 42, std::nullopt), tokens(2, 42, std::nullopt));
  EXPECT_NE(tokens(1, 42, std::nullopt), tokens(1, 43, std::nullopt));
  EXPECT_EQ(tokens(1, 42, 7), tokens(2, 43, 7));
}

// ---- plans that do not belong to the executor
// ---------------------------------------------------------------------

class WrongPlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RigOptions options;
    options.blocks = 10;
    options.executor = config_of(2, 40, 1);
    rig_ = make_dummy_rig(small_llama(), DType::kF32, options);
    rig_->executor->add_request(1, {});
  }
  std::string error(const StepPlan& plan) {
    StepResult result;
    const Status launched = rig_->executor->launch(plan);
    if (!launched.is_ok()) return launched.message();
    const Status status = rig_->executor->collect(result);
    EXPECT_EQ(status.code(), StatusCode::kFailed);
    return status.message();
  }
  std::unique_ptr<Rig> rig_;
};

TEST_F(WrongPlanTest, AnUnknownRequest) {
  EXPECT_EQ(error(single(3, 9, 0, {1}, {1}, true)), "Step 3 names request 9, which was never added");
}
TEST_F(WrongPlanTest, AnEndedRequest) {
  StepPlan plan = single(3, 1, 0, {1}, {1}, true);
  plan.ended = {1};
  EXPECT_EQ(error(plan), "Step 3 names request 1, which was never added");
}
TEST_F(WrongPlanTest, TooFewBlocks) {
  EXPECT_EQ(error(single(3, 1, 0, std::vector<int32_t>(17, 1), {4}, true)),
            "Step 3 computes positions 0 to 16 of request 1, whose blocks of group 0 hold 16");
}
TEST_F(WrongPlanTest, BlocksOfAPreemptedRequestAreVoid) {
  StepResult result;
  const StepPlan first = single(3, 1, 0, {1}, {4}, true);
  ASSERT_TRUE(rig_->executor->launch(first).is_ok());
  ASSERT_TRUE(rig_->executor->collect(result).is_ok());
  StepPlan plan = single(4, 1, 1, {1}, {}, false);
  plan.preempted = {1};
  EXPECT_EQ(error(plan), "Step 4 computes positions 1 to 1 of request 1, whose blocks of group 0 hold 0");
}
TEST_F(WrongPlanTest, ABlockOutsideThePool) {
  EXPECT_EQ(error(single(3, 1, 0, {1}, {10}, true)), "Step 3 gives request 1 block 10, but the pool has 10");
  // What went wrong once stays wrong: later plans would build on it.
  EXPECT_EQ(error(single(4, 1, 0, {1}, {1}, true)), "Step 3 gives request 1 block 10, but the pool has 10");
}
TEST_F(WrongPlanTest, ATokenOutsideTheVocabulary) {
  EXPECT_EQ(error(single(3, 1, 0, {96}, {1}, true)),
            "Step 3 has token 96 for request 1, outside the vocabulary of 96");
}
TEST_F(WrongPlanTest, ATokenInFlightThatNobodySampled) {
  EXPECT_EQ(error(single(3, 1, 0, {kTokenInFlight}, {1}, true)),
            "Step 3 has token -1 for request 1, outside the vocabulary of 96");
}
TEST_F(WrongPlanTest, TooManyTokens) {
  EXPECT_EQ(error(single(3, 1, 0, std::vector<int32_t>(41, 1), {1, 2, 3}, true)),
            "Step 3 has 41 tokens, more than max_num_batched_tokens = 40");
}
TEST_F(WrongPlanTest, NothingToCollectAndTooManyInFlight) {
  StepResult result;
  EXPECT_EQ(rig_->executor->collect(result).message(), "There is no step to collect");
  const StepPlan a, b, c;
  ASSERT_TRUE(rig_->executor->launch(a).is_ok());
  ASSERT_TRUE(rig_->executor->launch(b).is_ok());
  EXPECT_EQ(rig_->executor->launch(c).message(), "Step 0 was launched while 2 steps were in flight");
  EXPECT_TRUE(rig_->executor->collect(result).is_ok());
  EXPECT_TRUE(rig_->executor->collect(result).is_ok());
}
TEST_F(WrongPlanTest, APoolTwiceOrNever) {
  EXPECT_EQ(rig_->executor->allocate_kv(rig_->plan).message(), "The KV pool was allocated before");
  RealClock clock;
  const auto memory = make_cpu_device_memory();
  auto weights = load_weights("", small_llama(), LoadFormat::kDummy, DType::kF32, 1);
  const auto executor =
      CpuExecutor::create(small_llama(), std::move(weights).value(), config_of(1, 1, 1), *memory, clock);
  StepPlan plan;
  EXPECT_EQ((*executor)->launch(plan).message(), "Step 0 was launched before the KV pool was allocated");
}
TEST_F(WrongPlanTest, APlanThatIsSmallerThanItsLayers) {
  RealClock clock;
  const auto memory = make_cpu_device_memory();
  auto weights = load_weights("", small_llama(), LoadFormat::kDummy, DType::kF32, 1);
  const auto executor =
      CpuExecutor::create(small_llama(), std::move(weights).value(), config_of(1, 1, 1), *memory, clock);
  KvPlan plan = rig_->plan;
  plan.spec.bytes_per_block /= 2;  // the public defect: bytes of one layer for all of them
  EXPECT_EQ((*executor)->allocate_kv(plan).message(),
            "The KV plan gives 2048 bytes to a block, but the layers of group 0 need 4096");
  plan = rig_->plan;
  plan.pool_bytes -= 1;
  EXPECT_EQ((*executor)->allocate_kv(plan).message(),
            "The KV plan has 10 blocks of 4096 bytes, more than its pool of 40959 bytes");
  plan = rig_->plan;
  plan.spec.groups[0].layers.pop_back();
  EXPECT_EQ((*executor)->allocate_kv(plan).message(), "The KV plan has no place for layer 1");
  EXPECT_EQ(memory->held_bytes(MemoryPurpose::kKvCache), 0);
}

TEST(CpuExecutorTest, LogitsThatAreNotNumbersEndTheStep) {
  RealClock clock;
  const auto memory = make_cpu_device_memory();
  const ModelConfig model = small_llama();
  ModelWeights weights = load_weights("", model, LoadFormat::kDummy, DType::kF32, 1).value();
  std::vector<float> poisoned(static_cast<size_t>(model.hidden_size), 1.0f);
  poisoned[3] = NAN;
  weights.layers[1].attn_norm.data = reinterpret_cast<const std::byte*>(poisoned.data());
  auto executor = CpuExecutor::create(model, std::move(weights), config_of(2, 8, 1), *memory, clock);
  ASSERT_TRUE(executor.is_ok());
  ASSERT_TRUE((*executor)->allocate_kv(make_test_plan(model, KvCacheDType::kFloat32, 16, 4)).is_ok());
  (*executor)->add_request(1, {});
  const StepPlan plan = single(8, 1, 0, {1, 2}, {1}, true);
  StepResult result;
  ASSERT_TRUE((*executor)->launch(plan).is_ok());
  const Status status = (*executor)->collect(result);
  EXPECT_EQ(status.code(), StatusCode::kFailed);
  EXPECT_EQ(status.message(), "Step 8: the logits of request 1 are not finite, so no token can be chosen");
}

TEST(CpuExecutorTest, GoesAwayWithStepsInFlight) {
  const auto rig = make_dummy_rig(small_llama(), DType::kF32);
  rig->executor->add_request(1, {});
  const StepPlan first = single(0, 1, 0, {1, 2}, {1}, true),
                 second = single(1, 1, 2, {kTokenInFlight}, {}, false);
  ASSERT_TRUE(rig->executor->launch(first).is_ok());
  ASSERT_TRUE(rig->executor->launch(second).is_ok());
  rig->driver.reset();
  rig->executor.reset();
  EXPECT_EQ(rig->memory->held_bytes(MemoryPurpose::kWorkspace), 0);
  EXPECT_EQ(rig->memory->held_bytes(MemoryPurpose::kKvCache), 0);
}

}  // namespace
}  // namespace vllm::testing
