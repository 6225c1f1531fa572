#pragma once

// One simulated engine: the core loop that the engine itself runs, an executor that knows when a step will be
// done, and the steps in flight. It decides nothing: who runs is the scheduler's, when is the cluster's. One
// thread owns it.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/core_loop.h"
#include "formats/step_log.h"
#include "sim/policies.h"
#include "sim/request_ledger.h"
#include "sim/step_source.h"

namespace vllm {

// Takes plans and gives tokens when the cluster says that a step is done: the clock is then at that instant.
class PredictedExecutor final : public Executor {
 public:
  using TokenOf = std::function<int32_t(const StepEntry& entry)>;
  PredictedExecutor(Clock& clock, int max_in_flight, TokenOf token_of)
      : clock_(clock), max_in_flight_(max_in_flight), token_of_(std::move(token_of)) {}

  void add_request(RequestId, const SamplingParams&) override {}
  Status launch(const StepPlan& plan) override {
    plans_.push_back(&plan);
    return Status::ok();
  }
  Status collect(StepResult& result) override;
  int max_in_flight() const override { return max_in_flight_; }
  std::string name() const override { return "predicted"; }

 private:
  Clock& clock_;
  const int max_in_flight_;
  TokenOf token_of_;
  std::deque<const StepPlan*> plans_;
};

// A step of an instance from its planning until its outputs are processed.
struct SimBatch {
  int64_t number = 0;
  const StepPlan* plan = nullptr;  // null: a dummy, which no request is in
  StepShape shape;
  StepGraphs graphs;       // empty until they are built
  bool assembled = false;  // the wave of its group is complete; at once outside of groups
  bool taken_first = false, taken_last = false;        // by the instance's first and last NPU
  bool reported_first = false, reported_last = false;  // as done
};

class SimInstance final : public CoreObserver {
 public:
  struct Config {
    int id = 0;
    SchedulerConfig scheduler;
    SimPolicies policies;
    StepSource* source = nullptr;     // outlives the instance
    RequestLedger* ledger = nullptr;  // the same
    VirtualClock* clock = nullptr;    // the same
    bool prefix_caching = true;
    // Everything below is optional.
    StepLogWriter* steps = nullptr;
    std::function<int32_t(const StepEntry&)> token_of;  // in place of the workload's tokens
    std::function<void(const StepPlan&)> on_plan;
    std::function<void(size_t index, RequestInput& input)> adjust;  // what a workload cannot say of a request
  };
  explicit SimInstance(const Config& config);

  Status add(size_t index);
  // Plans a step, if there is something to compute; null if not.
  Result<SimBatch*> open(CoreLoop::EmptyPlans empty);
  SimBatch& open_dummy();
  // The oldest batch is done: its outputs are processed at the clock's time, and it is gone.
  Status complete_oldest();

  std::deque<SimBatch>& in_flight() { return in_flight_; }
  SimBatch* find(int64_t number);
  CoreLoop& core() { return core_; }
  const Status& log_status() const { return log_status_; }
  int64_t steps() const { return steps_; }
  bool has_work() const { return core_.num_requests() > 0 || !in_flight_.empty(); }
  const std::vector<size_t>& finished() const { return finished_; }
  const ItlCounts& itl_counts() const { return itl_counts_; }

  void on_token(RequestId id, int32_t token, TimeNs ready_ns) override;
  void on_end(RequestId id, EndReason reason, const RequestTimes& times) override;
  void on_step(const StepPlan& plan, const StepRecord& record) override;
  bool wants_steps() const override { return config_.steps != nullptr; }

 private:
  RequestOutcome& outcome(RequestId id) { return config_.ledger->outcomes[static_cast<size_t>(id) - 1]; }
  int32_t next_token(const StepEntry& entry);
  void note_plan(const StepPlan& plan);
  void count_prompts(const StepPlan& plan);

  Config config_;
  PredictedExecutor executor_;
  CoreLoop core_;
  std::deque<SimBatch> in_flight_;
  std::vector<SimBatch> spare_;
  std::vector<int32_t> unknown_prompt_;  // stands for prompts whose ids the workload does not have
  std::vector<size_t> finished_;         // in the order of their ends
  ItlCounts itl_counts_;
  int64_t next_number_ = 0, steps_ = 0;
  // Nothing has changed since a plan without entries: the next one would be the same.
  bool nothing_to_plan_ = false;
  Status log_status_;
};

}  // namespace vllm
