#include "formats/recording.h"
#include "formats/json.h"

#include <fstream>
#include <sstream>

#include "formats/line_reader.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

RequestRecord some_record() {
  RequestRecord r;
  r.request_id = "bench-299";
  r.input_toks = 1168;
  r.output_toks = 583;
  r.arrival_time_s = 1777144919.629479;
  r.queued_ts_s = 481829.637996084;
  r.scheduled_ts_s = 481838.976417383;
  r.first_token_ts_s = 481839.139706026;
  r.last_token_ts_s = 481858.906949708;
  return r;
}

constexpr const char* kSeedRow =
    R"({"request_id": "bench-299", "input_toks": 1168, "output_toks": 583, "arrival_time": 1777144919.629479, )"
    R"("queued_ts": 481829.637996084, "scheduled_ts": 481838.976417383, "first_token_ts": 481839.139706026, )"
    R"("last_token_ts": 481858.906949708)";

TEST(RequestsJsonl, TheSeedsEightKeysComeFirst) {
  RequestRecord r = some_record();
  const std::string seed_row = kSeedRow;
  EXPECT_EQ(request_record_json(r), seed_row + "}");
  r.issued_ts_s = 1;
  r.finished_ts_s = 2.5;
  r.num_preemptions = 0;
  r.cached_toks = 16;
  r.send_lag_s = 1e-5;
  r.itl_s = {0.01, 0.02};
  EXPECT_EQ(request_record_json(r),
            seed_row + R"(, "issued_ts": 1.0, "finished_ts": 2.5, "num_preemptions": 0, "cached_toks": 16, )"
                       R"("send_lag_s": 1e-05, "itl_s": [0.01, 0.02]})");
  RequestRecord none;
  none.request_id = "x";
  EXPECT_EQ(
      request_record_json(none),
      R"({"request_id": "x", "input_toks": 0, "output_toks": 0, "arrival_time": null, "queued_ts": null, )"
      R"("scheduled_ts": null, "first_token_ts": null, "last_token_ts": null})");
}

class RecordingFile : public ::testing::Test {
 protected:
  Result<std::vector<RequestRecord>> requests(const std::string& text) {
    write_text(path_, text);
    return read_requests_jsonl(path_);
  }
  Result<std::vector<TimeseriesRow>> timeseries(const std::string& text) {
    write_text(path_, text);
    return read_timeseries_csv(path_);
  }
  template <typename T>
  std::string refusal(const Result<T>& result) {
    return result.is_ok() ? "accepted" : result.status().message().substr(path_.size());
  }
  TempDir dir_;
  std::string path_ = dir_ / "file";
};

TEST_F(RecordingFile, RequestsReadBack) {
  RequestRecord r = some_record();
  r.issued_ts_s = 0.1 + 0.2;
  r.finished_ts_s = 3;
  r.num_preemptions = 2;
  r.cached_toks = 0;
  r.send_lag_s = -1e-7;
  r.itl_s = {0.25};
  RequestRecord none;
  none.request_id = "no \"metrics\"";
  const auto back = requests(request_record_json(r) + "\n\n" + request_record_json(none) + "\r\n");
  ASSERT_TRUE(back) << back.status().message();
  ASSERT_EQ(back->size(), 2u);
  EXPECT_EQ(request_record_json(back->at(0)), request_record_json(r));
  EXPECT_EQ(request_record_json(back->at(1)), request_record_json(none));
}

TEST_F(RecordingFile, RequestsOfOtherProgramsAreRead) {
  const std::string seed_row = kSeedRow;
  const auto back =
      requests(seed_row + R"(, "num_cached_tokens": 64, "scheduled_arrival_s": 0.0, "more": {"a": []}})");
  ASSERT_TRUE(back) << back.status().message();
  EXPECT_EQ(back->at(0).cached_toks, 64);
}

TEST_F(RecordingFile, BadRequestsAreErrorsWithTheirLine) {
  const std::string good = request_record_json(some_record());
  const auto with = [&](const std::string& old_text, const std::string& new_text) {
    std::string bad = good;
    bad.replace(bad.find(old_text), old_text.size(), new_text);
    return refusal(requests(good + "\n" + bad + "\n"));
  };
  EXPECT_EQ(with("1168", "1168"), "accepted");
  EXPECT_EQ(with("1168", "-1"), ":2: 'input_toks' is -1, accepted is 0 to 9223372036854775807");
  EXPECT_EQ(with("583", "5.5"), ":2: 'output_toks' is 5.5, a whole number is needed");
  EXPECT_EQ(with("1777144919.629479", "\"now\""), ":2: 'arrival_time' is not a number");
  EXPECT_EQ(with("1777144919.629479", "NaN").substr(0, 3), ":2:");
  EXPECT_EQ(with("\"bench-299\"", "7"), ":2: 'request_id' is not a string");
  EXPECT_EQ(with("\"queued_ts\"", "\"queued\""), ":2: has no 'queued_ts'");
  EXPECT_EQ(with("\"queued_ts\"", "\"arrival_time\""), ":2: key 'arrival_time' is given twice");
  EXPECT_THAT(with("}", ""), HasSubstr(":2: is not a JSON object"));
  EXPECT_THAT(refusal(read_requests_jsonl(dir_ / "none")), HasSubstr("no such file"));
}

TEST_F(RecordingFile, TimeseriesHasCrlfAndPythonsRounding) {
  TimeseriesRow a;
  a.t_s = 1;
  a.prompt_throughput = 9069;
  a.gen_throughput = 166.25;  // exactly between: to even
  a.running = 9;
  TimeseriesRow b;
  b.t_s = 2.0005;  // a little above, in binary
  b.prompt_throughput = 1e6 / 3;
  b.prompt_compute_throughput = 0.35;
  b.prompt_cached_throughput = 0.05;
  b.gen_throughput = 1234567.85;
  b.running = 10;
  b.waiting = 3;
  b.preempted = 1;
  b.kv_cache_pct = 2.675;
  const std::string text = timeseries_csv({a, b});
  EXPECT_EQ(
      text,
      "t,prompt_throughput,prompt_compute_throughput,prompt_cached_throughput,gen_throughput,running,waiting,"
      "preempted,kv_cache_pct\r\n"
      "1.0,9069.0,0.0,0.0,166.2,9,0,0,0.0\r\n"
      "2.001,333333.3,0.3,0.1,1234567.9,10,3,1,2.67\r\n");
  const auto back = timeseries(text);
  ASSERT_TRUE(back) << back.status().message();
  EXPECT_EQ(timeseries_csv(*back), text);
}

TEST_F(RecordingFile, TimeseriesIsReadByHeaderName) {
  const auto rows = timeseries(
      "kv_cache_pct,t,waiting,running,new_column,gen_throughput,prompt_throughput\n0.5,1.0,2,3,x,4.0,5.0\n");
  ASSERT_TRUE(rows) << rows.status().message();
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ(rows->at(0).kv_cache_pct, 0.5);
  EXPECT_EQ(rows->at(0).waiting, 2);
  EXPECT_EQ(rows->at(0).running, 3);
  EXPECT_EQ(rows->at(0).prompt_throughput, 5);
  EXPECT_EQ(rows->at(0).preempted, 0);
  EXPECT_TRUE(timeseries("t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\r\n"))
      << "no rows are fine";
}

TEST_F(RecordingFile, BadTimeseriesAreErrorsWithTheirLine) {
  const std::string header = "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\r\n";
  const std::string row = "1.0,2.0,3.0,4,5,6.0\r\n";
  EXPECT_EQ(refusal(timeseries("")), ": is empty, a header line is needed");
  EXPECT_EQ(refusal(timeseries("t,running\n")), ":1: has no column 'prompt_throughput'");
  EXPECT_EQ(refusal(timeseries("t," + header)), ":1: has the column 't' twice");
  EXPECT_EQ(refusal(timeseries(header + row + "1.0,2.0\r\n")), ":3: has 2 fields, the header has 6");
  EXPECT_EQ(refusal(timeseries(header + "x,2.0,3.0,4,5,6.0\r\n")), ":2: 't' is 'x', a number is needed");
  EXPECT_EQ(refusal(timeseries(header + "1.0,nan,3.0,4,5,6.0\r\n")),
            ":2: 'prompt_throughput' is 'nan', a number is needed");
  EXPECT_EQ(refusal(timeseries(header + "1.0,,3.0,4,5,6.0\r\n")),
            ":2: 'prompt_throughput' is '', a number is needed");
  EXPECT_EQ(refusal(timeseries(header + "1.0,2.0,3.0,4.5,5,6.0\r\n")),
            ":2: 'running' is '4.5', a whole number is needed");
  EXPECT_EQ(refusal(timeseries(header + "1.0,2.0,3.0,4,-5,6.0\r\n")),
            ":2: 'waiting' is '-5', a whole number is needed");
}

RecordedLimits limits_of(const std::string& json) {
  const auto limits = recorded_limits(parse_json(json, "meta.json").value(), "meta.json");
  EXPECT_TRUE(limits) << limits.status().message();
  return limits ? *limits : RecordedLimits{};
}

std::string limits_refusal(const std::string& json) {
  const auto limits = recorded_limits(parse_json(json, "meta.json").value(), "meta.json");
  return limits.is_ok() ? "accepted" : limits.status().message();
}

TEST(RecordedLimits, OfOurOwnRecording) {
  const auto l = limits_of(R"({
    "engine_kwargs": {"max_num_seqs": 1, "max_num_batched_tokens": 2, "max_model_len": null, "block_size": 99, "data_parallel_size": 1},
    "kv_cache": {"num_gpu_blocks": 7, "block_size": 8, "enable_prefix_caching": true,
                 "capacity": {"status": "complete", "per_engine": [{"num_gpu_blocks": 500, "block_size": 32}], "reason": null}},
    "scheduler": {"max_num_seqs": 16, "max_num_batched_tokens": 512, "max_model_len": 4096, "long_prefill_token_threshold": 64,
                  "enable_chunked_prefill": false, "enable_prefix_caching": false, "policy": "priority",
                  "scheduler_reserve_full_isl": false, "watermark": 0.25, "scheduling_depth": 2, "async_scheduling": true}})");
  EXPECT_EQ(l.num_blocks, 500);
  EXPECT_EQ(l.block_size, 32);
  EXPECT_EQ(l.max_num_seqs, 16);
  EXPECT_EQ(l.max_num_batched_tokens, 512);
  EXPECT_EQ(l.max_model_len, 4096);
  EXPECT_EQ(l.long_prefill_token_threshold, 64);
  EXPECT_FALSE(l.chunked_prefill);
  EXPECT_FALSE(l.prefix_caching);
  EXPECT_FALSE(l.reserve_full_isl);
  EXPECT_TRUE(l.priority_policy);
  EXPECT_EQ(l.watermark, 0.25);
  EXPECT_EQ(l.scheduling_depth, 2);
}

TEST(RecordedLimits, OfTheReferenceProjectsLongForm) {
  const auto l = limits_of(R"({
    "engine_kwargs": {"max_num_seqs": 128, "max_num_batched_tokens": 2048, "max_model_len": null, "data_parallel_size": 1},
    "kv_cache": {"num_gpu_blocks": 2588, "num_cpu_blocks": null, "block_size": 16, "enable_prefix_caching": true},
    "resolved_config": {"model_config": {"max_model_len": 131072},
                        "scheduler_config": {"max_num_seqs": 128, "policy": "fcfs", "async_scheduling": false,
                                             "enable_chunked_prefill": true, "long_prefill_token_threshold": 0}}})");
  EXPECT_EQ(l.num_blocks, 2588);
  EXPECT_EQ(l.block_size, 16);
  EXPECT_EQ(l.max_model_len, 131072);
  EXPECT_EQ(l.scheduling_depth, 1);
  EXPECT_TRUE(l.prefix_caching);
  EXPECT_FALSE(l.priority_policy);
  EXPECT_EQ(l.watermark, 0);
}

TEST(RecordedLimits, OfVllmsStepRecordings) {
  const auto l = limits_of(R"({
    "hardware": "NVIDIA H200",
    "engine_kwargs": {"max_num_seqs": 128, "max_num_batched_tokens": 2048, "max_model_len": 131072, "enable_prefix_caching": true},
    "scheduler": {"max_num_seqs": "127", "max_num_batched_tokens": "2047", "async_scheduling": "True", "enable_chunked_prefill": "True",
                  "scheduler_cls": "None", "policy": "fcfs", "scheduler_reserve_full_isl": "False", "watermark": "0.5",
                  "long_prefill_token_threshold": "0"},
    "num_gpu_blocks": 56498, "block_size": 16})");
  EXPECT_EQ(l.num_blocks, 56498);
  EXPECT_EQ(l.max_num_seqs, 127) << "what the scheduler says goes before what was asked for";
  EXPECT_EQ(l.max_num_batched_tokens, 2047);
  EXPECT_EQ(l.max_model_len, 131072);
  EXPECT_EQ(l.scheduling_depth, 2);
  EXPECT_TRUE(l.chunked_prefill);
  EXPECT_FALSE(l.reserve_full_isl);
  EXPECT_EQ(l.watermark, 0.5);
}

TEST(RecordedLimits, OfTheFilesThemselves) {
  for (const char* name : {"Llama-3.1-8B-replay-steps", "Llama-3.1-8B-offline-steps"}) {
    const auto path = testing::shared_path(fmt::format("reference/vllm-0.26-h200/{}/meta.json", name));
    if (!path) GTEST_SKIP() << "the reference recordings are not beside the checkout";
    const auto l = recorded_limits(read_json_file(*path).value(), *path);
    ASSERT_TRUE(l) << l.status().message();
    EXPECT_EQ(l->block_size, 16);
    EXPECT_GT(l->num_blocks, 56000);
    EXPECT_EQ(l->scheduling_depth, 2);
    EXPECT_TRUE(l->reserve_full_isl);
  }
  const auto unknown = testing::shared_path("reference/examples/RTXPRO6000/Llama-3.1-8B/vllm/meta.json");
  ASSERT_TRUE(unknown);
  EXPECT_THAT(recorded_limits(read_json_file(*unknown).value(), "m").status().message(),
              HasSubstr("m: does not say how many KV blocks the engine had"));
}

TEST(RecordedLimits, RefusesWhatItDoesNotSay) {
  const std::string kwargs = R"("engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 64})";
  EXPECT_EQ(limits_refusal("{" + kwargs + R"(, "num_gpu_blocks": 9, "block_size": 16})"), "accepted");
  EXPECT_EQ(limits_refusal("{" + kwargs + R"(, "block_size": 16})"),
            "meta.json: does not say how many KV blocks the engine had: it should stand in "
            "kv_cache.capacity.per_engine, kv_cache.num_gpu_blocks or num_gpu_blocks");
  EXPECT_THAT(limits_refusal("{" + kwargs + R"(, "num_gpu_blocks": 9})"),
              HasSubstr("how many tokens a KV block holds"));
  EXPECT_THAT(
      limits_refusal(R"({"num_gpu_blocks": 9, "block_size": 16, "engine_kwargs": {"max_num_seqs": 8}})"),
      HasSubstr("how many tokens a step could have"));
  EXPECT_THAT(limits_refusal(R"({"num_gpu_blocks": 9, "block_size": 16})"),
              HasSubstr("how many requests could run at once"));
  EXPECT_EQ(limits_refusal("{" + kwargs + R"(, "kv_cache": {"num_gpu_blocks": 9, "block_size": 16,
              "capacity": {"status": "unknown", "per_engine": null, "reason": "old runtime"}}})"),
            "meta.json: the number of blocks is unknown: old runtime");
  EXPECT_THAT(limits_refusal(R"({"num_gpu_blocks": 9, "block_size": 16, "engine_kwargs": {"max_num_seqs": 8,
              "max_num_batched_tokens": 64, "data_parallel_size": 2}})"),
              HasSubstr("9 blocks are those of 2 engines together"));
  EXPECT_EQ(limits_refusal("[]"), "meta.json: is not the meta.json of a recording: not an object");
}

TEST(RecordedLimits, RefusesWrongValues) {
  const auto with = [](const std::string& scheduler) {
    return limits_refusal(
        R"({"engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 64}, "num_gpu_blocks": 9, )"
        R"("block_size": 16, "scheduler": {)" +
        scheduler + "}}");
  };
  EXPECT_EQ(with(""), "accepted");
  EXPECT_EQ(with(R"("max_num_seqs": "many")"),
            "meta.json: 'scheduler.max_num_seqs' is \"many\", a number is needed");
  EXPECT_EQ(with(R"("max_num_seqs": 0)"),
            "meta.json: 'scheduler.max_num_seqs' is 0, a whole number from 1 to 2147483647 is needed");
  EXPECT_EQ(with(R"("enable_chunked_prefill": 1)"),
            "meta.json: 'scheduler.enable_chunked_prefill' is 1, true or false is needed");
  EXPECT_EQ(with(R"("policy": "lifo")"),
            "meta.json: 'scheduler.policy' is \"lifo\", fcfs or priority is needed");
  EXPECT_EQ(with(R"("watermark": 1.0)"),
            "meta.json: the watermark is 1, accepted is 0 up to, not including, 1");
  EXPECT_EQ(with(R"("max_num_seqs": "None")"), "accepted") << "what is not set is looked up elsewhere";
}

// Every line of the recordings comes back byte for byte.
TEST(RecordingReference, RequestsAndTicks) {
  for (const char* name : {"Llama-3.1-8B", "Qwen3-32B"}) {
    const auto dir = testing::shared_path(fmt::format("reference/examples/RTXPRO6000/{}/vllm", name));
    if (!dir) GTEST_SKIP() << "the reference recordings are not beside the checkout";
    const auto records = read_requests_jsonl(*dir + "/requests.jsonl");
    ASSERT_TRUE(records) << records.status().message();
    ASSERT_EQ(records->size(), 300u);
    std::string text;
    for (const auto& record : *records) text += request_record_json(record) + "\n";
    EXPECT_EQ(text, slurp(*dir + "/requests.jsonl"));
    const auto rows = read_timeseries_csv(*dir + "/timeseries.csv");
    ASSERT_TRUE(rows) << rows.status().message();
    int64_t prompt_tokens = 0, expected = 0;
    for (const auto& row : *rows) prompt_tokens += static_cast<int64_t>(row.prompt_throughput);
    for (const auto& record : *records) expected += record.input_toks;
    EXPECT_EQ(prompt_tokens, expected) << "the column sums to the workload's prompts";
  }
}

TEST(RecordedCapacityTest, EveryEngineHasItsOwn) {
  const auto capacity = [](const std::string& text) {
    const auto meta = parse_json(text, "meta.json");
    EXPECT_TRUE(meta.is_ok());
    auto out = recorded_capacity(*meta, "meta.json");
    EXPECT_TRUE(out.is_ok()) << out.status().message();
    return *out;
  };
  const RecordedCapacity two = capacity(
      R"({"kv_cache": {"num_gpu_blocks": 70, "block_size": 16, "capacity": {"status": "complete", "per_engine": [
          {"num_gpu_blocks": 30, "block_size": 16}, {"num_gpu_blocks": 40}]}}})");
  ASSERT_EQ(two.engines.size(), 2u);
  EXPECT_EQ(two.engines[0].num_blocks, 30);
  EXPECT_EQ(two.engines[1].num_blocks, 40);
  EXPECT_EQ(two.engines[1].block_size, 16);
  EXPECT_EQ(capacity(R"({"num_gpu_blocks": 7, "block_size": 16})").engines[0].num_blocks, 7);
  EXPECT_THAT(
      capacity(R"({"num_gpu_blocks": 7, "block_size": 16, "engine_kwargs": {"data_parallel_size": 2}})")
          .unknown,
      HasSubstr("7 blocks are those of 2 engines together"));
  EXPECT_THAT(capacity(R"({"kv_cache": {}})").unknown, HasSubstr("does not say how many KV blocks"));
  EXPECT_THAT(capacity(R"({"num_gpu_blocks": 7})").unknown,
              HasSubstr("does not say how many tokens a KV block"));
  const auto bad = recorded_capacity(
      *parse_json(R"({"kv_cache": {"capacity": {"status": "complete", "per_engine": [{"block_size": 16}]}}})",
                  "m"),
      "m");
  ASSERT_FALSE(bad.is_ok());
  EXPECT_THAT(bad.status().message(),
              HasSubstr("an entry of 'kv_cache.capacity.per_engine' has no num_gpu_blocks"));
}

}  // namespace
}  // namespace vllm
