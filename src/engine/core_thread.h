#pragma once

// The core loop on a thread of its own, behind bounded queues: the part of an engine that knows neither
// models nor memory. Any executor will do, so tests drive it with their own.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/executor.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/core_loop.h"
#include "engine/engine.h"

namespace vllm {

struct CoreThreadConfig {
  SchedulerConfig scheduler;
  int64_t vocab_size = 0;  // a prompt's ids are below it
  std::vector<int32_t> eos_token_ids;
  int64_t max_queued = 1 << 20;
  std::function<void(const StepPlan&, const StepRecord&)> on_step;  // may be empty
};

// Owns the loop, the executor and the thread. The core thread alone touches loop and executor; everything
// that other threads say goes through `inbox_`, `aborts_` and flags under `mutex_`, and the core never holds
// that mutex while it plans, computes or calls back. Idle, it blocks on a condition variable; it never spins.
class CoreThread final : private CoreObserver {
 public:
  // `clock` is a real one and outlives the object.
  CoreThread(CoreThreadConfig config, std::unique_ptr<Executor> executor, Clock& clock);
  // Aborts what lives, then joins.
  ~CoreThread() override;
  CoreThread(const CoreThread&) = delete;
  CoreThread& operator=(const CoreThread&) = delete;

  // The contract of the Engine's methods of the same names. Any thread; the core's own (from a callback) may
  // call all but shutdown and reset_for_measurement.
  Result<RequestId> submit(EngineRequest request, EngineCallbacks callbacks);
  void abort(RequestId id);
  void shutdown(TimeNs timeout_ns);
  CoreCounters counters() const;
  bool reset_for_measurement();
  Status health() const;

 private:
  struct Submission {
    RequestId id = 0;
    EngineRequest request;
    EngineCallbacks callbacks;
    Status refusal;  // found while submitting; told by the core like any other end
    bool aborted = false;
  };
  struct Client {
    EngineCallbacks callbacks;
    std::vector<int32_t> tokens;
  };
  enum class ResetState { kNone, kAsked, kDone, kRefused };

  void on_token(RequestId id, int32_t token, TimeNs ready_ns) override;
  void on_end(RequestId id, EndReason reason, const RequestTimes& times) override;
  void on_step(const StepPlan& plan, const StepRecord& record) override;
  void on_collected() override;
  bool wants_steps() const override { return on_step_ != nullptr; }

  Status check_prompt(const EngineRequest& request) const;
  void run();
  bool take_inbox();
  void answer_reset();
  void add_taken(Submission& submission);
  void apply_aborts();
  void serve();
  void end_everything();
  void end_without_loop(const Status& why);
  void publish_counters();
  void mark_dead(const Status& why);
  void finish(RequestId id, EngineCallbacks& callbacks, EngineResult result);

  const int64_t vocab_size_;
  const std::vector<int32_t> eos_token_ids_;
  const int64_t max_queued_;
  const std::function<void(const StepPlan&, const StepRecord&)> on_step_;
  Clock& clock_;

  // The core thread's own.
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<CoreLoop> loop_;
  std::unordered_map<RequestId, Client> clients_;  // looked up by id only
  std::deque<Submission> taken_;
  std::vector<RequestId> taken_aborts_;
  int64_t published_steps_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wake_;  // for the core: something to do
  std::condition_variable
      changed_;  // for callers: nothing lives any more, a reset was answered, the core is gone
  // Guarded by mutex_.
  std::deque<Submission> inbox_;          // ids without gaps
  std::set<RequestId> aborts_;            // of requests that the core has taken
  std::unordered_set<RequestId> living_;  // accepted and not ended, at most max_queued_
  RequestId next_id_ = 1;
  bool core_waits_ = false;
  bool closed_ = false;  // no more submissions
  bool stop_ = false;    // the core ends everything and leaves
  bool gone_ = false;    // the core has left
  ResetState reset_ = ResetState::kNone;
  Status death_;

  mutable std::mutex counters_mutex_;
  CoreCounters counters_;  // guarded by counters_mutex_

  std::mutex reset_mutex_;  // one reset at a time
  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace vllm
