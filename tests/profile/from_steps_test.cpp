// From recordings to a step bundle: a bundle is known, runs are simulated with it and recorded, and the fit
// must find it again.

#include "profile/from_steps.h"

#include <array>

#include "base/file.h"
#include "formats/recording.h"
#include "formats/step_log.h"
#include "formats/workload.h"
#include "profile/clean_scale.h"
#include "profile/step_fit.h"
#include "profile/step_terms.h"
#include "sim/least_squares.h"
#include "sim/step_run.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::shared_path;
using testing::TempDir;
using testing::write_text;

StepBundle known_bundle() {
  StepBundle b;
  b.scheduling_depth = 2;
  b.capture_sizes = {1, 2, 4, 8, 16, 32, 64};
  b.full_graph_rows = 32;
  b.host.gap_ms = 0.2;
  b.host.gap_row_ms = 0.01;
  b.host.empty_ms = 0.3;
  b.host.graph_launch_ms = 2;
  b.host.graph_launch_row_ms = 0.05;
  b.host.piecewise_launch_ms = 10;
  b.host.eager_launch_ms = 20;
  b.host.eager_quantiles = {0.7, 0.85, 1, 1.15, 1.3};
  b.host.eager_correlation = 0.5;
  b.host.eager_correlation_s = 0.3;
  b.host.eager_streams = true;
  b.host.eager_head_ms = 2.6;
  b.host.eager_tail_ms = b.host.graph_head_ms = 1;
  b.host.output_ms = 0.05;
  b.host.stamp_ms = 0.1;
  b.graph.terms = {{StepFeature::kConstant, 0, 5},
                   {StepFeature::kPaddedRows, 0, 0.03},
                   {StepFeature::kDecodeContext, 0, 0.1}};
  b.graph.largest_rows = 64;
  b.eager.terms = {{StepFeature::kTokens, 0, 40}, {StepFeature::kDecodeContext, 0, 0.15}};
  return b;
}

StepRunConfig known_config(const StepBundle& b) {
  StepRunConfig config;
  config.scheduler.num_blocks = 4000;
  config.scheduler.max_model_len = 4096;
  config.scheduler.options.max_num_seqs = 32;
  config.scheduler.options.max_num_batched_tokens = 1024;
  config.scheduler.options.scheduling_depth = b.scheduling_depth;
  config.graphs = {b.capture_sizes, b.full_graph_rows};
  return config;
}

struct KnownWorkload {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<StepRunRequest> requests;
};

KnownWorkload known_workload(int count, double gap_ms) {
  KnownWorkload w;
  Random random(3);
  w.prompts.reserve(static_cast<size_t>(count));
  double at_ms = 50;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> prompt(static_cast<size_t>(random.between(100, 1500)));
    for (int32_t& token : prompt) token = static_cast<int32_t>(random.below(1u << 30));
    w.prompts.push_back(std::move(prompt));
    at_ms += gap_ms * random.exponential();
    w.requests.push_back({i + 1, static_cast<TimeNs>(at_ms * 1e6), w.prompts.back(),
                          static_cast<int32_t>(random.between(20, 120))});
  }
  return w;
}

std::string meta_text(const StepBundle& b) {
  return fmt::format(
      R"({{"num_gpu_blocks": 4000, "block_size": 16, "hardware": "a card", "vllm_version": "1", )"
      R"("capture_sizes": [{}], "engine_kwargs": {{"max_num_seqs": 32, "max_num_batched_tokens": 1024, )"
      R"("max_model_len": 4096}}, "scheduler": {{"async_scheduling": "{}"}}}})",
      fmt::join(b.capture_sizes, ", "), b.scheduling_depth == 2 ? "True" : "False");
}

// Simulates and leaves the files of a recording.
void record(const StepBundle& b, const KnownWorkload& w, const std::string& dir, bool steps, uint64_t seed) {
  ASSERT_TRUE(make_directories(dir).is_ok());
  write_text(join_path(dir, "meta.json"), meta_text(b));
  StepRunConfig config = known_config(b);
  config.seed = seed;
  std::vector<StepRecord> records;
  const auto run = run_steps(b, config, w.requests, [&](TimeNs, const CoreCounters&, const StepRecord& step) {
    records.push_back(step);
    // vLLM's logs do not say it, and stamp the outputs before the tokens.
    for (auto& entry : records.back().entries) entry.num_computed = -1;
    records.back().t_out_ns -= static_cast<TimeNs>(b.host.stamp_ms * 1e6);
  });
  ASSERT_TRUE(run.is_ok()) << run.status().message();
  std::string text;
  for (size_t i = 0; i < w.requests.size(); ++i) {
    RequestRecord r;
    r.request_id = fmt::format("bench-{}", i);
    r.input_toks = static_cast<int64_t>(w.requests[i].prompt.size());
    r.output_toks = w.requests[i].output_toks;
    const StepRunTimes& t = run->requests[i];
    r.arrival_time_s = 1e9 + ns_to_s(w.requests[i].arrival_ns);
    r.queued_ts_s = ns_to_s(t.queued_ns);
    r.scheduled_ts_s = ns_to_s(t.scheduled_ns);
    r.first_token_ts_s = ns_to_s(t.first_token_ns);
    r.last_token_ts_s = ns_to_s(t.last_token_ns);
    text += request_record_json(r) + "\n";
  }
  write_text(join_path(dir, "requests.jsonl"), text);
  if (steps) {
    ASSERT_TRUE(write_step_log_jsonl(join_path(dir, "steps.jsonl"), records).is_ok());
  }
}

double coefficient(const StepRegion& region, StepFeature feature) {
  for (const StepTerm& term : region.terms) {
    if (term.feature == feature && term.from == 0) return term.ms;
  }
  return 0;
}

TEST(FromSteps, FindsAKnownBundleAgain) {
  const TempDir dir;
  const StepBundle known = known_bundle();
  record(known, known_workload(300, 100), dir / "steps", true, 1);
  auto recording = read_step_recording(dir / "steps", true);
  ASSERT_TRUE(recording.is_ok()) << recording.status().message();
  EXPECT_EQ(recording->depth, 2);
  const auto fitted = fit_step_bundle({*recording});
  ASSERT_TRUE(fitted.is_ok()) << fitted.status().message();
  EXPECT_NEAR(fitted->host.eager_launch_ms, 20, 1);
  EXPECT_NEAR(fitted->host.graph_launch_ms, 2, 0.3);
  EXPECT_NEAR(fitted->host.gap_ms, 0.2, 0.02);
  EXPECT_NEAR(fitted->host.gap_row_ms, 0.01, 0.002);
  EXPECT_NEAR(coefficient(fitted->graph, StepFeature::kConstant), 5, 0.15);
  EXPECT_NEAR(coefficient(fitted->graph, StepFeature::kDecodeContext), 0.1, 0.01);
  EXPECT_NEAR(coefficient(fitted->eager, StepFeature::kTokens), 40, 2);
  EXPECT_FALSE(fitted->residuals.empty());
  EXPECT_THAT(step_bundle_text(*fitted), HasSubstr("device, graph, 1 to 8 rows"));

  // And a simulation with it gives the statistics of the recording's bundle.
  const KnownWorkload other = known_workload(200, 70);
  RunStatistics a{}, b{};
  for (uint64_t seed = 0; seed < 4; ++seed) {
    StepRunConfig config = known_config(known);
    config.seed = seed;
    const auto with_known = run_statistics(*run_steps(known, config, other.requests), other.requests, false);
    const auto with_fitted =
        run_statistics(*run_steps(*fitted, config, other.requests), other.requests, false);
    for (size_t i = 0; i < kNumRunStatistics; ++i) a[i] += with_known[i], b[i] += with_fitted[i];
  }
  EXPECT_NEAR(b[0] / a[0], 1, 0.05);    // TTFT mean
  EXPECT_NEAR(b[5] / a[5], 1, 0.03);    // TPOT mean
  EXPECT_NEAR(b[10] / a[10], 1, 0.03);  // latency mean
}

TEST(FromSteps, CleanRecordingsScaleTheHost) {
  const TempDir dir;
  StepBundle known = known_bundle();
  const KnownWorkload workload = known_workload(200, 100);
  record(known, workload, dir / "steps", true, 1);
  known.host_scale = 0.85;
  for (const char* name : {"clean", "clean-2"})
    record(known, workload, dir / name, false, name[5] == 0 ? 2 : 3);
  const auto recording = read_step_recording(dir / "steps", true);
  auto fitted = fit_step_bundle({*recording});
  ASSERT_TRUE(fitted.is_ok()) << fitted.status().message();
  std::vector<StepRecording> clean;
  for (const char* name : {"clean", "clean-2"}) clean.push_back(*read_step_recording(dir / name, false));
  const auto groups = scale_to_clean(clean, *fitted);
  ASSERT_TRUE(groups.is_ok()) << groups.status().message();
  ASSERT_EQ(groups->size(), 1u);               // repeats of one workload
  EXPECT_NEAR(fitted->host_scale, 0.85, 0.1);  // from 400 requests, whose TTFT strays by several %
  EXPECT_NEAR(fitted->device_scale, 1, 0.03);
  EXPECT_NEAR((*groups)[0].sim_ttft_ms / (*groups)[0].ttft_ms, 1, 0.05);
  EXPECT_THAT(clean_groups_text(*groups), HasSubstr("and 1 repeats"));
}

TEST(FromSteps, TheLaunchTimeOfAnotherRun) {
  const TempDir dir;
  StepBundle known = known_bundle();
  record(known, known_workload(300, 100), dir / "a", true, 1);
  const auto fitted = fit_step_bundle({*read_step_recording(dir / "a", true)});
  ASSERT_TRUE(fitted.is_ok());
  known.host_scale = 1.2;
  record(known, known_workload(300, 100), dir / "b", true, 2);
  const auto mean = mean_launch_ms(*read_step_recording(dir / "b", true), *fitted);
  ASSERT_TRUE(mean.is_ok()) << mean.status().message();
  EXPECT_NEAR(*mean / fitted->host.eager_launch_ms, 1.2, 0.06);
}

TEST(FromSteps, OneStepInFlight) {
  const TempDir dir;
  StepBundle known = known_bundle();
  known.scheduling_depth = 1;
  known.capture_sizes.clear();
  known.full_graph_rows = 0;
  known.graph = {};
  known.host.eager_streams = false;
  known.host.output_ms = known.host.stamp_ms = 0;
  known.host.eager_launch_ms = 0.01;
  known.eager.terms = {{StepFeature::kConstant, 0, 8}, {StepFeature::kTokens, 0, 100}};
  record(known, known_workload(100, 300), dir / "steps", true, 1);
  const auto fitted = fit_step_bundle({*read_step_recording(dir / "steps", true)});
  ASSERT_TRUE(fitted.is_ok()) << fitted.status().message();
  EXPECT_EQ(fitted->scheduling_depth, 1);
  EXPECT_TRUE(fitted->graph.terms.empty());
  EXPECT_NEAR(coefficient(fitted->eager, StepFeature::kConstant), 8, 0.4);
  EXPECT_NEAR(coefficient(fitted->eager, StepFeature::kTokens), 100, 5);
}

// ---- contexts that the log does not say ----

StepRecord step_of(std::vector<std::pair<std::string, int>> entries,
                   std::vector<std::string> preempted = {}) {
  StepRecord record;
  for (auto& [id, tokens] : entries) record.entries.push_back({id, tokens, -1});
  record.preempted = std::move(preempted);
  return record;
}

TEST(ComputedBefore, FollowsChunksHitsAndPreemptions) {
  RequestRecord r;
  r.request_id = "bench-3";
  r.input_toks = 100;
  r.output_toks = 4;
  // 16 tokens hit; a chunk of 50, the rest of 34, one decode step, preempted, 102 tokens known, 32 hit.
  const std::vector<StepRecord> steps = {step_of({{"replay-3-x", 50}}), step_of({{"replay-3-x", 34}}),
                                         step_of({{"replay-3-x", 1}}),  step_of({}, {"replay-3-x"}),
                                         step_of({{"replay-3-x", 70}}), step_of({{"replay-3-x", 1}})};
  const auto computed = computed_before(steps, {r}, "steps.jsonl");
  ASSERT_TRUE(computed.is_ok()) << computed.status().message();
  EXPECT_EQ((*computed)[0][0], 16);
  EXPECT_EQ((*computed)[1][0], 66);
  EXPECT_EQ((*computed)[2][0], 100);
  EXPECT_EQ((*computed)[4][0], 32);
  EXPECT_EQ((*computed)[5][0], 102);
}

TEST(ComputedBefore, AnUnknownRequestIsNamed) {
  const auto computed = computed_before({step_of({{"replay-3-x", 50}})}, {}, "steps.jsonl");
  ASSERT_FALSE(computed.is_ok());
  EXPECT_THAT(computed.status().message(), HasSubstr("'replay-3-x'"));
}

// ---- bad input ----

std::string error_of(const std::vector<std::string>& args) {
  const auto parsed = parse_options(Program::kProfile, args);
  Status status = parsed ? check_supported(*parsed) : parsed.status();
  if (status) status = profile_from_steps(*parsed);
  EXPECT_EQ(exit_code(status), 2) << status.message();
  return status.message();
}

TEST(FromSteps, BadInputIsOneSentence) {
  const TempDir dir;
  const std::string out = dir / "out";
  EXPECT_THAT(error_of({}), HasSubstr("--from-steps fits a step bundle"));
  EXPECT_THAT(error_of({"--clean", "x"}), HasSubstr("give --from-steps too"));
  EXPECT_THAT(error_of({"--from-steps", "x"}), HasSubstr("--output is missing"));
  EXPECT_THAT(error_of({"--from-steps", dir / "no", "--output", out}), HasSubstr("there is no such folder"));
  EXPECT_THAT(error_of({"--from-steps", dir.path(), "--output", out}), HasSubstr("no meta.json"));
  write_text(dir / "meta.json", meta_text(known_bundle()));
  EXPECT_THAT(error_of({"--from-steps", dir.path(), "--output", out}), HasSubstr("requests.jsonl"));
  record(known_bundle(), known_workload(3, 100), dir / "r", false, 1);
  EXPECT_THAT(error_of({"--from-steps", dir / "r", "--output", out}), HasSubstr("no step log"));
  write_text(dir / "r/steps.jsonl", "");
  EXPECT_THAT(error_of({"--from-steps", dir / "r", "--output", out}),
              HasSubstr("is empty, a step log is needed"));
  record(known_bundle(), known_workload(3, 100), dir / "r", true, 1);
  EXPECT_THAT(error_of({"--from-steps", dir / "r", "--output", out}), HasSubstr("are needed"));
  EXPECT_FALSE(is_directory(out));
}

TEST(LeastSquares, SolvesAndLeavesOutliersOut) {
  DesignMatrix x;
  x.columns = 2;
  std::vector<double> y;
  for (int i = 0; i < 50; ++i) {
    const double row[] = {1, static_cast<double>(i)};
    x.add_row(row);
    y.push_back(3 + 2 * i + (i % 2 == 0 ? 0.01 : -0.01));
  }
  y[10] = 1e6;
  const auto solution = clipped_least_squares(x, y, {}, 5);
  ASSERT_TRUE(solution);
  EXPECT_NEAR((*solution)[0], 3, 0.02);
  EXPECT_NEAR((*solution)[1], 2, 0.001);
  DesignMatrix twice;
  twice.columns = 2;
  for (int i = 0; i < 5; ++i) twice.add_row(std::array<double, 2>{1, 1});
  EXPECT_FALSE(least_squares(twice, std::vector<double>(5, 1), {}));
}

// ---- the recordings of vLLM on one H200 ----

// Goal: the mean of five clean replays, TPOT and latency within 3 %, TTFT mean and P50 within 5 %.
TEST(FromSteps, PredictsTheCleanReplaysOfVllm) {
  const std::string prefix = "reference/vllm-0.26-h200/Llama-3.1-8B-";
  const auto dataset = shared_path("reference/workloads/sharegpt-llama-3.1-8b-300-sps10.jsonl");
  if (!shared_path(prefix + "replay-steps") || !dataset) GTEST_SKIP() << "the recordings are not here";
  std::vector<StepRecording> recorded, clean;
  for (const char* name : {"replay-steps", "offline-steps"}) {
    recorded.push_back(*read_step_recording(*shared_path(prefix + name), true));
  }
  RunStatistics real{};
  for (const char* name : {"replay-clean", "replay-clean-2", "replay-clean-3", "replay-clean-4",
                           "replay-clean-5", "offline-clean", "offline-clean-2"}) {
    clean.push_back(*read_step_recording(*shared_path(prefix + name), false));
  }
  auto bundle = fit_step_bundle(recorded);
  ASSERT_TRUE(bundle.is_ok()) << bundle.status().message();
  const auto groups = scale_to_clean(clean, *bundle);
  ASSERT_TRUE(groups.is_ok()) << groups.status().message();
  EXPECT_EQ(groups->size(), 2u);
  const auto workload = read_workload(*dataset, {});
  std::vector<StepRunRequest> requests;
  for (const auto& row : workload->requests) {
    requests.push_back({row.line, row.arrival_ns, row.input_tok_ids, row.output_toks});
  }
  for (const bool from_queued : {false, true}) {
    real.fill(0);
    for (size_t r = 0; r < 5; ++r) {
      double offset = 1e300;
      for (const auto& q : clean[r].requests) offset = std::min(offset, *q.queued_ts_s - *q.arrival_time_s);
      StepRunResult as_run;
      std::vector<StepRunRequest> arrivals = requests;
      for (size_t i = 0; i < requests.size(); ++i) {
        const auto& q = clean[r].requests[i];
        const double zero = *clean[r].requests[0].queued_ts_s;
        const auto ns = [zero](double s) { return static_cast<TimeNs>((s - zero) * 1e9); };
        arrivals[i].arrival_ns = ns(*q.arrival_time_s + offset);
        StepRunTimes times;
        times.queued_ns = ns(*q.queued_ts_s);
        times.first_token_ns = ns(*q.first_token_ts_s);
        times.last_token_ns = ns(*q.last_token_ts_s);
        as_run.requests.push_back(times);
        as_run.finished.push_back(i);
      }
      const RunStatistics one = run_statistics(as_run, arrivals, from_queued);
      for (size_t i = 0; i < kNumRunStatistics; ++i) real[i] += one[i] / 5;
    }
    StepRunConfig config;
    config.scheduler.num_blocks = clean[0].limits.num_blocks;
    config.scheduler.max_model_len = clean[0].limits.max_model_len;
    config.scheduler.options.scheduling_depth = 2;
    config.graphs = clean[0].graphs;
    RunStatistics sim{};
    constexpr int kSeeds = 10;
    for (int seed = 0; seed < kSeeds; ++seed) {
      config.seed = static_cast<uint64_t>(seed);
      const auto run = run_steps(*bundle, config, requests);
      ASSERT_TRUE(run.is_ok()) << run.status().message();
      const RunStatistics one = run_statistics(*run, requests, from_queued);
      for (size_t i = 0; i < kNumRunStatistics; ++i) sim[i] += one[i] / kSeeds;
    }
    for (const size_t i : {0, 1})
      EXPECT_NEAR(sim[i] / real[i], 1, 0.05) << run_statistic_name(i) << from_queued;
    for (size_t i = 5; i < kNumRunStatistics; ++i)
      EXPECT_NEAR(sim[i] / real[i], 1, 0.03) << run_statistic_name(i);
  }
}

}  // namespace
}  // namespace vllm
