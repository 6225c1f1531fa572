// check-schedule: equal on what our scheduler or vLLM recorded, and helpful on what differs.

#include "bench/check_schedule.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>

#include "bench/schedule_comparison.h"
#include "formats/json.h"
#include "sched/scheduler.h"
#include "support/reference.h"

namespace vllm::testing {
namespace {

using ::testing::HasSubstr;

struct Ending {
  enum Kind { kLength, kEarlyStop, kAbort } kind = kLength;
  int64_t after = 0;  // tokens
};

// A run of our own scheduler on a virtual time, written as a recording: a pool small enough to preempt,
// chunks, shared prefixes, requests that end early.
class SyntheticRun {
 public:
  explicit SyntheticRun(int depth) : depth_(depth) {
    config_.num_blocks = 41;
    config_.block_size = 8;
    config_.max_model_len = 300;
    config_.options.max_num_seqs = 6;
    config_.options.max_num_batched_tokens = 64;
    config_.options.scheduling_depth = depth;
    for (int i = 0; i < 24; ++i) {
      WorkloadRequest row;
      for (int k = 0; k < 20 + (i * 7) % 60; ++k)
        row.input_tok_ids.push_back(k < 16 ? i % 3 : 100 + i * 13 + k);
      row.input_toks = static_cast<int32_t>(row.input_tok_ids.size());
      row.output_toks = 10 + (i * 5) % 40;
      row.arrival_ns = i * 3 * kNsPerMs;
      rows_.push_back(row);
    }
  }

  std::map<int64_t, Ending> endings;

  void run() {
    Scheduler scheduler(config_);
    std::deque<std::pair<size_t, std::unique_ptr<StepPlan>>> flight;
    TimeNs now = kNsPerSecond;
    size_t next = 0;
    requests_.resize(rows_.size());
    for (int guard = 0; guard < 10'000; ++guard) {
      for (; next < rows_.size() && kNsPerSecond + rows_[next].arrival_ns <= now; ++next)
        submit(scheduler, next, now);
      now += 10;  // an abort comes after the last token, or it would look like an end by a token
      for (auto& [id, ending] : endings) {
        if (ending.kind == Ending::kAbort && generated(scheduler, id) >= ending.after &&
            scheduler.abort(static_cast<RequestId>(id))) {
          requests_[static_cast<size_t>(id)].finished_ts_s = ns_to_s(now);
        }
      }
      now += 1000;
      if (scheduler.has_work()) {
        auto plan = std::make_unique<StepPlan>();
        scheduler.schedule(*plan);
        record(*plan, now);
        const bool more = !plan->entries.empty() || scheduler.has_requests();
        flight.emplace_back(steps_.size() - 1, std::move(plan));
        now += 1000;
        if (static_cast<int>(flight.size()) < depth_ && more) continue;
      } else if (flight.empty() && next == rows_.size()) {
        break;
      }
      now += kNsPerMs;
      if (flight.empty()) continue;
      finish(scheduler, *flight.front().second, flight.front().first, now);
      flight.pop_front();
    }
    preemptions = scheduler.stats().preemptions;
  }

  void write(const TempDir& dir, const std::string& log = "steps.jsonl") {
    std::string workload, requests;
    for (const WorkloadRequest& row : rows_) workload += workload_row_json(row) + "\n";
    for (const RequestRecord& record : requests_) requests += request_record_json(record) + "\n";
    write_text(dir / "workload.jsonl", workload);
    write_text(dir / "requests.jsonl", requests);
    const Json meta = {{"num_gpu_blocks", config_.num_blocks},
                       {"block_size", config_.block_size},
                       {"scheduler",
                        {{"max_num_seqs", std::to_string(config_.options.max_num_seqs)},
                         {"max_num_batched_tokens", config_.options.max_num_batched_tokens},
                         {"max_model_len", config_.max_model_len},
                         {"scheduling_depth", depth_}}}};
    write_text(dir / "meta.json", json_text(meta));
    if (log == "steps.bin") {
      auto writer = StepLogWriter::create(dir / log);
      ASSERT_TRUE(writer.is_ok());
      for (const StepRecord& step : steps_) ASSERT_TRUE(writer.value().append(step).is_ok());
      ASSERT_TRUE(writer.value().finish().is_ok());
    } else {
      ASSERT_TRUE(write_step_log_jsonl(dir / log, steps_).is_ok());
    }
  }

  int64_t preemptions = 0;
  std::vector<StepRecord>& steps() { return steps_; }
  std::vector<RequestRecord>& requests() { return requests_; }

 private:
  static constexpr int32_t kEnd = 99'999;

  void submit(Scheduler& scheduler, size_t i, TimeNs now) {
    RequestInput input;
    input.id = i;
    input.prompt = rows_[i].input_tok_ids;
    input.max_tokens = rows_[i].output_toks;
    const int32_t stop[] = {kEnd};
    input.stop_token_ids = stop;
    ASSERT_TRUE(scheduler.add(input).is_ok());
    RequestRecord& record = requests_[i];
    record.request_id = fmt::format("bench-{}", i);
    record.input_toks = rows_[i].input_toks;
    record.arrival_time_s = 1e9 + ns_to_s(now);
    record.queued_ts_s = ns_to_s(now);
  }

  int64_t generated(const Scheduler& scheduler, int64_t id) const {
    const auto state = scheduler.state(static_cast<RequestId>(id));
    return state ? state->num_tokens - state->num_prompt : -1;
  }

  void record(const StepPlan& plan, TimeNs now) {
    StepRecord& step = steps_.emplace_back();
    step.step = plan.step;
    step.t_sched_ns = now;
    step.t_sched_end_ns = now + 500;
    step.total_tokens = plan.total_tokens;
    step.running = plan.running;
    step.waiting = plan.waiting;
    step.free_blocks = plan.free_blocks;
    for (const StepEntry& e : plan.entries) {
      step.entries.push_back({fmt::format("bench-{}", e.id), e.num_tokens, e.num_computed});
      RequestRecord& request = requests_[e.id];
      if (e.starts && !request.cached_toks) request.cached_toks = e.num_computed;
    }
    for (const RequestId id : plan.preempted) step.preempted.push_back(fmt::format("bench-{}", id));
  }

  void finish(Scheduler& scheduler, const StepPlan& plan, size_t index, TimeNs now) {
    steps_[index].t_out_ns = now;
    std::vector<int32_t> tokens;
    for (const StepEntry& e : plan.entries) {
      const auto it = endings.find(static_cast<int64_t>(e.id));
      const bool stop = it != endings.end() && it->second.kind == Ending::kEarlyStop &&
                        generated(scheduler, static_cast<int64_t>(e.id)) + 1 == it->second.after;
      tokens.push_back(stop ? kEnd : 50'000);
    }
    std::vector<RequestOutput> outputs;
    scheduler.process_outputs(plan, tokens, outputs);
    for (const RequestOutput& output : outputs) {
      RequestRecord& request = requests_[output.id];
      ++request.output_toks;
      request.last_token_ts_s = ns_to_s(now);
      if (!request.first_token_ts_s) request.first_token_ts_s = ns_to_s(now);
      if (output.ended) request.finished_ts_s = ns_to_s(now);
    }
  }

  int depth_;
  SchedulerConfig config_;
  std::vector<WorkloadRequest> rows_;
  std::vector<RequestRecord> requests_;
  std::vector<StepRecord> steps_;
};

Result<ScheduleComparison> compare(const TempDir& dir, int max_deviations = 5) {
  VLLM_ASSIGN_OR_RETURN(const RecordedRun run, read_recorded_run(dir.path(), dir / "workload.jsonl"));
  return compare_schedule(run, run.limits.scheduling_depth.value_or(observed_depth(run.steps)),
                          max_deviations);
}

std::string error_of(const TempDir& dir) {
  const auto run = read_recorded_run(dir.path(), dir / "workload.jsonl");
  return run.is_ok() ? "" : run.status().message();
}

class CheckSchedule : public ::testing::TestWithParam<int> {};

TEST_P(CheckSchedule, OurOwnRunWithPreemptionsIsEqual) {
  for (const std::string log : {"steps.jsonl", "steps.bin"}) {
    SyntheticRun synthetic(GetParam());
    synthetic.run();
    ASSERT_GT(synthetic.preemptions, 3);
    TempDir dir;
    synthetic.write(dir, log);
    const auto result = compare(dir);
    ASSERT_TRUE(result.is_ok()) << result.status().message();
    EXPECT_TRUE(result->all_equal()) << comparison_text(
        *read_recorded_run(dir.path(), dir / "workload.jsonl"), *result);
    EXPECT_EQ(result->depth, GetParam());
    EXPECT_EQ(result->steps, static_cast<int64_t>(synthetic.steps().size()));
    EXPECT_EQ(result->preemptions_recorded, synthetic.preemptions);
    EXPECT_EQ(result->preemptions_planned, synthetic.preemptions);
    EXPECT_EQ(result->cached_known, 24);
    EXPECT_GT(result->computed_known, 0);
  }
}

TEST_P(CheckSchedule, RequestsThatEndedEarlyAreEndedThatWay) {
  SyntheticRun synthetic(GetParam());
  synthetic.endings[3] = {Ending::kEarlyStop, 4};
  synthetic.endings[9] = {Ending::kEarlyStop, 1};
  synthetic.endings[5] = {Ending::kAbort, 6};
  synthetic.endings[11] = {Ending::kAbort, 0};  // before any plan has seen it
  synthetic.run();
  ASSERT_EQ(synthetic.requests()[3].output_toks, 4);
  ASSERT_LT(synthetic.requests()[5].output_toks, 30);
  ASSERT_EQ(synthetic.requests()[11].output_toks, 0);
  TempDir dir;
  synthetic.write(dir);
  const auto result = compare(dir);
  ASSERT_TRUE(result.is_ok()) << result.status().message();
  EXPECT_TRUE(result->all_equal()) << comparison_text(*read_recorded_run(dir.path(), dir / "workload.jsonl"),
                                                      *result);
}

TEST_P(CheckSchedule, FewerRequestsThanTheWorkloadHas) {
  SyntheticRun synthetic(GetParam());
  synthetic.run();
  TempDir dir;
  synthetic.write(dir);
  std::string more = workload_row_json([] {
    WorkloadRequest row;
    row.input_tok_ids = {1, 2};
    row.input_toks = row.output_toks = 2;
    return row;
  }());
  write_text(dir / "workload.jsonl", read_file(dir / "workload.jsonl").value() + more + "\n");
  EXPECT_TRUE(compare(dir)->all_equal());
}

INSTANTIATE_TEST_SUITE_P(BothDepths, CheckSchedule, ::testing::Values(1, 2));

// Each field is really compared.
TEST(CheckScheduleFields, ADeviationInEachIsFoundAndShown) {
  SyntheticRun synthetic(2);
  synthetic.run();
  const size_t k = synthetic.steps().size() / 2;
  const StepRecord good = synthetic.steps()[k];
  ASSERT_GE(good.entries.size(), 2u);
  const std::vector<std::pair<StepField, std::function<void(StepRecord&)>>> faults = {
      {StepField::kTokens, [](StepRecord& s) { std::swap(s.entries[0], s.entries[1]); }},
      {StepField::kTokens, [](StepRecord& s) { ++s.entries[1].num_tokens; }},
      {StepField::kTokens, [](StepRecord& s) { s.entries.pop_back(); }},
      {StepField::kTotal, [](StepRecord& s) { ++s.total_tokens; }},
      {StepField::kRunning, [](StepRecord& s) { ++s.running; }},
      {StepField::kWaiting, [](StepRecord& s) { ++s.waiting; }},
      {StepField::kFreeBlocks, [](StepRecord& s) { --s.free_blocks; }},
      {StepField::kPreempted, [](StepRecord& s) { s.preempted.push_back("bench-0"); }}};
  for (const auto& [field, fault] : faults) {
    synthetic.steps()[k] = good;
    fault(synthetic.steps()[k]);
    TempDir dir;
    synthetic.write(dir, "steps.bin");
    const auto result = compare(dir);
    ASSERT_TRUE(result.is_ok()) << result.status().message();
    EXPECT_FALSE(result->all_equal());
    EXPECT_EQ(result->equal_steps, result->steps - 1) << step_field_name(field);
    EXPECT_EQ(result->equal[static_cast<size_t>(field)], result->steps - 1) << step_field_name(field);
    ASSERT_EQ(result->first.size(), 1u);
    EXPECT_EQ(result->first[0].step, static_cast<int64_t>(k));
    EXPECT_EQ(result->first[0].field, field);
    EXPECT_NE(result->first[0].ours, result->first[0].recorded);
    const std::string text = comparison_text(*read_recorded_run(dir.path(), dir / "workload.jsonl"), *result);
    EXPECT_THAT(text, HasSubstr(fmt::format("step {}\n", k)));
    EXPECT_THAT(text, HasSubstr("1 steps differ"));
  }
}

TEST(CheckScheduleFields, CachedTokensAndComputedPositionsCount) {
  SyntheticRun synthetic(1);
  synthetic.run();
  synthetic.requests()[7].cached_toks = 3;
  synthetic.steps()[2].entries[0].num_computed += 1;
  TempDir dir;
  synthetic.write(dir);
  const auto result = compare(dir);
  ASSERT_TRUE(result.is_ok());
  EXPECT_EQ(result->equal_steps, result->steps);
  EXPECT_EQ(result->cached_equal, result->cached_known - 1);
  EXPECT_EQ(result->computed_equal, result->computed_known - 1);
  EXPECT_FALSE(result->all_equal());
}

TEST(CheckScheduleFields, OnlyTheFirstDeviatingStepsAreShownAllAreCounted) {
  SyntheticRun synthetic(1);
  synthetic.run();
  for (StepRecord& step : synthetic.steps()) ++step.free_blocks;
  TempDir dir;
  synthetic.write(dir);
  const auto result = compare(dir, 3);
  ASSERT_TRUE(result.is_ok());
  EXPECT_EQ(result->first.size(), 3u);
  EXPECT_EQ(result->equal_steps, 0);
  EXPECT_TRUE(compare(dir, 0)->first.empty());
}

TEST(CheckScheduleDepth, IsSeenInTheLogWhenMetaDoesNotSayIt) {
  SyntheticRun one(1), two(2);
  one.run();
  two.run();
  EXPECT_EQ(observed_depth(one.steps()), 1);
  EXPECT_EQ(observed_depth(two.steps()), 2);
}

TEST(CheckScheduleDepth, TheWrongOneDiffers) {
  SyntheticRun synthetic(2);
  synthetic.run();
  TempDir dir;
  synthetic.write(dir);
  const auto run = read_recorded_run(dir.path(), dir / "workload.jsonl");
  ASSERT_TRUE(run.is_ok());
  EXPECT_FALSE(compare_schedule(*run, 1, 5)->all_equal());
}

TEST(CheckScheduleIds, RowsOfRequestIds) {
  EXPECT_EQ(request_row("bench-17"), 17);
  EXPECT_EQ(request_row("replay-3-a4afb4d6"), 3);
  EXPECT_EQ(request_row("offline-steps-5-00ff"), 5);
  EXPECT_EQ(request_row("bench-"), std::nullopt);
  EXPECT_EQ(request_row("bench"), std::nullopt);
  EXPECT_EQ(request_row("17"), std::nullopt);
  EXPECT_EQ(request_row("bench--3"), 3);
  EXPECT_EQ(request_row("bench-99999999999999999999"), std::nullopt);
}

class CheckScheduleErrors : public ::testing::Test {
 protected:
  CheckScheduleErrors() : synthetic_(1) {
    synthetic_.run();
    synthetic_.write(dir_);
  }
  SyntheticRun synthetic_;
  TempDir dir_;
};

TEST_F(CheckScheduleErrors, NameWhatIsMissing) {
  EXPECT_THAT(read_recorded_run(dir_ / "nowhere", dir_ / "workload.jsonl").status().message(),
              HasSubstr("nowhere: there is no such folder"));
  ASSERT_EQ(std::remove((dir_ / "steps.jsonl").c_str()), 0);
  EXPECT_THAT(error_of(dir_), HasSubstr("a steps.bin, steps.jsonl or steps.jsonl.gz is needed"));
}

TEST_F(CheckScheduleErrors, AnotherWorkload) {
  WorkloadRequest row;
  row.input_tok_ids = {1, 2, 3};
  row.input_toks = row.output_toks = 3;
  write_text(dir_ / "workload.jsonl", workload_row_json(row) + "\n");
  EXPECT_THAT(error_of(dir_), HasSubstr("'bench-0' has 20 input and 10 output tokens, line 1 of"));
  synthetic_.requests()[0].request_id = "bench-7";
  synthetic_.write(dir_);
  write_text(dir_ / "workload.jsonl", workload_row_json(row) + "\n");
  EXPECT_THAT(error_of(dir_), HasSubstr("request 'bench-7' is row 7, but"));
}

TEST_F(CheckScheduleErrors, IdsThatDoNotFit) {
  synthetic_.requests()[0].request_id = "first";
  synthetic_.write(dir_);
  EXPECT_THAT(error_of(dir_), HasSubstr("the request id 'first' does not name a row"));
  synthetic_.requests()[0].request_id = "bench-1";
  synthetic_.requests()[0].input_toks = synthetic_.requests()[1].input_toks;
  synthetic_.requests()[0].output_toks = synthetic_.requests()[1].output_toks;
  synthetic_.write(dir_);
  EXPECT_THAT(error_of(dir_), HasSubstr("row 1 of the workload occurs twice"));
}

TEST_F(CheckScheduleErrors, AStepThatNamesAnUnknownRequest) {
  synthetic_.steps()[3].entries[0].request_id = "bench-400";
  synthetic_.write(dir_);
  EXPECT_THAT(error_of(dir_),
              HasSubstr("step 3 names request 'bench-400', which requests.jsonl does not have"));
}

TEST_F(CheckScheduleErrors, ARequestThatTheRecordedPoolCannotHold) {
  const std::string meta = read_file(dir_ / "meta.json").value();
  Json json = Json::parse(meta);
  json["num_gpu_blocks"] = 4;
  write_text(dir_ / "meta.json", json_text(json));
  const auto result = compare(dir_);
  ASSERT_FALSE(result.is_ok());
  EXPECT_THAT(result.status().message(), HasSubstr("row 0 (line 1 of"));
  EXPECT_THAT(result.status().message(), HasSubstr("3 usable blocks"));
}

TEST_F(CheckScheduleErrors, TheProgramFailsBelowOneHundredPercent) {
  ParsedOptions parsed;
  parsed.options.check_schedule.bench_dir = dir_.path();
  parsed.options.check_schedule.dataset = dir_ / "workload.jsonl";
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(check_schedule(parsed).is_ok());
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("100.000 %"));
  ++synthetic_.steps()[0].free_blocks;
  synthetic_.write(dir_);
  ::testing::internal::CaptureStdout();
  const Status status = check_schedule(parsed);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("free blocks"));
  EXPECT_EQ(status.code(), StatusCode::kFailed);
  EXPECT_THAT(status.message(), HasSubstr("1 of "));
}

// vLLM's own logs: every step of them.
TEST(CheckScheduleReference, VllmsLogsAreEqualInEveryStep) {
  const auto dataset = shared_path("reference/workloads/sharegpt-llama-3.1-8b-300-sps10.jsonl");
  for (const std::string name : {"replay", "offline"}) {
    const auto dir = shared_path("reference/vllm-0.26-h200/Llama-3.1-8B-" + name + "-steps");
    if (!dir || !dataset) GTEST_SKIP() << "vLLM's step logs are not here";
    const auto run = read_recorded_run(*dir, *dataset);
    ASSERT_TRUE(run.is_ok()) << run.status().message();
    EXPECT_EQ(run->limits.scheduling_depth, 2);
    EXPECT_EQ(observed_depth(run->steps), 2);
    const auto result = compare_schedule(*run, 2, 5);
    ASSERT_TRUE(result.is_ok()) << result.status().message();
    EXPECT_TRUE(result->all_equal()) << comparison_text(*run, *result);
    EXPECT_EQ(result->cached_known, 300);
    EXPECT_GT(result->steps, 2000);
  }
}

}  // namespace
}  // namespace vllm::testing
