// The driver around the engine's core loop: what it plans are the engine's plans, when they start is the
// bundle's.

#include "sim/step_run.h"

#include <numeric>

#include "base/file.h"
#include "formats/workload.h"
#include "sim/step_sim_setup.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::shared_path;
using testing::TempDir;
using testing::write_text;

StepBundle simple_bundle(int depth) {
  StepBundle b;
  b.scheduling_depth = depth;
  b.host.eager_launch_ms = 1;
  b.host.eager_quantiles = {1, 1};
  b.eager.terms = {{StepFeature::kConstant, 0, 10}};
  return b;
}

StepRunConfig simple_config(int depth) {
  StepRunConfig config;
  config.scheduler.num_blocks = 100;
  config.scheduler.max_model_len = 1000;
  config.scheduler.options.max_num_seqs = 4;
  config.scheduler.options.scheduling_depth = depth;
  return config;
}

std::vector<int32_t> prompt_of(size_t length, int32_t first) {
  std::vector<int32_t> prompt(length);
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

TEST(StepRun, DepthOneTakesLaunchAndStepInTurn) {
  const auto prompt = prompt_of(20, 1);
  const StepRunRequest request{1, 5 * kNsPerMs, prompt, 3};
  StepRunConfig config = simple_config(1);
  config.keep_itl = true;
  const auto run = run_steps(simple_bundle(1), config, {&request, 1});
  ASSERT_TRUE(run.is_ok()) << run.status().message();
  const StepRunTimes& times = run->requests[0];
  EXPECT_EQ(times.queued_ns, 5 * kNsPerMs);
  EXPECT_EQ(times.scheduled_ns, 5 * kNsPerMs);
  EXPECT_EQ(times.first_token_ns, 16 * kNsPerMs);
  EXPECT_EQ(times.last_token_ns, 38 * kNsPerMs);
  EXPECT_EQ(times.itl_ns, (std::vector<int64_t>{11 * kNsPerMs, 11 * kNsPerMs}));
}

// With two steps in flight the launch of the next is hidden behind the device.
TEST(StepRun, DepthTwoOverlapsLaunches) {
  const auto prompt = prompt_of(20, 1);
  const StepRunRequest request{1, 0, prompt, 3};
  const auto run = run_steps(simple_bundle(2), simple_config(2), {&request, 1});
  ASSERT_TRUE(run.is_ok()) << run.status().message();
  EXPECT_EQ(run->requests[0].first_token_ns, 11 * kNsPerMs);
  EXPECT_EQ(run->requests[0].last_token_ns, 31 * kNsPerMs);
}

// An arrival while two steps are in flight is taken in by the plan after the wait, not before it.
TEST(StepRun, ArrivalsAreSeenByTheNextPlan) {
  const auto a = prompt_of(20, 1), b = prompt_of(20, 500);
  const std::vector<StepRunRequest> requests = {{1, 0, a, 5}, {2, 3 * kNsPerMs, b, 1}};
  const auto run = run_steps(simple_bundle(2), simple_config(2), requests);
  ASSERT_TRUE(run.is_ok()) << run.status().message();
  EXPECT_EQ(run->requests[1].queued_ns, 11 * kNsPerMs);
  EXPECT_EQ(run->requests[1].scheduled_ns, 11 * kNsPerMs);
}

TEST(StepRun, FrontDelayHoldsArrivalsBack) {
  StepBundle bundle = simple_bundle(1);
  bundle.host.front_ms = 2;
  const auto prompt = prompt_of(20, 1);
  const StepRunRequest request{1, 0, prompt, 1};
  const auto run = run_steps(bundle, simple_config(1), {&request, 1});
  ASSERT_TRUE(run.is_ok());
  EXPECT_EQ(run->requests[0].queued_ns, 2 * kNsPerMs);
}

TEST(StepRun, WhatNeverFitsNamesItsLine) {
  const auto prompt = prompt_of(2000, 1);
  const StepRunRequest request{7, 0, prompt, 1};
  const auto run = run_steps(simple_bundle(1), simple_config(1), {&request, 1});
  ASSERT_FALSE(run.is_ok());
  EXPECT_EQ(exit_code(run.status()), 2);
  EXPECT_THAT(run.status().message(), HasSubstr("line 7"));
}

TEST(StepRun, StopsWhenInterrupted) {
  const std::atomic<bool> interrupt = true;
  const auto prompt = prompt_of(20, 1);
  const StepRunRequest request{1, 0, prompt, 1};
  const auto run = run_steps(simple_bundle(1), simple_config(1), {&request, 1}, {}, &interrupt);
  EXPECT_EQ(run.status().code(), StatusCode::kAborted);
}

TEST(StepRun, StatisticsFromArrivalAndFromTheQueue) {
  const auto prompt = prompt_of(20, 1);
  const std::vector<StepRunRequest> requests = {{1, 0, prompt, 11}};
  StepRunResult run;
  run.requests.push_back({});
  run.requests[0].queued_ns = 2 * kNsPerMs;
  run.requests[0].first_token_ns = 10 * kNsPerMs;
  run.requests[0].last_token_ns = 60 * kNsPerMs;
  run.finished = {0};
  const RunStatistics arrival = run_statistics(run, requests, false);
  EXPECT_STREQ(run_statistic_name(0), "TTFT Mean");
  EXPECT_STREQ(run_statistic_name(14), "Latency P99");
  EXPECT_NEAR(arrival[0], 10, 1e-9);
  EXPECT_NEAR(arrival[5], 5, 1e-9);
  EXPECT_NEAR(arrival[10], 60, 1e-9);
  EXPECT_NEAR(run_statistics(run, requests, true)[0], 8, 1e-9);
}

// ---- set-up from files ----

constexpr const char* kMeta = R"({"num_gpu_blocks": 64, "block_size": 16, "capture_sizes": "[1, 2, 4]",
  "engine_kwargs": {"model": "m", "max_num_seqs": 4, "max_num_batched_tokens": 32, "max_model_len": 512},
  "scheduler": {"async_scheduling": "True"}})";

struct SetupFiles {
  TempDir dir;
  std::string bundle = dir / "bundle", recording = dir / "recording", dataset = dir / "w.jsonl";

  SetupFiles() {
    EXPECT_TRUE(make_directories(recording).is_ok());
    write_text(recording + "/meta.json", kMeta);
    write_text(
        dataset,
        R"({"input_toks": 3, "output_toks": 2, "arrival_time_ns": 2000000, "input_tok_ids": [1, 2, 3]})"
        "\n"
        R"({"input_toks": 5, "output_toks": 1, "arrival_time_ns": 4000000})"
        "\n");
    StepBundle b = simple_bundle(2);
    b.capture_sizes = {1, 2};
    b.full_graph_rows = 2;
    b.graph.terms = {{StepFeature::kConstant, 0, 5}};
    EXPECT_TRUE(write_step_bundle(b, bundle).is_ok());
  }
  Result<StepSimSetup> setup(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"--step-bundle", bundle,      "--match-capacity",
                                     recording,       "--dataset", dataset};
    args.insert(args.end(), more.begin(), more.end());
    const auto parsed = parse_options(Program::kSim, args);
    if (!parsed) return parsed.status();
    return make_step_sim_setup(*parsed);
  }
};

TEST(StepSimSetup, CapacityAndLimitsAreTheRecordings) {
  const SetupFiles files;
  const auto setup = files.setup();
  ASSERT_TRUE(setup.is_ok()) << setup.status().message();
  EXPECT_EQ(setup->config.scheduler.num_blocks, 64);
  EXPECT_EQ(setup->config.scheduler.max_model_len, 512);
  EXPECT_EQ(setup->config.scheduler.options.max_num_seqs, 4);
  EXPECT_EQ(setup->config.scheduler.options.max_num_batched_tokens, 32);
  EXPECT_EQ(setup->config.scheduler.options.scheduling_depth, 2);
  EXPECT_EQ(setup->config.graphs.sizes,
            (std::vector<int64_t>{1, 2, 4}));  // the recording's, not the bundle's
  EXPECT_EQ(setup->config.graphs.full_rows, 4);
  EXPECT_EQ(setup->model, "m");
  EXPECT_EQ(setup->requests[1].prompt.size(), 5u);  // made up
  EXPECT_EQ(setup->notes.size(), 1u);
}

TEST(StepSimSetup, GivenOptionsWin) {
  const SetupFiles files;
  const auto setup =
      files.setup({"--max-num-seqs", "2", "--scheduling-depth", "1", "--speed", "2", "--num-reqs", "1"});
  ASSERT_TRUE(setup.is_ok()) << setup.status().message();
  EXPECT_EQ(setup->config.scheduler.options.max_num_seqs, 2);
  EXPECT_EQ(setup->config.scheduler.options.scheduling_depth, 1);
  ASSERT_EQ(setup->requests.size(), 1u);
  EXPECT_EQ(setup->requests[0].arrival_ns, 1'000'000);
  EXPECT_EQ(files.setup({"--speed", "inf"})->requests[1].arrival_ns, 0);
}

TEST(StepSimSetup, WhatIsMissingIsNamed) {
  const SetupFiles files;
  const auto error = [&](const std::vector<std::string>& args) {
    const auto parsed = parse_options(Program::kSim, args);
    const Status status = parsed ? make_step_sim_setup(*parsed).status() : parsed.status();
    EXPECT_EQ(exit_code(status), 2);
    return status.message();
  };
  const std::string b = files.bundle, r = files.recording, d = files.dataset;
  EXPECT_THAT(error({"--step-bundle", b, "--dataset", d}), HasSubstr("--match-capacity is missing"));
  EXPECT_THAT(error({"--step-bundle", b, "--match-capacity", r}), HasSubstr("--dataset is missing"));
  EXPECT_THAT(error({"--speed", "2"}), HasSubstr("--speed belongs to --step-bundle"));
  EXPECT_THAT(error({"--step-bundle", b, "--match-capacity", r, "--dataset", d, "--model", "m"}),
              HasSubstr("--model has no meaning with --step-bundle"));
  EXPECT_THAT(error({"--step-bundle", b, "--match-capacity", r, "--dataset", d, "--mode", "compat"}),
              HasSubstr("compat"));
  EXPECT_THAT(error({"--step-bundle", files.dir / "no", "--match-capacity", r, "--dataset", d}),
              HasSubstr("there is no such folder"));
  EXPECT_THAT(error({"--step-bundle", b, "--match-capacity", files.dir / "no", "--dataset", d}),
              HasSubstr("--match-capacity"));
  EXPECT_THAT(error({"--step-bundle", b, "--match-capacity", files.bundle, "--dataset", d}),
              HasSubstr("has no meta.json"));
  EXPECT_THAT(error({"--step-bundle", b, "--match-capacity", r, "--dataset", files.dir / "no.jsonl"}),
              HasSubstr("no.jsonl"));
  EXPECT_THAT(error({"--step-bundle", b, "--match-capacity", r, "--dataset", d, "--host-scale-from", r}),
              HasSubstr("--host-scale-from"));
}

// ---- against recordings of vLLM ----

constexpr const char* kRecordings = "reference/vllm-0.26-h200/Llama-3.1-8B-";

// The same arrivals through the same scheduler: a simulation plans as many tokens as were recorded, and
// leaves nothing behind.
TEST(StepRun, PlansTheRecordedWorkload) {
  const auto recording = shared_path(std::string(kRecordings) + "replay-steps");
  const auto dataset = shared_path("reference/workloads/sharegpt-llama-3.1-8b-300-sps10.jsonl");
  if (!recording || !dataset) GTEST_SKIP() << "the recordings are not here";
  const SetupFiles files;
  const auto parsed = parse_options(
      Program::kSim, {"--step-bundle", files.bundle, "--match-capacity", *recording, "--dataset", *dataset});
  ASSERT_TRUE(parsed.is_ok()) << parsed.status().message();
  const auto setup = make_step_sim_setup(*parsed);
  ASSERT_TRUE(setup.is_ok()) << setup.status().message();
  const auto run = run_steps(setup->bundle, setup->config, setup->requests);
  ASSERT_TRUE(run.is_ok()) << run.status().message();
  EXPECT_EQ(run->finished.size(), 300u);
  EXPECT_EQ(run->counters.prompt_tokens_cached, 19520);  // as meta.json says
  EXPECT_EQ(run->counters.used_blocks, 0);
}

}  // namespace
}  // namespace vllm
