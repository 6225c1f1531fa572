#include "bench/run.h"

#include <algorithm>

#include <thread>

#include "base/file.h"
#include "formats/json.h"
#include "formats/recording.h"
#include "formats/step_log.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

constexpr const char* kConfig =
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":500,"hidden_size":32,)"
    R"("intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("max_position_embeddings":512,"torch_dtype":"float32"})";

std::string row(int prompt, int output, TimeNs arrival_ns, int first_id = 1) {
  std::string ids;
  for (int i = 0; i < prompt; ++i) ids += fmt::format("{}{}", i == 0 ? "" : ",", (first_id + i) % 500);
  return fmt::format(R"({{"input_toks":{},"output_toks":{},"arrival_time_ns":{},"input_tok_ids":[{}]}})",
                     prompt, output, arrival_ns, ids) +
         "\n";
}

// The whole of bench_run on a model without weights, with the null executor.
class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    testing::write_text(dir_ / "config.json", kConfig);
    std::string rows;
    for (int i = 0; i < 12; ++i) rows += row(20 + i, 3 + i % 4, i * 2 * kNsPerMs, i / 3);
    write_dataset(rows);
  }
  void write_dataset(const std::string& text) { testing::write_text(dir_ / "w.jsonl", text); }

  Status run(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"--model",         dir_.path(),      "--load-format", "dummy",
                                     "--dataset",       dir_ / "w.jsonl", "--output-dir",  out(),
                                     "--null-executor", "--no-plots",     "--log-level",   "ERROR"};
    if (std::find(more.begin(), more.end(), "--num-blocks") == more.end()) {
      args.insert(args.end(), {"--num-blocks", "64"});
    }
    args.insert(args.end(), more.begin(), more.end());
    auto parsed = parse_options(Program::kBenchRun, args);
    if (!parsed) return parsed.status();
    ::testing::internal::CaptureStdout();
    Status status = bench_run(*parsed, clock_, interrupted_);
    stdout_ = ::testing::internal::GetCapturedStdout();
    return status;
  }
  std::string out(const std::string& name = "") const {
    return name.empty() ? dir_ / "out" : dir_ / "out/" + name;
  }
  Json meta() { return *read_json_file(out("meta.json")); }

  testing::TempDir dir_;
  RealClock clock_;
  std::atomic<bool> interrupted_ = false;
  std::string stdout_;
};

TEST_F(RunTest, AFinishedRunHasItsFilesAndExactlyTheTokensAskedFor) {
  const Status status = run({"--record-steps", "--record-itl"});
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_FALSE(file_exists(out("aborted.json")));
  const auto requests = read_requests_jsonl(out("requests.jsonl"));
  ASSERT_TRUE(requests.is_ok()) << requests.status().message();
  ASSERT_EQ(requests->size(), 12u);
  for (size_t i = 0; i < requests->size(); ++i) {
    const RequestRecord& r = requests->at(i);
    EXPECT_EQ(r.request_id, fmt::format("bench-{}", i));
    EXPECT_EQ(r.input_toks, static_cast<int64_t>(20 + i));
    EXPECT_EQ(r.output_toks, static_cast<int64_t>(3 + i % 4));
    EXPECT_EQ(r.itl_s.size(), static_cast<size_t>(r.output_toks - 1));
    EXPECT_GE(*r.send_lag_s, 0.0);
    EXPECT_LE(*r.issued_ts_s, *r.queued_ts_s);
    EXPECT_LE(*r.queued_ts_s, *r.scheduled_ts_s);
    EXPECT_LE(*r.scheduled_ts_s, *r.first_token_ts_s);
    EXPECT_LE(*r.first_token_ts_s, *r.last_token_ts_s);
  }
  const auto rows = read_timeseries_csv(out("timeseries.csv"));
  ASSERT_TRUE(rows.is_ok()) << rows.status().message();
  double prompt = 0, generated = 0;
  for (const TimeseriesRow& r : *rows) {
    prompt += r.prompt_throughput;
    generated += r.gen_throughput;
  }
  EXPECT_DOUBLE_EQ(prompt, 12 * 20 + 66);
  EXPECT_DOUBLE_EQ(generated, 3 * (3 + 4 + 5 + 6));
  EXPECT_EQ(meta()["num_requests"], 12);
  EXPECT_EQ(meta()["counters"]["generation_tokens"], 54);
  EXPECT_EQ(meta()["diagnostic"], "null executor: no model was computed");
  EXPECT_THAT(stdout_, HasSubstr("Successful requests:                     12"));
  const auto bin = read_step_log(out("steps.bin"));
  const auto dump = read_step_log(out("steps.jsonl"));
  ASSERT_TRUE(bin.is_ok() && dump.is_ok());
  EXPECT_EQ(bin->size(), dump->size());
  EXPECT_EQ(static_cast<int64_t>(bin->size()), meta()["counters"]["steps"].get<int64_t>());
  EXPECT_EQ(bin->front().step, dump->front().step);
}

TEST_F(RunTest, WarmupsLeaveNoTrace) {
  ASSERT_TRUE(run({"--warmup", "5", "--record-steps"}).is_ok());
  const Json with = meta();
  const auto steps = read_step_log(out("steps.bin"));
  for (const StepRecord& step : *steps) {
    for (const auto& entry : step.entries) EXPECT_THAT(entry.request_id, ::testing::StartsWith("bench-"));
  }
  EXPECT_EQ(with["counters"]["generation_tokens"], 54);
}

TEST_F(RunTest, ResolveOnlyWritesMetaAlone) {
  ASSERT_TRUE(run({"--resolve-only"}).is_ok());
  EXPECT_EQ(meta()["resolve_only"], true);
  EXPECT_EQ(meta()["kv_cache"]["num_gpu_blocks"], 64);
  for (const char* name : {"engine_start.json", "requests.jsonl", "timeseries.csv", "aborted.json"}) {
    EXPECT_FALSE(file_exists(out(name))) << name;
  }
}

TEST_F(RunTest, AUsedFolderIsRefusedAndLeftAsItWas) {
  ASSERT_TRUE(run({"--num-reqs", "2"}).is_ok());
  const std::string before = *read_file(out("meta.json"));
  const Status again = run();
  EXPECT_EQ(exit_code(again), 2);
  EXPECT_THAT(again.message(), HasSubstr("has a run in it"));
  EXPECT_EQ(*read_file(out("meta.json")), before);
}

TEST_F(RunTest, RefusalsLeaveNoFolder) {
  write_dataset(row(3, 1, 0) + "nonsense\n");
  const Status status = run();
  EXPECT_EQ(exit_code(status), 2);
  EXPECT_THAT(status.message(), HasSubstr("w.jsonl:2"));
  EXPECT_FALSE(file_exists(out()));
}

TEST_F(RunTest, IdsBeyondTheVocabularyAreRefused) {
  write_dataset(row(3, 1, 0) +
                R"({"input_toks":1,"output_toks":1,"arrival_time_ns":0,"input_tok_ids":[500]})" + "\n");
  const Status status = run();
  EXPECT_EQ(exit_code(status), 2);
  EXPECT_THAT(status.message(), HasSubstr("500"));
  EXPECT_THAT(status.message(), HasSubstr("w.jsonl:2"));
}

TEST_F(RunTest, RequestsThatCanNeverFitAreAllCountedBeforeTheFirstSubmission) {
  write_dataset(row(10, 1, 0) + row(400, 20, 0) + row(510, 20, 0));
  const Status status = run({"--num-blocks", "8"});
  EXPECT_EQ(exit_code(status), 2);
  EXPECT_THAT(status.message(), HasSubstr("2 of 3 requests can never fit; first: line 2"));
  EXPECT_FALSE(file_exists(out()));
}

TEST_F(RunTest, LongerThanTheModelIsRefusedWithoutAnAbsoluteKnobToo) {
  write_dataset(row(10, 1, 0) + row(510, 20, 0));
  const Status status = run({"--num-blocks", "auto"});
  EXPECT_EQ(exit_code(status), 2);
  EXPECT_THAT(status.message(), HasSubstr("1 of 2 requests can never fit; first: line 2"));
}

TEST_F(RunTest, WhatIsNotBuiltIsRefusedByName) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--base-url", "http://127.0.0.1:1"},
                                               {"--tensor-parallel-size", "2"},
                                               {"--data-parallel-size", "2"},
                                               {"--record-gate-stats"},
                                               {"--device", "cuda"}}) {
    const Status status = run(args);
    EXPECT_EQ(exit_code(status), 2) << args[0];
    EXPECT_THAT(status.message(), HasSubstr(args[0]));
    EXPECT_FALSE(file_exists(out()));
  }
}

TEST_F(RunTest, AnInterruptLeavesAnAccountOfWhatWasFinished) {
  write_dataset(row(5, 2, 0) + row(5, 2, 3600 * kNsPerSecond));
  std::thread ctrl_c([this] {
    // The first request is long done by then.
    clock_.sleep_until_ns(clock_.now_ns() + 400 * kNsPerMs);
    interrupted_ = true;
  });
  const Status status = run({"--warmup", "0"});
  ctrl_c.join();
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_EQ(exit_code(status), 1);
  EXPECT_FALSE(file_exists(out("meta.json")));
  EXPECT_FALSE(file_exists(out("requests.jsonl")));
  const Json account = *read_json_file(out("aborted.json"));
  EXPECT_EQ(account["reason"], "interrupted (Ctrl-C or SIGTERM)");
  EXPECT_EQ(account["num_requests"], 2);
  EXPECT_EQ(account["num_issued"], 1);
  EXPECT_EQ(account["num_finished"], 1);
  EXPECT_EQ(account["finished_requests"][0]["request_id"], "bench-0");
}

TEST_F(RunTest, SessionsAreReplayedInOrder) {
  write_dataset(R"({"session_id":"s","arrival_time_ns":0,"sub_requests":[)"
                R"({"input_toks":2,"output_toks":2,"tool_duration_ns":30000000,"input_tok_ids":[4,5]},)"
                R"({"input_toks":3,"output_toks":2,"input_tok_ids":[4,5,6]}]})"
                "\n" +
                row(4, 1, 1000));
  ASSERT_TRUE(run({"--on-session", "replay"}).is_ok());
  const auto requests = read_requests_jsonl(out("requests.jsonl"));
  ASSERT_EQ(requests->size(), 3u);
  EXPECT_GE(*requests->at(1).issued_ts_s, *requests->at(0).finished_ts_s + 0.03);
  EXPECT_EQ(meta()["replay"]["sessions_replayed"], 1);
}

TEST_F(RunTest, SpeedCompressesAndIsMarked) {
  write_dataset(row(3, 1, 0) + row(3, 1, 2 * kNsPerSecond));
  ASSERT_TRUE(run({"--speed", "20"}).is_ok());
  EXPECT_LT(meta()["results"]["duration"].get<double>(), 1.9);
  EXPECT_NEAR(meta()["offered_request_rate"].get<double>(), 10.0, 1e-6);
  EXPECT_THAT(meta()["diagnostic"].get<std::string>(), HasSubstr("paced"));
}

}  // namespace
}  // namespace vllm
