#pragma once

// A scheduler in a random world: limits, requests, tokens, aborts and cache resets come from one seed, so a
// failure is reproduced by its seed. It is driven one operation at a time; at most scheduling_depth plans are
// out.

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "sched/scheduler.h"

namespace vllm::testing {

// Owns what a RequestInput refers to.
struct WorldRequest {
  RequestId id = 0;
  std::vector<int32_t> prompt, eos, stops;
  int32_t max_tokens = 1, min_tokens = 0;
  int priority = 0;
  TimeNs arrival_ns = 0;
  std::string salt;
  RequestInput input() const;
};

struct WorldOptions {
  bool groups = false;  // sliding groups beside full attention, or alone
  std::optional<int> depth = std::nullopt;
  std::optional<SchedulingPolicy> policy = std::nullopt;
};

struct WorldEvent {
  enum class Kind { kAdd, kRefused, kAbort, kPlan, kOutputs, kReset };
  Kind kind = Kind::kAdd;
  WorldRequest request;            // kAdd, kRefused
  std::string reason;              // kRefused
  RequestId aborted = 0;           // kAbort
  const StepPlan* plan = nullptr;  // kPlan, kOutputs
  std::vector<int32_t> tokens;  // kOutputs, one for each entry; kTokenInFlight for entries without an output
  std::vector<RequestOutput> outputs;  // kOutputs
  bool reset = false;                  // kReset: it was allowed
};

class RandomWorld {
 public:
  RandomWorld(uint64_t seed, const WorldOptions& options);

  const SchedulerConfig& config() const { return config_; }
  Scheduler& scheduler() { return *scheduler_; }
  const std::set<RequestId>& alive() const { return alive_; }
  // Value of the request's output `index` (0-based), whoever computes it.
  int32_t token(RequestId id, int64_t index) const;

  const WorldEvent& next();
  // Only plans and outputs from now on.
  void drain() { draining_ = true; }
  // Nothing lives and nothing is in flight.
  bool at_rest() const { return alive_.empty() && in_flight_.empty() && !scheduler_->has_work(); }

 private:
  uint64_t below(uint64_t n) { return rng_() % n; }
  bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low + 1)));
  }
  void choose_limits(const WorldOptions& options);
  WorldRequest make_request();
  void add();
  void plan();
  void process();

  std::mt19937_64 rng_;
  uint64_t token_seed_;
  SchedulerConfig config_;
  int vocabulary_ = 2, arrival_percent_ = 30, abort_percent_ = 2;
  int64_t longest_prompt_ = 16, longest_output_ = 16;
  std::vector<std::vector<int32_t>> prefixes_;
  std::unique_ptr<Scheduler> scheduler_;
  std::set<RequestId> alive_;
  std::deque<std::unique_ptr<StepPlan>> in_flight_;
  std::vector<std::unique_ptr<StepPlan>> spare_;
  WorldEvent event_;
  RequestId next_id_ = 0;
  bool draining_ = false;
};

std::string describe(const SchedulerConfig& config);

}  // namespace vllm::testing
