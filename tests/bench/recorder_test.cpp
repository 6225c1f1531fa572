#include "bench/recorder.h"

#include "bench/fake_target.h"
#include "support/reference.h"

namespace vllm {
namespace {

using testing::FakeTarget;
using testing::make_input;

class RecorderTest : public ::testing::Test {
 protected:
  void replay(ReplayInput& input, double speed = 1.0) {
    Recorder::Settings settings;
    settings.speed = speed;
    recorder_ = std::make_unique<Recorder>(input, target_, clock_, settings);
    target_.observe(recorder_.get());
    recorder_->begin(clock_.now_ns());
    status_ = issue_on_schedule(recorder_->queue(), clock_, stop_,
                                [&](size_t index, TimeNs due_ns) { return recorder_->issue(index, due_ns); });
  }

  VirtualClock clock_{kNsPerSecond, 1'700'000'000 * kNsPerSecond};
  FakeTarget target_{clock_};
  std::atomic<bool> stop_ = false;
  std::unique_ptr<Recorder> recorder_;
  Status status_;
};

TEST_F(RecorderTest, IssuesWhatTheDatasetSaysAndRecordsBothTimes) {
  ReplayInput input = make_input({0, 5 * kNsPerMs}, 3);
  replay(input);
  ASSERT_TRUE(status_.is_ok());
  ASSERT_EQ(target_.issued.size(), 2u);
  EXPECT_EQ(target_.issued[1].name, "bench-1");
  EXPECT_EQ(target_.issued[1].prompt, (std::vector<int32_t>{1, 1, 1}));
  EXPECT_EQ(target_.issued[1].output_tokens, 3);
  EXPECT_TRUE(recorder_->all_ended());
  EXPECT_EQ(recorder_->num_finished(), 2);
  EXPECT_EQ(recorder_->output_tokens(), 6);
  const CallTrace& trace = recorder_->traces()[1];
  EXPECT_EQ(trace.due_ns, kNsPerSecond + 5 * kNsPerMs);
  EXPECT_EQ(trace.issued_ns, trace.due_ns);
  EXPECT_EQ(trace.token_ns.size(), 3u);
  EXPECT_TRUE(check_time_order(recorder_->traces()).is_ok());
}

TEST_F(RecorderTest, SpeedCompressesArrivals) {
  ReplayInput input = make_input({0, 60 * kNsPerMs});
  replay(input, 4.0);
  EXPECT_EQ(target_.issued[1].now_ns, kNsPerSecond + 15 * kNsPerMs);
}

TEST_F(RecorderTest, TheRecordHasTheKnownKeysAndOurs) {
  ReplayInput input = make_input({0, kNsPerMs}, 3);
  replay(input);
  const RequestRecord r = make_request_record(input, recorder_->traces()[1], 1, true);
  EXPECT_EQ(r.request_id, "bench-1");
  EXPECT_EQ(r.input_toks, 3);
  EXPECT_EQ(r.output_toks, 3);
  EXPECT_DOUBLE_EQ(*r.arrival_time_s, 1'700'000'000.001);
  EXPECT_DOUBLE_EQ(*r.issued_ts_s, 1.001);
  EXPECT_DOUBLE_EQ(*r.queued_ts_s, 1.00100001);
  EXPECT_DOUBLE_EQ(*r.first_token_ts_s, 1.001001);
  EXPECT_DOUBLE_EQ(*r.last_token_ts_s, 1.001002);
  EXPECT_DOUBLE_EQ(*r.send_lag_s, 0.0);
  EXPECT_EQ(*r.cached_toks, 3);
  ASSERT_EQ(r.itl_s.size(), 2u);
  EXPECT_DOUBLE_EQ(r.itl_s[0], 5e-7);
  EXPECT_TRUE(make_request_record(input, recorder_->traces()[1], 1, false).itl_s.empty());
}

TEST_F(RecorderTest, AStampThatDidNotHappenIsNull) {
  ReplayInput input = make_input({0});
  const RequestRecord r = make_request_record(input, CallTrace{}, 0, false);
  EXPECT_FALSE(r.arrival_time_s.has_value());
  EXPECT_FALSE(r.queued_ts_s.has_value());
  EXPECT_FALSE(r.send_lag_s.has_value());
}

TEST_F(RecorderTest, FewerOrMoreTokensThanAskedIsAFailureThatNamesTheLine) {
  target_.extra_tokens = -1;
  ReplayInput input = make_input({0}, 4);
  replay(input);
  EXPECT_EQ(recorder_->failure().message(),
            "request bench-0 (line 1): ended with 3 tokens of the 4 that were asked for");
  EXPECT_EQ(recorder_->num_finished(), 0);
  EXPECT_TRUE(recorder_->all_ended());
}

TEST_F(RecorderTest, ARequestThatTheTargetRefusesFailsTheRun) {
  target_.end_status = refused("needs 9 blocks of 4");
  ReplayInput input = make_input({0, 1});
  replay(input);
  EXPECT_EQ(recorder_->failure().message(), "request bench-0 (line 1): needs 9 blocks of 4");
}

TEST_F(RecorderTest, ARequestThatIsNotTakenDoesNotCountAsIssued) {
  target_.refuse_next = refused("the engine is stopped");
  ReplayInput input = make_input({0, 1});
  replay(input);
  EXPECT_EQ(status_.message(), "request bench-0 (line 1): the engine is stopped");
  EXPECT_EQ(recorder_->num_issued(), 0);
  EXPECT_FALSE(recorder_->traces()[0].issued);
}

TEST_F(RecorderTest, AnAbortedRequestIsNeitherFinishedNorAFailure) {
  target_.hold = true;
  ReplayInput input = make_input({0});
  replay(input);
  EXPECT_FALSE(recorder_->all_ended());
  target_.abort_all();
  EXPECT_TRUE(recorder_->all_ended());
  EXPECT_EQ(recorder_->num_finished(), 0);
  EXPECT_TRUE(recorder_->failure().is_ok());
}

ReplayInput session_of(int calls, TimeNs arrival_ns, TimeNs tool_ns) {
  ReplayInput input = make_input(std::vector<TimeNs>(static_cast<size_t>(calls), arrival_ns));
  for (size_t i = 0; i < input.calls.size(); ++i) {
    input.calls[i].released = i > 0;
    input.calls[i].tool_duration_ns = tool_ns;
    if (i + 1 < input.calls.size()) input.calls[i].next = i + 1;
  }
  return input;
}

TEST_F(RecorderTest, ACallOfASessionIsReleasedByTheEndOfTheOneBeforeAndItsToolTime) {
  ReplayInput input = session_of(3, 2 * kNsPerMs, 7 * kNsPerMs);
  replay(input);
  ASSERT_TRUE(status_.is_ok());
  ASSERT_EQ(target_.issued.size(), 3u);
  const TimeNs service_ns = 1000 + 500;  // two tokens of the fake
  EXPECT_EQ(target_.issued[0].now_ns, kNsPerSecond + 2 * kNsPerMs);
  EXPECT_EQ(target_.issued[1].now_ns, target_.issued[0].now_ns + service_ns + 7 * kNsPerMs);
  EXPECT_EQ(target_.issued[2].now_ns, target_.issued[1].now_ns + service_ns + 7 * kNsPerMs);
  EXPECT_EQ(recorder_->num_finished(), 3);
}

TEST_F(RecorderTest, AFailedCallEndsItsSessionWithoutAHang) {
  target_.extra_tokens = 1;
  ReplayInput input = session_of(3, 0, 0);
  replay(input);
  EXPECT_EQ(target_.issued.size(), 1u);
  EXPECT_FALSE(recorder_->failure().is_ok());
}

TEST_F(RecorderTest, StepsGoToTheTickerAndTheLog) {
  testing::TempDir dir;
  auto log = StepLogWriter::create(dir / "steps.bin");
  ASSERT_TRUE(log.is_ok());
  ReplayInput input = make_input({0});
  Recorder::Settings settings;
  settings.step_log = &*log;
  Recorder recorder(input, target_, clock_, settings);
  recorder.begin(0);
  StepRecord step;
  step.step = 1;
  step.t_out_ns = 10;
  step.entries.push_back({"bench-0", 2, 0});
  CoreCounters counters;
  counters.prompt_tokens = 2;
  recorder.on_step(counters, step);
  EXPECT_EQ(recorder.steps(), 1);
  EXPECT_EQ(recorder.timeseries().at(0).prompt_throughput, 2.0);
  ASSERT_TRUE(log->finish().is_ok());
  const auto read = read_step_log(dir / "steps.bin");
  ASSERT_TRUE(read.is_ok());
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->at(0).entries.at(0).request_id, "bench-0");
}

TEST_F(RecorderTest, TimeThatRunsBackwardsIsFound) {
  CallTrace trace;
  trace.due_ns = 10;
  trace.issued_ns = 20;
  trace.times.queued_ns = 30;
  trace.times.scheduled_ns = 25;
  trace.times.first_token_ns = trace.times.last_token_ns = trace.times.finished_ns = 50;
  EXPECT_EQ(check_time_order({trace}).message(),
            "request bench-0: its 'scheduled' stamp is 5 ns before its 'queued' stamp; the recording cannot "
            "be trusted");
}

}  // namespace
}  // namespace vllm
