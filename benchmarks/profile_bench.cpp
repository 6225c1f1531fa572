// Reading a profile bundle's largest table, compiling it, and one look-up. The table is made here, of the
// size and shape that a profiler of today writes (20 chunk lengths, 10 decode counts, 11 or 12 lengths on
// both axes of the cache).

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "sim/latency_model.h"

namespace {

using namespace vllm;

std::string attention_text() {
  std::string text = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  for (const int pc :
       {0, 16, 24, 32, 36, 54, 64, 81, 122, 128, 182, 256, 273, 410, 512, 615, 923, 1024, 1384, 2048}) {
    for (const int nd : {0, 1, 2, 4, 8, 16, 32, 64, 128, 256}) {
      if (pc + nd == 0) continue;
      for (int kp = 0; kp <= 16384; kp = kp == 0 ? 16 : kp * 2) {
        if (pc == 0 && kp > 0) break;
        for (int kd = nd == 0 ? 0 : 16; kd <= 16384; kd = kd == 0 ? 1 << 20 : kd * 2) {
          text += fmt::format("{},{},{},{},{:.6g}\r\n", pc, kp, nd, kd,
                              7.69067 + pc * 0.08 + nd * (kd * 0.001 + 1.5));
        }
      }
    }
  }
  return text;
}

ProfileBundle bundle_of(const std::string& text) {
  ProfileBundle bundle;
  bundle.by_tp[1].attention = parse_attention_csv(text, "attention.csv").value();
  return bundle;
}

Architecture attention_only() {
  Architecture a;
  a.prologue = a.pre_attn = a.mlp_dense = {"attention"};
  a.catalog = {{"attention", ProfiledKind::kAttention, false}};
  return a;
}

void BM_ReadAttention(benchmark::State& state) {
  const std::string text = attention_text();
  size_t rows = 0;
  for (auto _ : state) {
    const auto table = parse_attention_csv(text, "attention.csv");
    rows = table->size();
    benchmark::DoNotOptimize(table);
  }
  state.counters["rows"] = static_cast<double>(rows);
}
BENCHMARK(BM_ReadAttention)->Unit(benchmark::kMillisecond);

void BM_CompileAttention(benchmark::State& state) {
  const ProfileBundle bundle = bundle_of(attention_text());
  const Architecture architecture = attention_only();
  for (auto _ : state) {
    auto model = LatencyModel::compile(bundle, architecture, {"CARD", 1, false}, LatencyPolicies::native());
    benchmark::DoNotOptimize(model);
  }
}
BENCHMARK(BM_CompileAttention)->Unit(benchmark::kMillisecond);

void BM_LookUpAttention(benchmark::State& state) {
  auto model = LatencyModel::compile(bundle_of(attention_text()), attention_only(), {"CARD", 1, false},
                                     LatencyPolicies::native());
  int64_t i = 0;
  for (auto _ : state) {
    ++i;
    benchmark::DoNotOptimize(
        model->attention_table_ns(i * 37 % 2048, i * 91 % 9000, 1 + i % 128, i * 53 % 5000));
  }
}
BENCHMARK(BM_LookUpAttention);

}  // namespace
