#pragma once

// What happened to every call of a replay, and the samples and steps between. The recorder issues calls to
// the target and listens to it; nothing is formatted while the replay runs.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "bench/replay.h"
#include "bench/replay_input.h"
#include "bench/system_under_test.h"
#include "bench/ticker.h"
#include "formats/recording.h"
#include "formats/step_log.h"

namespace vllm {

// One call. Instants are on the bench's clock; 0: has not happened.
struct CallTrace {
  TimeNs due_ns = 0, issued_ns = 0, issued_epoch_ns = 0;
  std::vector<TimeNs> token_ns;
  RequestTimes times;
  bool issued = false;
  bool finished = false;  // ended with exactly the tokens that were asked for
  bool ended = false;     // any end
};

// The issuing thread calls issue(); the target's thread calls the observer; any thread may ask for progress
// and failure. Everything else only before the start and after the target has stopped.
class Recorder final : public TargetObserver {
 public:
  struct Settings {
    TimeNs tick_ns = kNsPerSecond;
    double speed = 1.0;
    StepLogWriter* step_log = nullptr;  // may be null; appended to on the target's thread
  };

  Recorder(ReplayInput& input, SystemUnderTest& target, Clock& clock, const Settings& settings);

  // The schedule begins at `start_ns`: due = start + arrival / speed.
  void begin(TimeNs start_ns);
  IssueQueue& queue() { return queue_; }
  Status issue(size_t index, TimeNs due_ns);

  void on_token(size_t index, TimeNs ready_ns) override;
  void on_end(size_t index, const TargetEnd& end) override;
  void on_step(const CoreCounters& after, const StepRecord& record) override;

  // Any thread.
  int64_t num_issued() const { return num_issued_.load(std::memory_order_acquire); }
  int64_t num_ended() const { return num_ended_.load(std::memory_order_acquire); }
  int64_t num_finished() const { return num_finished_.load(std::memory_order_acquire); }
  int64_t output_tokens() const { return output_tokens_.load(std::memory_order_relaxed); }
  bool all_ended() const { return num_ended() == static_cast<int64_t>(traces_.size()); }
  // The first thing that went wrong; ok while nothing has.
  Status failure() const;
  void fail(Status status);

  // After the target has stopped.
  const ReplayInput& input() const { return input_; }
  const std::vector<CallTrace>& traces() const { return traces_; }
  std::vector<TimeseriesRow> timeseries() const { return ticker_.rows(); }
  int64_t steps() const { return steps_; }

 private:
  ReplayInput& input_;
  SystemUnderTest& target_;
  Clock& clock_;
  Settings settings_;
  IssueQueue queue_;
  std::vector<CallTrace>
      traces_;  // one a call; the issuing thread writes due and issued, the target's the rest
  Ticker ticker_;
  int64_t steps_ = 0;
  std::atomic<int64_t> num_issued_ = 0, num_ended_ = 0, num_finished_ = 0, output_tokens_ = 0;
  mutable std::mutex failure_mutex_;
  Status failure_;
};

// The line of requests.jsonl for call `index`.
RequestRecord make_request_record(const ReplayInput& input, const CallTrace& trace, size_t index,
                                  bool with_itl);

// Time never ran backwards in any call: due <= issued <= queued <= scheduled <= first token <= last token. An
// error names the first call where it did.
Status check_time_order(const std::vector<CallTrace>& traces);

}  // namespace vllm
