#include "bench/meta.h"

#include "base/file.h"
#include "bench/environment.h"
#include "bench/fake_target.h"
#include "bench/run_files.h"
#include "formats/json.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> keys(const Json& json) {
  std::vector<std::string> out;
  for (const auto& [key, value] : json.items()) out.push_back(key);
  return out;
}

class MetaTest : public ::testing::Test {
 protected:
  void parse(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"--model", "m.gguf", "--dataset", "d.jsonl", "--output-dir", "o"};
    args.insert(args.end(), more.begin(), more.end());
    auto parsed = parse_options(Program::kBenchRun, args);
    ASSERT_TRUE(parsed.is_ok()) << parsed.status().message();
    parsed_ = std::move(*parsed);
    facts_.parsed = &parsed_;
    facts_.dataset_path = "d.jsonl";
    facts_.dataset_sha256 = "abc";
    facts_.num_requests = 2;
    facts_.target = "in-process";
    facts_.started_epoch_ns = 1'700'000'000 * kNsPerSecond;
    facts_.hardware = Json{{"device_name", "x"}};
    engine_.plan.blocks = 65;
    engine_.plan.usable_blocks = 64;
    engine_.plan.tokens = 1024;
    engine_.plan.spec.block_size = 16;
    engine_.plan.max_model_len = 2048;
    engine_.executor = "cpu-plain-avx2";
    facts_.engine = &engine_;
  }

  RunOutcome outcome() {
    RunOutcome out;
    out.finished_epoch_ns = facts_.started_epoch_ns + kNsPerSecond;
    out.summary = &summary_;
    out.memory = {{"kv_cache", 10, 20}};
    out.process_peak_bytes = 30;
    return out;
  }

  ParsedOptions parsed_;
  EngineFacts engine_;
  RunFacts facts_;
  LoadSummary summary_;
};

TEST_F(MetaTest, TheKnownKeysComeFirstAndInTheirOrder) {
  parse();
  const Json meta = meta_json(facts_, outcome());
  const std::vector<std::string> known = {"schema_version",  "model",        "vllm_version", "engine_kwargs",
                                          "dataset_path",    "dataset_hash", "num_requests", "started_at",
                                          "finished_at",     "tick_seconds", "kv_cache",     "hardware",
                                          "resolved_config", "execution"};
  const std::vector<std::string> all = keys(meta);
  ASSERT_GE(all.size(), known.size());
  EXPECT_EQ(std::vector<std::string>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(known.size())),
            known);
  EXPECT_EQ(meta["schema_version"], 1);
  EXPECT_EQ(meta["num_requests"], 2);
  EXPECT_EQ(meta["started_at"], "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(meta["finished_at"], "2023-11-14T22:13:21.000000Z");
  EXPECT_EQ(meta["dataset_hash"], "abc");
  EXPECT_THAT(meta["vllm_version"].get<std::string>(), HasSubstr("vllm-twin-"));
  EXPECT_FALSE(meta.contains("diagnostic"));
  EXPECT_FALSE(meta.contains("resolve_only"));
}

TEST_F(MetaTest, EngineKwargsHaveTheirKeysAndTypes) {
  parse({"--max-model-len", "1000", "--num-blocks", "65"});
  const Json kwargs = meta_json(facts_, outcome())["engine_kwargs"];
  EXPECT_EQ(kwargs["model"], "m.gguf");
  EXPECT_EQ(kwargs["tensor_parallel_size"], 1);
  EXPECT_EQ(kwargs["enable_expert_parallel"], false);
  EXPECT_EQ(kwargs["max_num_seqs"], 128);
  EXPECT_EQ(kwargs["max_num_batched_tokens"], 2048);
  EXPECT_EQ(kwargs["max_model_len"], 1000);
  EXPECT_EQ(kwargs["kv_cache_dtype"], "auto");
  EXPECT_EQ(kwargs["load_format"], "auto");
  EXPECT_EQ(kwargs["seed"], 42);
  EXPECT_TRUE(kwargs["kv_cache_memory_bytes"].is_null());
  EXPECT_EQ(kwargs["num_blocks"], 65);
}

TEST_F(MetaTest, CapacityIsThatOfEachEngine) {
  parse();
  const Json kv = meta_json(facts_, outcome())["kv_cache"];
  EXPECT_EQ(kv["num_gpu_blocks"], 65);
  EXPECT_EQ(kv["block_size"], 16);
  EXPECT_EQ(kv["num_kv_tokens"], 65 * 16);
  EXPECT_EQ(kv["enable_prefix_caching"], true);
  EXPECT_EQ(kv["capacity"]["status"], "complete");
  ASSERT_EQ(kv["capacity"]["per_engine"].size(), 1u);
  EXPECT_EQ(kv["capacity"]["per_engine"][0]["num_gpu_blocks"], 65);
  EXPECT_EQ(kv["capacity"]["per_engine"][0]["token_capacity"], 1024);
}

TEST_F(MetaTest, ATargetThatDoesNotTellHasUnknownCapacityWithAReason) {
  parse();
  facts_.engine = nullptr;
  const Json meta = meta_json(facts_, outcome());
  EXPECT_EQ(meta["kv_cache"]["capacity"]["status"], "unknown");
  EXPECT_TRUE(meta["kv_cache"]["capacity"]["per_engine"].is_null());
  EXPECT_EQ(meta["execution"]["status"], "unknown");
  EXPECT_TRUE(meta["kv_plan"].is_null());
}

TEST_F(MetaTest, EveryOptionIsThereWithItsSource) {
  parse({"--max-num-seqs", "7"});
  const Json config = meta_json(facts_, outcome())["resolved_config"];
  size_t count = 0;
  bool found = false;
  for (const auto& [group, options] : config.items()) {
    count += options.size();
    if (!options.contains("max-num-seqs")) continue;
    found = true;
    EXPECT_EQ(options["max-num-seqs"].dump(), R"({"value":"7","source":"command line"})");
    EXPECT_EQ(options["max-num-batched-tokens"].dump(), R"({"value":"2048","source":"default"})");
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(count, parsed_.resolved.size());
}

TEST_F(MetaTest, ResolveOnlyHasNoRequestsAndNoResults) {
  parse({"--resolve-only"});
  RunOutcome out = outcome();
  out.summary = nullptr;
  const Json meta = meta_json(facts_, out);
  EXPECT_EQ(meta["resolve_only"], true);
  EXPECT_EQ(meta["num_requests"], 0);
  EXPECT_FALSE(meta.contains("results"));
}

TEST_F(MetaTest, RunsThatAreNoGroundTruthSaySo) {
  parse({"--speed", "2"});
  EXPECT_EQ(meta_json(facts_, outcome())["diagnostic"], "paced: arrivals are those of --speed 2");
  parse({"--null-executor", "--speed", "0.5"});
  EXPECT_EQ(diagnostic_reason(parsed_.options),
            "null executor: no model was computed; paced: arrivals are those of --speed 0.5");
}

TEST_F(MetaTest, OursFollow) {
  parse();
  summary_.send_lag.client_limited = true;
  const Json meta = meta_json(facts_, outcome());
  EXPECT_EQ(meta["target"], "in-process");
  EXPECT_EQ(meta["client_limited"], true);
  EXPECT_TRUE(meta["send_lag"].contains("p99_ms"));
  EXPECT_EQ(meta["memory"].dump(),
            R"({"process_peak_rss_bytes":30,"kv_cache":{"held_bytes":10,"peak_bytes":20}})");
  EXPECT_EQ(meta["kv_plan"]["blocks"], 65);
  EXPECT_TRUE(meta["version"]["libraries"].is_object());
  EXPECT_EQ(meta["scheduler"]["policy"], "fcfs");
}

TEST_F(MetaTest, OurReaderFindsTheLimits) {
  parse({"--max-num-seqs", "9", "--watermark", "0.5"});
  const auto limits = recorded_limits(meta_json(facts_, outcome()), "meta.json");
  ASSERT_TRUE(limits.is_ok()) << limits.status().message();
  EXPECT_EQ(limits->num_blocks, 65);
  EXPECT_EQ(limits->block_size, 16);
  EXPECT_EQ(limits->max_num_seqs, 9);
  EXPECT_EQ(limits->max_num_batched_tokens, 2048);
  EXPECT_EQ(limits->max_model_len, 2048);
  EXPECT_EQ(limits->watermark, 0.5);
  EXPECT_EQ(limits->scheduling_depth, 1);
}

TEST_F(MetaTest, TheStartSnapshotHasItsKeysAndNoMore) {
  parse();
  EXPECT_THAT(keys(engine_start_json(facts_)),
              ElementsAre("schema_version", "status", "model", "vllm_version", "started_at", "dataset_path",
                          "dataset_hash", "num_requests", "engine_kwargs", "kv_cache", "resolved_config"));
  EXPECT_EQ(engine_start_json(facts_)["status"], "engine_initialized");
}

TEST_F(MetaTest, AnAbortSaysWhyAndWhatWasFinished) {
  parse();
  AbortFacts abort;
  abort.reason = "interrupted (Ctrl-C or SIGTERM)";
  abort.num_issued = 5;
  abort.num_finished = 1;
  abort.finished_requests = {R"({"request_id":"bench-0"})"};
  const Json json = aborted_json(facts_, abort);
  EXPECT_EQ(json["status"], "aborted");
  EXPECT_EQ(json["reason"], "interrupted (Ctrl-C or SIGTERM)");
  EXPECT_EQ(json["num_issued"], 5);
  EXPECT_EQ(json["finished_requests"][0]["request_id"], "bench-0");
  EXPECT_EQ(json["diagnostic"], "failed run: interrupted (Ctrl-C or SIGTERM)");
}

// The order in which the files of a run come and go.
TEST_F(MetaTest, AKilledRunLeavesAnAbortedJsonAndAFinishedOneDoesNot) {
  parse();
  testing::TempDir dir;
  const auto out = OutputDir::open(dir / "run");
  ASSERT_TRUE(out.is_ok());
  ASSERT_TRUE(write_start_files(*out, facts_).is_ok());
  EXPECT_THAT(*read_file(out->file("aborted.json")), HasSubstr("the process ended without a word"));
  ASSERT_TRUE(write_meta(*out, meta_json(facts_, outcome())).is_ok());
  EXPECT_FALSE(file_exists(out->file("aborted.json")));
  EXPECT_TRUE(file_exists(out->file("meta.json")));
  EXPECT_TRUE(file_exists(out->file("engine_start.json")));
}

TEST_F(MetaTest, AnAbortedRunKeepsNoFileThatCouldBeTakenForAFinishedOne) {
  parse();
  testing::TempDir dir;
  const auto out = OutputDir::open(dir / "run");
  ASSERT_TRUE(out->write("requests.jsonl", "x").is_ok());
  ASSERT_TRUE(out->write("timeseries.csv", "x").is_ok());
  ASSERT_TRUE(write_aborted(*out, facts_, nullptr, "the disk is full", 0).is_ok());
  EXPECT_FALSE(file_exists(out->file("requests.jsonl")));
  EXPECT_FALSE(file_exists(out->file("timeseries.csv")));
  EXPECT_THAT(*read_file(out->file("aborted.json")), HasSubstr("the disk is full"));
}

}  // namespace
}  // namespace vllm
