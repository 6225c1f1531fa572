// The plain CPU forward, and its parts. SmolLM2's file is used where it is; the shapes are its own otherwise
// too.

#include <benchmark/benchmark.h>

#include <filesystem>

#include "backend/cpu/cpu_executor.h"
#include "backend/cpu/kernels.h"
#include "base/random.h"
#include "config/model_config.h"
#include "kv/spec.h"
#include "sample/sampler.h"

namespace vllm {
namespace {

constexpr const char* kModelPath = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

// An executor on the real model with `sequences` requests that have `context` tokens each.
class Fixture {
 public:
  Fixture(int sequences, int context, int threads) : sequences_(sequences) {
    auto model = load_model_config(kModelPath);
    if (!model.is_ok()) return;
    auto weights = load_weights(kModelPath, *model, LoadFormat::kAuto, DType::kF32, 0);
    if (!weights.is_ok()) return;
    CpuExecutorConfig config;
    config.max_num_seqs = sequences;
    config.max_num_batched_tokens = std::max(sequences, context);
    config.threads = threads;
    auto executor = CpuExecutor::create(*model, std::move(weights).value(), config, *memory_, clock_);
    if (!executor.is_ok()) return;
    executor_ = std::move(executor).value();
    KvPlan plan;
    plan.spec.block_size = 16;
    plan.spec.dtype = KvCacheDType::kBFloat16;
    plan.spec.groups.resize(1);
    for (int i = 0; i < model->num_layers; ++i) plan.spec.groups[0].layers.push_back(i);
    plan.spec.bytes_per_block = 16 * model->num_layers * model->num_kv_heads * 2 * model->head_dim * 2;
    blocks_each_ = (context + 64) / 16 + 1;
    plan.blocks = int64_t{blocks_each_} * sequences + 1;
    plan.pool_bytes = plan.blocks * plan.spec.bytes_per_block;
    if (!executor_->allocate_kv(plan).is_ok()) executor_.reset();
  }
  bool ok() const { return executor_ != nullptr; }

  // Every sequence computes tokens [computed, computed + tokens).
  void step(int computed, int tokens) {
    StepPlan plan;
    for (int s = 0; s < sequences_; ++s) {
      const auto id = static_cast<RequestId>(s);
      if (computed == 0) executor_->add_request(id, {});
      plan.entries.push_back({.id = id,
                              .num_tokens = tokens,
                              .num_computed = computed,
                              .samples = true,
                              .starts = computed == 0,
                              .token_offset = s * tokens,
                              .block_offset = static_cast<int32_t>(plan.blocks.size()),
                              .block_count_offset = s});
      for (int t = 0; t < tokens; ++t) plan.tokens.push_back((s * 31 + t * 7) % 49152);
      for (int b = 0; computed == 0 && b < blocks_each_; ++b) plan.blocks.push_back(s * blocks_each_ + b + 1);
      plan.block_counts.push_back(computed == 0 ? blocks_each_ : 0);
    }
    StepResult result;
    if (!executor_->launch(plan).is_ok() || !executor_->collect(result).is_ok()) std::abort();
  }

 private:
  int sequences_, blocks_each_ = 0;
  RealClock clock_;
  std::unique_ptr<DeviceMemory> memory_ = make_cpu_device_memory();
  std::unique_ptr<CpuExecutor> executor_;
};

void prefill(benchmark::State& state) {
  const int tokens = static_cast<int>(state.range(0));
  Fixture fixture(1, tokens, static_cast<int>(state.range(1)));
  if (!fixture.ok())
    return state.SkipWithError("run from the root of the checkout, with the model in models/");
  for (auto _ : state) fixture.step(0, tokens);
  state.SetItemsProcessed(state.iterations() * tokens);
}
BENCHMARK(prefill)
    ->ArgsProduct({{128, 512}, {1, 2}})
    ->ArgNames({"tokens", "threads"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  const int sequences = static_cast<int>(state.range(0));
  constexpr int kContext = 128;
  Fixture fixture(sequences, kContext * sequences, static_cast<int>(state.range(1)));
  if (!fixture.ok())
    return state.SkipWithError("run from the root of the checkout, with the model in models/");
  fixture.step(0, kContext);
  for (auto _ : state) fixture.step(kContext, 1);
  state.SetItemsProcessed(state.iterations() * sequences);
}
BENCHMARK(decode)
    ->ArgsProduct({{1, 8, 32}, {1, 2}})
    ->ArgNames({"sequences", "threads"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void dots(benchmark::State& state) {
  const auto isa = static_cast<Isa>(state.range(0));
  if (isa > best_isa()) return state.SkipWithError("this processor lacks it");
  const int64_t tokens = state.range(1), k = 576, rows = 32;
  const std::vector<float> w(static_cast<size_t>(rows * k), 0.5f), x(static_cast<size_t>(tokens * k), 0.25f);
  std::vector<float> y(static_cast<size_t>(rows * tokens));
  for (auto _ : state) {
    cpu_kernels(isa).dots(w.data(), k, rows, x.data(), k, tokens, k, y.data(), rows);
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["flops"] = benchmark::Counter(static_cast<double>(2 * rows * tokens * k),
                                               benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(dots)->ArgsProduct({{0, 1, 2}, {1, 3, 96}})->ArgNames({"isa", "tokens"});

void dequantise(benchmark::State& state) {
  const auto isa = static_cast<Isa>(state.range(0));
  if (isa > best_isa()) return state.SkipWithError("this processor lacks it");
  const auto type = state.range(1) == 0 ? DType::kQ4_1 : DType::kQ8_0;
  const int64_t n = 576;
  const std::vector<std::byte> source(static_cast<size_t>(dtype_bytes(type, n).value()));
  std::vector<float> out(static_cast<size_t>(n));
  for (auto _ : state) {
    cpu_kernels(isa).dequantise_row(type, source.data(), out.data(), n);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(dequantise)->ArgsProduct({{0, 1, 2}, {0, 1}})->ArgNames({"isa", "q8"});

void sample(benchmark::State& state) {
  const size_t vocab = 49152;
  Random random(1);
  std::vector<float> logits(vocab), weights(vocab);
  std::vector<int32_t> order(vocab);
  for (float& l : logits) l = static_cast<float>(3 * random.normal());
  SamplingParams params;
  params.temperature = state.range(0) == 0 ? 0.0 : 0.8;
  params.top_p = state.range(0) >= 2 ? 0.95 : 1.0;
  params.top_k = state.range(0) >= 3 ? 50 : 0;
  int64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        sample_token(logits, params, 1, position++, {.weights = weights, .order = order}));
  }
}
BENCHMARK(sample)->DenseRange(0, 3)->ArgName("greedy_all_topp_topk")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace vllm
