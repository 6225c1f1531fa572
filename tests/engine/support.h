#pragma once

// What the engine's tests share: an executor that follows a script and checks the plans it gets, an observer
// that writes everything down, and a driver that feeds arrivals as the contract of CoreLoop::turn says.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/core_loop.h"

namespace vllm::testing {

// Everything that decides a step, in one line.
inline std::string plan_digest(const StepPlan& plan) {
  std::string text = fmt::format("{}:", plan.step);
  for (const StepEntry& e : plan.entries) {
    text += fmt::format(" [{} n={} c={} s={} new={} t={} b=", e.id, e.num_tokens, e.num_computed, e.samples,
                        e.starts, fmt::join(plan.tokens_of(e), ","));
    text += fmt::format("{}@{}]", e.block_offset, e.block_count_offset);
  }
  text += fmt::format(" blocks={} counts={} preempted={} ended={} total={} r={} w={} f={}",
                      fmt::join(plan.blocks, ","), fmt::join(plan.block_counts, ","),
                      fmt::join(plan.preempted, ","), fmt::join(plan.ended, ","), plan.total_tokens,
                      plan.running, plan.waiting, plan.free_blocks);
  return text;
}

// Runs plans one after another on `clock`, each for a scripted time, and checks that a real executor could
// follow them: requests are announced, tables cover what is computed, nothing of an ended request is named
// again.
class FakeExecutor final : public Executor {
 public:
  struct Script {
    std::function<TimeNs(const StepPlan&)> step_ns = [](const StepPlan&) { return kNsPerMs; };
    // The token that follows `position` tokens of the request.
    std::function<int32_t(RequestId, int32_t position)> token = [](RequestId id, int32_t position) {
      return static_cast<int32_t>((id * 7919 + static_cast<uint64_t>(position) * 104729) % 30000) + 10;
    };
    int max_in_flight = 2;
    int64_t fail_launch_at = -1, fail_collect_at = -1, short_result_at = -1;
    int block_size = 16;
  };

  FakeExecutor(Clock& clock, Script script) : clock_(clock), script_(std::move(script)) {}

  void add_request(RequestId id, const SamplingParams&) override {
    EXPECT_TRUE(known_.insert(id).second) << "request " << id << " announced twice";
  }

  Status launch(const StepPlan& plan) override {
    calls.push_back(fmt::format("L{}", plan.step));
    if (plan.step == script_.fail_launch_at) return failed("scripted failure of launch {}", plan.step);
    EXPECT_LT(static_cast<int>(queue_.size()), script_.max_in_flight);
    for (const RequestId id : plan.ended) {
      EXPECT_EQ(known_.erase(id), 1u) << "request " << id << " ends and was never announced";
      tables_.erase(id);
    }
    for (const RequestId id : plan.preempted) tables_.erase(id);
    for (const StepEntry& entry : plan.entries) check_entry(plan, entry);
    digests.push_back(plan_digest(plan));
    if (on_launch) on_launch(plan);
    const TimeNs start_ns = std::max(clock_.now_ns(), device_free_ns_);
    device_free_ns_ = start_ns + script_.step_ns(plan);
    queue_.push_back({&plan, device_free_ns_});
    return Status::ok();
  }

  Status collect(StepResult& result) override {
    EXPECT_FALSE(queue_.empty());
    const auto [plan, ready_ns] = queue_.front();
    calls.push_back(fmt::format("C{}", plan->step));
    if (plan->step == script_.fail_collect_at) return failed("scripted failure of collect {}", plan->step);
    queue_.pop_front();
    clock_.sleep_until_ns(ready_ns);
    if (on_wait) on_wait(*plan);
    result.tokens.assign(plan->entries.size(), -7);  // what a chunk has must not matter
    for (size_t i = 0; i < plan->entries.size(); ++i) {
      const StepEntry& entry = plan->entries[i];
      if (entry.samples) result.tokens[i] = script_.token(entry.id, entry.num_computed + entry.num_tokens);
    }
    if (plan->step == script_.short_result_at) result.tokens.clear();
    result.ready_ns = ready_ns;
    return Status::ok();
  }

  int max_in_flight() const override { return script_.max_in_flight; }
  std::string name() const override { return "fake"; }

  size_t num_known() const { return known_.size(); }

  std::vector<std::string> calls;    // "L0", "C0", ...
  std::vector<std::string> digests;  // of every launched plan
  std::function<void(const StepPlan&)> on_launch;
  std::function<void(const StepPlan&)> on_wait;  // while the loop waits for this step

 private:
  void check_entry(const StepPlan& plan, const StepEntry& entry) {
    EXPECT_TRUE(known_.contains(entry.id))
        << "step " << plan.step << " names the unknown request " << entry.id;
    EXPECT_GT(entry.num_tokens, 0);
    if (entry.starts) tables_[entry.id] = 0;
    EXPECT_TRUE(tables_.contains(entry.id)) << "request " << entry.id << " runs without a table";
    tables_[entry.id] += plan.block_counts[static_cast<size_t>(entry.block_count_offset)];
    EXPECT_GE(tables_[entry.id] * script_.block_size, entry.num_computed + entry.num_tokens)
        << "the table of request " << entry.id << " is too short in step " << plan.step;
  }

  struct InFlight {
    const StepPlan* plan;
    TimeNs ready_ns;
  };
  Clock& clock_;
  const Script script_;
  TimeNs device_free_ns_ = 0;
  std::deque<InFlight> queue_;
  std::set<RequestId> known_;
  std::map<RequestId, int64_t> tables_;  // blocks
};

struct EndedRequest {
  EndReason reason = EndReason::kLength;
  RequestTimes times;
};

// Writes down what a loop tells, in order.
class Recorder : public CoreObserver {
 public:
  void on_token(RequestId id, int32_t token, TimeNs ready_ns) override {
    EXPECT_FALSE(ends.contains(id)) << "a token of request " << id << " after its end";
    tokens[id].push_back(token);
    token_times[id].push_back(ready_ns);
    events.push_back(fmt::format("token {}", id));
    if (token_hook) token_hook(id, token);
  }
  void on_end(RequestId id, EndReason reason, const RequestTimes& times) override {
    EXPECT_TRUE(ends.emplace(id, EndedRequest{reason, times}).second) << "request " << id << " ended twice";
    events.push_back(fmt::format("end {} {}", id, end_reason_name(reason)));
    if (end_hook) end_hook(id);
  }
  void on_step(const StepPlan& plan, const StepRecord& record) override {
    EXPECT_EQ(plan.step, record.step);
    EXPECT_EQ(plan.entries.size(), record.entries.size());
    EXPECT_LE(record.t_sched_ns, record.t_sched_end_ns);
    EXPECT_LE(record.t_sched_end_ns, record.t_out_ns);
    if (!steps.empty()) {
      EXPECT_EQ(record.step, steps.back().step + 1);
      EXPECT_GE(record.t_sched_ns, steps.back().t_sched_ns);
    }
    steps.push_back(record);
    events.push_back(fmt::format("step {}", record.step));
    if (step_hook) step_hook(plan);
  }
  void on_collected() override {
    if (collected_hook) collected_hook();
  }

  std::map<RequestId, std::vector<int32_t>> tokens;
  std::map<RequestId, std::vector<TimeNs>> token_times;
  std::map<RequestId, EndedRequest> ends;
  std::vector<StepRecord> steps;
  std::vector<std::string> events;
  std::function<void(RequestId, int32_t)> token_hook;
  std::function<void(RequestId)> end_hook;
  std::function<void(const StepPlan&)> step_hook;
  std::function<void()> collected_hook;
};

struct TestRequest {
  TimeNs arrival_ns = 0;
  RequestId id = 0;
  std::vector<int32_t> prompt;
  int32_t max_tokens = 1;
  bool ignore_eos = true;
  int priority = 0;
};

inline std::vector<int32_t> prompt_of(int length, int32_t first = 100) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  for (int i = 0; i < length; ++i) prompt[static_cast<size_t>(i)] = first + i;
  return prompt;
}

inline constexpr int32_t kEos = 2;

inline Status add_to(CoreLoop& loop, const TestRequest& request) {
  static const std::vector<int32_t> eos = {kEos};
  RequestInput input;
  input.id = request.id;
  input.prompt = request.prompt;
  input.max_tokens = request.max_tokens;
  input.ignore_eos = request.ignore_eos;
  input.eos_token_ids = eos;
  input.priority = request.priority;
  input.arrival_ns = request.arrival_ns;
  return loop.add(input, SamplingParams{}, fmt::format("r{}", request.id));
}

inline SchedulerConfig scheduler_config(int64_t blocks, int depth) {
  SchedulerConfig config;
  config.num_blocks = blocks;
  config.block_size = 16;
  config.max_model_len = 1024;
  config.options.max_num_seqs = 16;
  config.options.max_num_batched_tokens = 64;
  config.options.scheduling_depth = depth;
  return config;
}

// Runs the loop until everything has ended, giving each request to the first plan that starts after its
// arrival. Requests are in the order of arrival.
inline void replay(CoreLoop& loop, VirtualClock& clock, const std::vector<TestRequest>& requests) {
  size_t next = 0;
  for (int64_t turns = 0; turns < 10'000'000; ++turns) {
    while (next < requests.size() && requests[next].arrival_ns <= clock.now_ns()) {
      const Status added = add_to(loop, requests[next++]);
      ASSERT_TRUE(added.is_ok()) << added.message();
    }
    const Result<bool> worked = loop.turn();
    ASSERT_TRUE(worked.is_ok()) << worked.status().message();
    if (worked.value()) continue;
    if (next == requests.size()) return;
    clock.advance_to_ns(requests[next].arrival_ns);
  }
  FAIL() << "the loop does not come to rest";
}

}  // namespace vllm::testing
