// An engine from options to tokens, on a tiny dummy model and on the default model: what is planned is what
// is taken, what does not fit is refused before anything is taken, and tokens do not depend on company.

#include "engine/engine.h"

#include <thread>

#include "base/memory_facts.h"
#include "base/units.h"
#include "engine/support.h"
#include "formats/json.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::prompt_of;
using testing::TempDir;

constexpr const char* kTinyConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
  "rope_theta": 10000.0, "tie_word_embeddings": true, "torch_dtype": "float32",
  "bos_token_id": 1, "eos_token_id": 2})";

constexpr const char* kMixtralConfig = R"({
  "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu",
  "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
  "rope_theta": 10000.0, "num_local_experts": 4, "num_experts_per_tok": 2, "torch_dtype": "bfloat16"})";

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() { testing::write_text(dir_ / "config.json", kTinyConfig); }

  Options tiny() const {
    Options options;
    options.model.model = dir_.path();
    options.model.load_format = LoadFormat::kDummy;
    options.kv.num_blocks = 64;
    options.scheduler.max_num_seqs = 8;
    options.scheduler.max_num_batched_tokens = 64;
    options.runtime.threads = 2;
    return options;
  }
  Result<std::unique_ptr<Engine>> start(const Options& options, const EngineSettings& settings = {}) {
    return Engine::start(options, settings, clock_);
  }

  TempDir dir_;
  RealClock clock_;
};

// Submits all prompts at once and returns their tokens.
std::vector<std::vector<int32_t>> generate(Engine& engine, const std::vector<std::vector<int32_t>>& prompts,
                                           int32_t max_tokens) {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<size_t, EngineResult> results;
  for (size_t i = 0; i < prompts.size(); ++i) {
    EngineRequest request;
    request.name = fmt::format("r{}", i);
    request.prompt = prompts[i];
    request.max_tokens = request.min_tokens = max_tokens;
    request.ignore_eos = true;
    EngineCallbacks callbacks;
    callbacks.on_end = [&, i](RequestId, EngineResult result) {
      const std::lock_guard lock(mutex);
      results[i] = std::move(result);
      changed.notify_all();
    };
    const auto submitted = engine.submit(std::move(request), std::move(callbacks));
    EXPECT_TRUE(submitted.is_ok()) << submitted.status().message();
    if (!submitted.is_ok()) return {};
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return results.size() == prompts.size(); });
  std::vector<std::vector<int32_t>> tokens;
  for (const auto& [index, result] : results) {
    EXPECT_TRUE(result.status.is_ok()) << result.status.message();
    EXPECT_EQ(result.reason, EndReason::kLength);
    tokens.push_back(result.tokens);
  }
  return tokens;
}

std::vector<std::vector<int32_t>> tiny_prompts() {
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 6; ++i) prompts.push_back(prompt_of(10 + 13 * i, 20 + 31 * i));
  return prompts;
}

// ---- starting

TEST_F(EngineTest, WhatIsPlannedIsWhatIsTaken) {
  const auto engine = start(tiny());
  ASSERT_TRUE(engine.is_ok()) << engine.status().message();
  const EngineFacts& facts = (*engine)->facts();
  EXPECT_EQ(facts.model.architecture, "LlamaForCausalLM");
  EXPECT_EQ(facts.plan.blocks, 64);
  EXPECT_EQ(facts.plan.decided_by, "num-blocks");
  // 2 layers, 2 KV heads of 16 + 16 elements, 16 tokens, float32.
  EXPECT_EQ(facts.plan.pool_bytes, 64 * 2 * 16 * 2 * 32 * 4);
  EXPECT_EQ(facts.pool_bytes, facts.plan.pool_bytes);
  EXPECT_EQ((*engine)->memory().held_bytes(MemoryPurpose::kKvCache), facts.plan.pool_bytes);
  EXPECT_EQ(facts.dtype, "float32");
  EXPECT_EQ(facts.threads, 2);
  EXPECT_EQ(facts.scheduler.num_blocks, 64);
  EXPECT_EQ(facts.scheduler.max_model_len, 256);
  EXPECT_THAT(facts.executor, HasSubstr("cpu"));
  EXPECT_FALSE(facts.null_executor);
  EXPECT_GT(facts.weights_bytes, 0);
  EXPECT_GE(facts.load_ns, facts.weights_load_ns);
}

TEST_F(EngineTest, ThePlanWithoutAnEngineIsTheEngines) {
  for (const Program program : {Program::kServer, Program::kCli, Program::kBenchRun, Program::kProfile}) {
    Options by_blocks = tiny();
    by_blocks.program = program;
    Options by_bytes = by_blocks;
    by_bytes.kv.num_blocks.reset();
    by_bytes.kv.kv_cache_memory_bytes = kMiB;
    for (const Options& options : {by_blocks, by_bytes}) {
      const auto plan = plan_without_engine(options);
      ASSERT_TRUE(plan.is_ok()) << plan.status().message();
      ASSERT_TRUE(plan->status.is_ok()) << plan->status.message();
      const auto engine = start(options);
      ASSERT_TRUE(engine.is_ok()) << engine.status().message();
      EXPECT_EQ(kv_plan_json(plan->plan).dump(), kv_plan_json((*engine)->facts().plan).dump());
      EXPECT_EQ(kv_plan_text(plan->plan), kv_plan_text((*engine)->facts().plan));
      EngineSettings null;
      null.null_executor = true;
      const auto null_engine = start(options, null);
      ASSERT_TRUE(null_engine.is_ok());
      EXPECT_EQ(kv_plan_json(plan->plan).dump(), kv_plan_json((*null_engine)->facts().plan).dump());
    }
  }
}

TEST_F(EngineTest, WithoutAKnobTheWorkspaceIsMeasured) {
  Options options = tiny();
  options.kv.num_blocks.reset();
  const auto engine = start(options);
  ASSERT_TRUE(engine.is_ok()) << engine.status().message();
  const KvPlan& plan = (*engine)->facts().plan;
  EXPECT_EQ(plan.decided_by, "default");
  EXPECT_TRUE(plan.measured);
  EXPECT_TRUE(plan.fits);
  ASSERT_TRUE(plan.workspace_bytes.has_value());
  EXPECT_EQ(*plan.workspace_bytes, (*engine)->facts().workspace_bytes);
  EXPECT_GE(*plan.workspace_bytes, (*engine)->memory().held_bytes(MemoryPurpose::kWorkspace));
  EXPECT_EQ((*engine)->memory().held_bytes(MemoryPurpose::kKvCache), plan.pool_bytes);
  EXPECT_LE(plan.pool_bytes, kGiB);
}

// Replay's default of bfloat16 is the option parser's: an explicit --dtype auto means the same in every
// program.
TEST_F(EngineTest, TheTypeIsTheConfigsUnlessGiven) {
  Options options = tiny();
  for (const Program program : {Program::kServer, Program::kBenchRun}) {
    options.program = program;
    EXPECT_EQ(plan_without_engine(options)->plan.spec.dtype, KvCacheDType::kFloat32);
  }
  options.model.dtype = DType::kF16;
  EXPECT_EQ(plan_without_engine(options)->plan.spec.dtype, KvCacheDType::kFloat16);
  options.kv.kv_cache_dtype = KvCacheDType::kFp8;
  EXPECT_EQ(plan_without_engine(options)->plan.spec.dtype, KvCacheDType::kFp8);
}

TEST_F(EngineTest, WhatThisBuildCannotRunIsRefusedByName) {
  const auto refusal = [this](void (*change)(Options&)) {
    Options options = tiny();
    change(options);
    const auto engine = start(options);
    EXPECT_FALSE(engine.is_ok());
    EXPECT_EQ(exit_code(engine.status()), 2);
    return engine.status().message();
  };
  EXPECT_THAT(refusal([](Options& o) { o.runtime.device = DeviceKind::kCuda; }), HasSubstr("--device cuda"));
  EXPECT_THAT(refusal([](Options& o) { o.parallel.tensor_parallel_size = 2; }),
              HasSubstr("--tensor-parallel-size 2"));
  EXPECT_THAT(refusal([](Options& o) { o.parallel.data_parallel_size = 3; }),
              HasSubstr("--data-parallel-size 3"));
  EXPECT_THAT(refusal([](Options& o) { o.parallel.enable_expert_parallel = true; }),
              HasSubstr("--enable-expert-parallel"));
  EXPECT_THAT(refusal([](Options& o) {
                o.kv.device_memory = DeviceMemoryOption{kGiB, false};
              }),
              HasSubstr("--device-memory"));
  EXPECT_THAT(refusal([](Options& o) { o.model.model = "/nowhere/at/all"; }), HasSubstr("/nowhere/at/all"));

  TempDir mixtral;
  testing::write_text(mixtral / "config.json", kMixtralConfig);
  Options options = tiny();
  options.model.model = mixtral.path();
  const auto engine = start(options);
  ASSERT_FALSE(engine.is_ok());
  EXPECT_EQ(exit_code(engine.status()), 2);
  EXPECT_THAT(engine.status().message(), HasSubstr("--model " + mixtral.path()));
  // Its plan works all the same.
  const auto plan = plan_without_engine(options);
  ASSERT_TRUE(plan.is_ok()) << plan.status().message();
  EXPECT_TRUE(plan->plan.fits);
}

TEST_F(EngineTest, ADeviceThatIsNotHereIsPlannedWithItsRanks) {
  Options options = tiny();
  options.kv.num_blocks.reset();
  options.model.dtype = DType::kBF16;
  options.kv.device_memory = DeviceMemoryOption{80 * kGiB, false};
  options.parallel.tensor_parallel_size = 2;
  options.runtime.device = DeviceKind::kCuda;
  const auto plan = plan_without_engine(options);
  ASSERT_TRUE(plan.is_ok()) << plan.status().message();
  EXPECT_TRUE(plan->status.is_ok()) << plan->status.message();
  EXPECT_EQ(plan->plan.device, "cuda");
  EXPECT_EQ(plan->plan.total_bytes, 80 * kGiB);
  EXPECT_EQ(plan->plan.spec.tensor_parallel_size, 2);
  options.kv.device_memory.reset();
  EXPECT_THAT(plan_without_engine(options).status().message(), HasSubstr("--device-memory"));
}

TEST_F(EngineTest, ABudgetLargerThanMemoryIsRefusedBeforeAnythingIsTaken) {
  // Once before, so that what a first start loads of libraries does not count.
  ASSERT_TRUE(start(tiny()).is_ok());
  const ProcessMemory before = read_process_memory();
  Options options = tiny();
  options.kv.num_blocks.reset();
  options.kv.kv_cache_memory_bytes = int64_t{1} << 50;

  options.model.load_format = LoadFormat::kDummy;
  const auto engine = start(options);
  ASSERT_FALSE(engine.is_ok());
  EXPECT_EQ(exit_code(engine.status()), 2);
  EXPECT_THAT(engine.status().message(), HasSubstr("--kv-cache-memory 1125899906842624"));
  EXPECT_THAT(engine.status().message(), HasSubstr("\n"));  // the table follows
  const ProcessMemory after = read_process_memory();
  EXPECT_LE(after.rss_bytes - before.rss_bytes, 4 * kMiB);
  EXPECT_LE(after.peak_rss_bytes - before.peak_rss_bytes, 4 * kMiB);
}

// A device whose free memory the test decides.
class ScriptedMemory final : public DeviceMemory {
 public:
  DeviceMemoryInfo info() const override {
    DeviceMemoryInfo info{"cpu", 64 * kGiB, free_bytes, false};
    if (looks_until_neighbour > 0 && --looks_until_neighbour == 0) free_bytes = neighbour_leaves;
    return info;
  }
  Result<DeviceBuffer> allocate(MemoryPurpose purpose, int64_t bytes) override {
    ++allocations;
    return real->allocate(purpose, bytes);
  }
  int64_t held_bytes(MemoryPurpose purpose) const override { return real->held_bytes(purpose); }
  int64_t peak_held_bytes(MemoryPurpose purpose) const override { return real->peak_held_bytes(purpose); }

  std::unique_ptr<DeviceMemory> real = make_cpu_device_memory();
  mutable int64_t free_bytes = 32 * kGiB;
  mutable int looks_until_neighbour = 0;
  int64_t neighbour_leaves = 0;
  int allocations = 0;

 protected:
  void release(MemoryPurpose, std::byte*, int64_t) override {}  // buffers belong to the real one
};

TEST_F(EngineTest, ABusyDeviceIsRefusedWithoutASingleAllocation) {
  ScriptedMemory memory;
  memory.free_bytes = 100 * kMiB;  // less than the reserve
  EngineSettings settings;
  settings.memory = &memory;
  Options options = tiny();
  for (int knob = 0; knob < 4; ++knob) {
    options.kv = KvOptions{};
    if (knob == 0) options.kv.num_blocks = 64;
    if (knob == 1) options.kv.kv_cache_memory_bytes = kMiB;
    if (knob == 2) options.kv.gpu_memory_utilization = 0.5;
    const auto engine = start(options, settings);
    ASSERT_FALSE(engine.is_ok()) << "knob " << knob;
    EXPECT_EQ(engine.status().code(), StatusCode::kRefused);
  }
  EXPECT_EQ(memory.allocations, 0);
}

TEST_F(EngineTest, ANeighbourThatTakesMemoryDuringTheStartIsSeenBeforeThePool) {
  ScriptedMemory memory;
  memory.looks_until_neighbour = 1;  // the plan still sees it free
  memory.neighbour_leaves = 256 * kKiB;
  EngineSettings settings;
  settings.memory = &memory;
  const auto engine = start(tiny(), settings);
  ASSERT_FALSE(engine.is_ok());
  EXPECT_EQ(engine.status().code(), StatusCode::kRefused);
  EXPECT_THAT(engine.status().message(), HasSubstr("no longer fit"));
  EXPECT_EQ(memory.held_bytes(MemoryPurpose::kKvCache), 0);
  EXPECT_EQ(memory.peak_held_bytes(MemoryPurpose::kKvCache), 0);
}

TEST_F(EngineTest, AllMemoryIsGivenBack) {
  ScriptedMemory memory;
  EngineSettings settings;
  settings.memory = &memory;
  {
    const auto engine = start(tiny(), settings);
    ASSERT_TRUE(engine.is_ok()) << engine.status().message();
    EXPECT_GT(memory.held_bytes(MemoryPurpose::kKvCache), 0);
  }
  for (const MemoryPurpose purpose :
       {MemoryPurpose::kWeights, MemoryPurpose::kKvCache, MemoryPurpose::kWorkspace}) {
    EXPECT_EQ(memory.held_bytes(purpose), 0) << memory_purpose_name(purpose);
  }
}

// ---- the null executor

TEST_F(EngineTest, TheNullExecutorTakesNoMemoryAndAnswers) {
  EngineSettings settings;
  settings.null_executor = true;
  int64_t steps = 0;
  settings.on_step = [&steps](const StepPlan&, const StepRecord&) { ++steps; };
  Options options = tiny();
  options.scheduler.scheduling_depth = 2;
  const auto engine = start(options, settings);
  ASSERT_TRUE(engine.is_ok()) << engine.status().message();
  const EngineFacts& facts = (*engine)->facts();
  EXPECT_TRUE(facts.null_executor);
  EXPECT_EQ(facts.executor, "null");
  EXPECT_EQ(facts.weights_bytes, 0);
  EXPECT_EQ(facts.pool_bytes, 0);
  EXPECT_EQ((*engine)->memory().held_bytes(MemoryPurpose::kKvCache), 0);
  EXPECT_EQ(facts.plan.blocks, 64);
  const auto tokens = generate(**engine, tiny_prompts(), 20);
  for (const auto& row : tokens) {
    EXPECT_EQ(row.size(), 20u);
    for (const int32_t token : row) EXPECT_TRUE(token >= 0 && token < 512);
  }
  (*engine)->shutdown(0);
  EXPECT_EQ(steps, (*engine)->counters().steps);
}

TEST_F(EngineTest, TheNullExecutorTakesTheGivenTime) {
  EngineSettings settings;
  settings.null_executor = true;
  settings.null_step_ns = 3 * kNsPerMs;
  const auto engine = start(tiny(), settings);
  ASSERT_TRUE(engine.is_ok());
  const TimeNs before_ns = clock_.now_ns();
  generate(**engine, {prompt_of(10)}, 5);
  EXPECT_GE(clock_.now_ns() - before_ns, 5 * 3 * kNsPerMs);
}

// ---- real tokens

TEST_F(EngineTest, TokensAreTheSameAloneTogetherChunkedAndPreempted) {
  const auto prompts = tiny_prompts();
  constexpr int32_t kTokens = 40;
  std::vector<std::vector<int32_t>> alone;
  {
    Options options = tiny();
    options.scheduler.enable_prefix_caching = false;
    options.scheduler.max_num_batched_tokens = 256;
    const auto engine = start(options);
    ASSERT_TRUE(engine.is_ok()) << engine.status().message();
    for (const auto& prompt : prompts) alone.push_back(generate(**engine, {prompt}, kTokens).at(0));
  }
  // Not the same for all, or the test would see nothing.
  EXPECT_NE(alone[0], alone[1]);

  const auto engine = start(tiny());
  ASSERT_TRUE(engine.is_ok()) << engine.status().message();
  EXPECT_EQ(generate(**engine, prompts, kTokens), alone);
  EXPECT_EQ((*engine)->counters().preemptions, 0);
  EXPECT_EQ(generate(**engine, prompts, kTokens), alone) << "with prefix hits";
  EXPECT_GT((*engine)->counters().prompt_tokens_cached, 0);

  for (const bool caching : {true, false}) {
    Options small = tiny();
    small.kv.num_blocks = 13;
    small.model.max_model_len = 128;
    small.scheduler.max_num_batched_tokens = 24;
    small.scheduler.reserve_full_isl = false;
    small.scheduler.enable_prefix_caching = caching;
    const auto crowded = start(small);
    ASSERT_TRUE(crowded.is_ok()) << crowded.status().message();
    EXPECT_EQ(generate(**crowded, prompts, kTokens), alone);
    EXPECT_GT((*crowded)->counters().preemptions, 0);
    EXPECT_EQ((*crowded)->counters().used_blocks, 0);
  }
}

TEST_F(EngineTest, BothDepthsGiveTheSameTokensWhereTheExecutorCan) {
  Options deep = tiny();
  deep.scheduler.scheduling_depth = 2;
  const auto second = start(deep);
  if (!second.is_ok()) {
    EXPECT_EQ(second.status().code(), StatusCode::kRefused);
    EXPECT_THAT(second.status().message(), HasSubstr("--scheduling-depth 2"));
    return;
  }
  const auto first = start(tiny());
  ASSERT_TRUE(first.is_ok());
  EXPECT_EQ(generate(**first, tiny_prompts(), 30), generate(**second, tiny_prompts(), 30));
}

TEST_F(EngineTest, TwoEnginesAtOnceGiveTheSameAsOne) {
  const auto first = start(tiny());
  ASSERT_TRUE(first.is_ok()) << first.status().message();
  const auto expected = generate(**first, tiny_prompts(), 30);
  const auto second = start(tiny());
  ASSERT_TRUE(second.is_ok()) << second.status().message();
  EXPECT_EQ((*second)->memory().held_bytes(MemoryPurpose::kKvCache), (*second)->facts().plan.pool_bytes);
  ASSERT_TRUE((*first)->reset_for_measurement());
  std::vector<std::vector<int32_t>> from_first, from_second;
  std::thread other([&] { from_second = generate(**second, tiny_prompts(), 30); });
  from_first = generate(**first, tiny_prompts(), 30);
  other.join();
  EXPECT_EQ(from_first, expected);
  EXPECT_EQ(from_second, expected);
}

TEST_F(EngineTest, ARequestThatCanNeverFitIsRefusedWithBothNumbers) {
  const auto engine = start(tiny());
  ASSERT_TRUE(engine.is_ok());
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<EngineResult> result;
  EngineRequest request;
  request.name = "bench-7";
  request.prompt = prompt_of(300, 10);
  ASSERT_TRUE((*engine)
                  ->submit(std::move(request), {{},
                                                [&](RequestId, EngineResult r) {
                                                  const std::lock_guard lock(mutex);
                                                  result = std::move(r);
                                                  changed.notify_all();
                                                }})
                  .is_ok());
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return result.has_value(); });
  EXPECT_EQ(result->status.code(), StatusCode::kRefused);
  EXPECT_THAT(result->status.message(), HasSubstr("bench-7"));
  EXPECT_THAT(result->status.message(), HasSubstr("300"));
  EXPECT_THAT(result->status.message(), HasSubstr("256"));
}

TEST_F(EngineTest, TheDefaultModelGivesTheSameTokensAloneTogetherAndPreempted) {
  const auto path = testing::default_model_path();
  if (!path) GTEST_SKIP() << "the default model is not there";
  Options options;
  options.model.model = *path;
  options.model.max_model_len = 128;
  options.kv.num_blocks = 64;
  options.scheduler.max_num_seqs = 4;
  options.scheduler.max_num_batched_tokens = 64;
  const std::vector<std::vector<int32_t>> prompts = {{504, 3575, 282, 4649, 314},
                                                     {1, 4093, 198, 19556, 2, 198, 1, 520, 9531, 198},
                                                     {504, 2365, 6354, 16438, 690, 260}};
  constexpr int32_t kTokens = 16;
  const auto engine = start(options);
  ASSERT_TRUE(engine.is_ok()) << engine.status().message();
  EXPECT_EQ((*engine)->facts().dtype, "as stored");
  EXPECT_EQ((*engine)->facts().plan.spec.dtype, KvCacheDType::kBFloat16);
  std::vector<std::vector<int32_t>> alone;
  for (const auto& prompt : prompts) alone.push_back(generate(**engine, {prompt}, kTokens).at(0));
  EXPECT_EQ(generate(**engine, prompts, kTokens), alone);

  options.kv.num_blocks = 4;
  options.model.max_model_len = 40;
  options.scheduler.reserve_full_isl = false;
  const auto crowded = start(options);
  ASSERT_TRUE(crowded.is_ok()) << crowded.status().message();
  EXPECT_EQ(generate(**crowded, prompts, kTokens), alone);
  EXPECT_GT((*crowded)->counters().preemptions, 0);
}

}  // namespace
}  // namespace vllm
