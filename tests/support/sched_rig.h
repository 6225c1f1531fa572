#pragma once

// A scheduler driven by hand: plans as short text, outputs by value. For the hand-written cases of each rule.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "sched/scheduler.h"

namespace vllm::testing {

// Blocks of 4 tokens, a budget of 100, 8 seats, all else the defaults; `usable` blocks besides the null
// block.
inline SchedulerConfig rig_config(int64_t usable) {
  SchedulerConfig config;
  config.num_blocks = usable + 1;
  config.block_size = 4;
  config.max_model_len = 1000;
  config.options.max_num_seqs = 8;
  config.options.max_num_batched_tokens = 100;
  return config;
}

struct RigRequest {
  int max_tokens = 6;
  int min_tokens = 0;
  std::vector<int32_t> eos = {};
  std::vector<int32_t> stops = {};
  bool ignore_eos = false;
  int priority = 0;
  TimeNs arrival_ns = 0;
  std::string salt = {};
};

class Rig {
 public:
  explicit Rig(const SchedulerConfig& config) : scheduler(config) {}

  // A prompt of its own: no other request shares a block with it.
  Status add(RequestId id, int num_prompt, const RigRequest& r = {}) {
    std::vector<int32_t> prompt(static_cast<size_t>(num_prompt));
    std::iota(prompt.begin(), prompt.end(), static_cast<int32_t>(1000 * (id + 1)));
    return add_tokens(id, prompt, r);
  }
  Status add_tokens(RequestId id, const std::vector<int32_t>& prompt, const RigRequest& r = {}) {
    RequestInput in;
    in.id = id;
    in.prompt = prompt;
    in.max_tokens = r.max_tokens;
    in.min_tokens = r.min_tokens;
    in.eos_token_ids = r.eos;
    in.stop_token_ids = r.stops;
    in.ignore_eos = r.ignore_eos;
    in.priority = r.priority;
    in.arrival_ns = r.arrival_ns;
    in.cache_salt = r.salt;
    return scheduler.add(in);
  }

  // Plans a step: "id:tokens" in order, a '~' behind a chunk, '@n' where n positions were computed before and
  // the entry starts; then " | preempted: ..." and " | ended: ...".
  std::string plan() {
    auto& p = *plans.emplace_back(std::make_unique<StepPlan>());
    scheduler.schedule(p);
    std::vector<std::string> parts;
    for (const StepEntry& e : p.entries) {
      std::string part = fmt::format("{}:{}", e.id, e.num_tokens);
      if (!e.samples) part += "~";
      if (e.starts && e.num_computed > 0) part += fmt::format("@{}", e.num_computed);
      parts.push_back(part);
    }
    std::string text = fmt::format("{}", fmt::join(parts, " "));
    if (!p.preempted.empty()) text += fmt::format(" | preempted: {}", fmt::join(p.preempted, " "));
    if (!p.ended.empty()) text += fmt::format(" | ended: {}", fmt::join(p.ended, " "));
    return text;
  }

  // Outputs of the oldest plan; tokens given by request, others get a value that nothing else has.
  // "id=reason" of those that end.
  std::string outputs(const std::map<RequestId, int32_t>& given = {}) {
    const auto plan_out = std::move(plans.front());
    plans.pop_front();
    std::vector<int32_t> tokens;
    for (const StepEntry& e : plan_out->entries) {
      const auto it = given.find(e.id);
      tokens.push_back(it != given.end() ? it->second : --unique_token);
    }
    last_outputs.clear();
    scheduler.process_outputs(*plan_out, tokens, last_outputs);
    std::vector<std::string> parts;
    for (const RequestOutput& o : last_outputs) {
      if (!o.ended) continue;
      parts.push_back(fmt::format("{}={}", o.id, end_reason_name(o.reason)));
      if (o.stop_token) parts.back() += fmt::format("({})", *o.stop_token);
    }
    return fmt::format("{}", fmt::join(parts, " "));
  }

  // Depth 1: plan and outputs at once.
  std::string step(const std::map<RequestId, int32_t>& given = {}) {
    const std::string text = plan();
    ended = outputs(given);
    return text;
  }

  const StepPlan& last_plan() const { return *plans.back(); }
  RequestState state(RequestId id) const { return scheduler.state(id).value(); }

  Scheduler scheduler;
  std::deque<std::unique_ptr<StepPlan>> plans;
  std::vector<RequestOutput> last_outputs;
  std::string ended;
  int32_t unique_token = -10;
};

}  // namespace vllm::testing
