#include "bench/validate/real_run.h"

#include "bench/validate/support.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::requests_text;
using testing::two_rows;
using testing::ValidateDir;

RealRun read(const ValidateDir& dir, ArrivalAnchor anchor = ArrivalAnchor::kPickup) {
  auto run = read_real_run(dir.run(), anchor);
  EXPECT_TRUE(run.is_ok()) << run.status().message();
  return run ? std::move(*run) : RealRun();
}

std::string error_of(const ValidateDir& dir) {
  const auto run = read_real_run(dir.run(), ArrivalAnchor::kPickup);
  if (run) return "";
  EXPECT_EQ(exit_code(run.status()), 2);
  return run.status().message();
}

TEST(RealRun, BothAnchors) {
  const ValidateDir dir;
  const RealRun pickup = read(dir);
  ASSERT_EQ(pickup.requests.size(), 2u);
  EXPECT_DOUBLE_EQ(pickup.requests[0].latency.ttft_ms, 1000);
  EXPECT_DOUBLE_EQ(*pickup.requests[0].latency.tpot_ms, 1000);
  EXPECT_DOUBLE_EQ(pickup.requests[0].latency.latency_ms, 3000);
  EXPECT_DOUBLE_EQ(pickup.requests[1].latency.ttft_ms, 1000);
  EXPECT_FALSE(pickup.requests[1].latency.tpot_ms.has_value());
  const RealRun queued = read(dir, ArrivalAnchor::kQueued);
  EXPECT_DOUBLE_EQ(queued.requests[0].latency.ttft_ms, 1000);
  EXPECT_DOUBLE_EQ(queued.requests[1].latency.ttft_ms, 500);
  EXPECT_EQ(queued.input_toks, 30);
  EXPECT_EQ(queued.output_toks, 4);
}

TEST(RealRun, OneClockAndMissingStamps) {
  RequestRecord one_clock;
  one_clock.arrival_time_s = 1;
  one_clock.queued_ts_s = 2;
  one_clock.first_token_ts_s = 3;
  one_clock.last_token_ts_s = 4;
  EXPECT_EQ(arrivals({one_clock}, ArrivalAnchor::kQueued)[0], 1.0) << "it is on the engine's clock";
  RequestRecord epoch = one_clock;
  epoch.arrival_time_s = 1.7e9;
  EXPECT_EQ(arrivals({epoch}, ArrivalAnchor::kQueued)[0], 2.0);
  epoch.queued_ts_s.reset();
  EXPECT_EQ(arrivals({epoch}, ArrivalAnchor::kQueued)[0], std::nullopt);
  EXPECT_EQ(arrivals({epoch}, ArrivalAnchor::kPickup)[0], std::nullopt) << "no offset is known";
  epoch.issued_ts_s = 1.5;
  EXPECT_EQ(arrivals({epoch}, ArrivalAnchor::kPickup)[0], 1.5);
  one_clock.arrival_time_s.reset();
  EXPECT_EQ(arrivals({one_clock}, ArrivalAnchor::kPickup)[0], 2.0);
}

TEST(RealRun, FactsOfTheMeta) {
  const ValidateDir dir;
  const RealRun run = read(dir);
  EXPECT_EQ(run.engine, "vLLM 0.19.0");
  EXPECT_EQ(run.dataset_hash, "AB12");
  ASSERT_EQ(run.capacity.engines.size(), 1u);
  EXPECT_EQ(run.setting({"scheduler.max_num_seqs", "engine_kwargs.max_num_seqs"}), "128");
  EXPECT_FALSE(run.timeseries_derived);
  EXPECT_THAT(run.refusals, IsEmpty());
  EXPECT_THAT(run.notes, IsEmpty());
}

TEST(RealRun, LegacyFoldersNeedRequestsAndTimeseries) {
  ValidateDir dir;
  dir.remove("meta.json");
  const RealRun run = read(dir);
  EXPECT_THAT(run.refusals, IsEmpty());
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("has no meta.json (a legacy folder)")));
  dir.remove("timeseries.csv");
  EXPECT_THAT(read(dir).refusals, ElementsAre(HasSubstr("is not complete: it has no timeseries.csv")));
}

TEST(RealRun, WhatIsNoGroundTruthIsSaid) {
  const auto refusals = [](const std::string& members, const std::string& file = "") {
    ValidateDir dir;
    dir.write("meta.json", R"({"tick_seconds": 1.0)" + members + "}");
    if (!file.empty()) dir.write(file, R"({"reason": "Ctrl-C"})");
    return read(dir).refusals;
  };
  EXPECT_THAT(refusals(R"(, "diagnostic": "paced")"),
              ElementsAre(HasSubstr("no ground truth: its meta.json says 'paced'")));
  EXPECT_THAT(refusals(R"(, "diagnostic": true)"), ElementsAre(HasSubstr("diagnostic")));
  EXPECT_THAT(refusals(R"(, "diagnostic": null)"), IsEmpty());
  EXPECT_THAT(refusals(R"(, "diagnostic": "")"), IsEmpty());
  EXPECT_THAT(refusals(R"(, "resolve_only": true)"), ElementsAre(HasSubstr("resolve_only")));
  EXPECT_THAT(refusals(R"(, "resolve_only": false)"), IsEmpty());
  EXPECT_THAT(refusals(R"(, "status": "aborted")"), ElementsAre(HasSubstr("was aborted")));
  EXPECT_THAT(refusals(R"(, "aborted": true)"), ElementsAre(HasSubstr("was aborted")));
  EXPECT_THAT(refusals(R"(, "status": "engine_initialized")"), ElementsAre(HasSubstr("initialisation only")));
  EXPECT_THAT(refusals(R"(, "engine_kwargs": {"record_gate_stats": true})"),
              ElementsAre(HasSubstr("gate statistics")));
  EXPECT_THAT(refusals(R"(, "num_requests": 3)"),
              ElementsAre(HasSubstr("2 of 3 requests are in requests.jsonl")));
  EXPECT_THAT(refusals("", "aborted.json"), ElementsAre(HasSubstr("was aborted (Ctrl-C)")));
  EXPECT_THAT(refusals("", "gate_stats.json"), ElementsAre(HasSubstr("gate statistics (gate_stats.json)")));
  EXPECT_THAT(refusals("", "moe_activated.jsonl"), ElementsAre(HasSubstr("moe_activated.jsonl")));
  EXPECT_THAT(refusals("", "engine_start.json"), IsEmpty()) << "a finished run keeps it";

  ValidateDir unfinished;
  unfinished.remove("meta.json");
  unfinished.write("engine_start.json", "{}");
  EXPECT_THAT(read(unfinished).refusals,
              ElementsAre(HasSubstr("did not end: it has an engine_start.json and no meta.json")));
}

TEST(RealRun, FoldersWithoutRequests) {
  ValidateDir dir;
  dir.remove("requests.jsonl");
  EXPECT_THAT(error_of(dir), HasSubstr("has no requests.jsonl; a finished run's folder is needed"));
  dir.write("engine_start.json", "{}");
  EXPECT_THAT(error_of(dir), HasSubstr("is an initialisation only"));
  dir.write("aborted.json", R"({"reason": "disk full"})");
  EXPECT_THAT(error_of(dir), HasSubstr("was aborted (disk full)"));
  dir.write("meta.json", R"({"resolve_only": true})");
  EXPECT_THAT(error_of(dir), HasSubstr("is a resolve_only run"));
  EXPECT_THAT(read_real_run(dir.path("nowhere"), ArrivalAnchor::kPickup).status().message(),
              HasSubstr("there is no such folder"));
}

TEST(RealRun, MalformedFilesAreNamed) {
  ValidateDir dir;
  dir.write("requests.jsonl", requests_text(two_rows()) + "{oops\n");
  EXPECT_THAT(error_of(dir), HasSubstr("requests.jsonl:3: is not a JSON object"));
  dir.write("requests.jsonl", requests_text({two_rows()[0]}) + requests_text({two_rows()[0]}));
  EXPECT_THAT(error_of(dir), HasSubstr("row 0 of the dataset occurs twice ('bench-0')"));
  dir.write("requests.jsonl", "");
  EXPECT_THAT(error_of(dir), HasSubstr("has no requests"));
  dir.write(
      "requests.jsonl",
      R"({"request_id": "bench-0", "input_toks": 1, "output_toks": 1, "arrival_time": null, "queued_ts": null, )"
      R"("scheduled_ts": null, "first_token_ts": null, "last_token_ts": null})");
  EXPECT_THAT(error_of(dir), HasSubstr("no request of it has the stamps"));
  dir.write("requests.jsonl", requests_text({{INT64_MAX, 1, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0, 0}}));
  EXPECT_THAT(error_of(dir), HasSubstr("sum up to more than 63 bits"));
  dir.write("requests.jsonl", requests_text(two_rows()));
  dir.write("timeseries.csv", "t,prompt_throughput\n");
  EXPECT_THAT(error_of(dir), HasSubstr("timeseries.csv:1: has no column"));
  dir.write("timeseries.csv", testing::kTimeseries);
  dir.write("meta.json", "{");
  EXPECT_THAT(error_of(dir), HasSubstr("is not valid JSON"));
  dir.write("meta.json", R"({"tick_seconds": 0})");
  EXPECT_THAT(error_of(dir), HasSubstr("'tick_seconds' is 0, a number above 0 is needed"));
}

TEST(RealRun, RequestsWithoutStampsAreCounted) {
  ValidateDir dir;
  dir.write(
      "requests.jsonl",
      requests_text({two_rows()[0]}) +
          R"({"request_id": "bench-1", "input_toks": 20, "output_toks": 1, "arrival_time": 1, "queued_ts": null, )"
          R"("scheduled_ts": null, "first_token_ts": null, "last_token_ts": null})");
  const RealRun run = read(dir);
  EXPECT_EQ(run.without_stamps, 1);
  EXPECT_EQ(run.input_toks, 30) << "their tokens count all the same";
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("1 of 2 requests have no stamps")));
}

TEST(RealRun, ATimeseriesIsDerivedForRecordingsOfTheOtherShape) {
  ValidateDir dir;
  dir.write("meta.json", R"({"num_gpu_blocks": 100, "block_size": 16, "dataset_sha256": "cd"})");
  dir.remove("timeseries.csv");
  const RealRun run = read(dir, ArrivalAnchor::kQueued);
  EXPECT_THAT(run.refusals, IsEmpty());
  EXPECT_THAT(run.notes, ElementsAre(HasSubstr("are derived from requests.jsonl")));
  EXPECT_TRUE(run.timeseries_derived);
  // Origin 2. Request 0: running from 2.25, tokens at 3, 4, 5. Request 1: queued 3.5, running and token at 4.
  const auto& rows = run.timeseries;
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT((std::vector{rows[0].t_s, rows[1].t_s, rows[2].t_s}), ElementsAre(1, 2, 3));
  EXPECT_THAT((std::vector{rows[0].prompt_throughput, rows[1].prompt_throughput, rows[2].prompt_throughput}),
              ElementsAre(0, 10, 20));
  EXPECT_THAT((std::vector{rows[0].gen_throughput, rows[1].gen_throughput, rows[2].gen_throughput}),
              ElementsAre(0, 1, 3))
      << "the last instant belongs to the last tick";
  // At the ends 3, 4 and 5 of the ticks.
  EXPECT_THAT((std::vector{rows[0].running, rows[1].running, rows[2].running}), ElementsAre(1, 1, 0));
  EXPECT_THAT((std::vector{rows[0].waiting, rows[1].waiting, rows[2].waiting}), ElementsAre(0, 0, 0));
}

TEST(RealRun, ADerivedTimeseriesSaysWhoWaits) {
  RequestRecord r;
  r.input_toks = 8;
  r.output_toks = 1;
  r.queued_ts_s = 0;
  r.scheduled_ts_s = 2.5;
  r.first_token_ts_s = r.last_token_ts_s = 3.5;
  const auto rows = derive_timeseries({r}, {0.0}, 1, 0);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].waiting, 1);
  EXPECT_EQ(rows[1].waiting, 1);
  EXPECT_EQ(rows[2].waiting, 0);
  EXPECT_EQ(rows[2].running, 1);
  EXPECT_EQ(rows[3].running, 0);
  EXPECT_EQ(rows[3].prompt_throughput, 8);
  r.last_token_ts_s = 1e300;
  EXPECT_THAT(derive_timeseries({r}, {0.0}, 1, 0), IsEmpty()) << "a series without end is none";
}

}  // namespace
}  // namespace vllm
