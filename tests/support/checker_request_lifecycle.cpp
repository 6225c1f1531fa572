#include "support/checker_request_lifecycle.h"

#include <fmt/format.h>

#include <set>

namespace vllm::testing {

std::string RequestLifecycleChecker::on_add(RequestId id, int32_t num_prompt, int32_t max_tokens) {
  if (ended_.count(id) > 0) return fmt::format("request {} came again after its end", id);
  if (!alive_.emplace(id, Life{num_prompt, max_tokens, 0}).second)
    return fmt::format("request {} came twice", id);
  return {};
}

std::string RequestLifecycleChecker::end(RequestId id) {
  if (ended_[id]++ > 0) return fmt::format("request {} ended twice", id);
  alive_.erase(id);
  return {};
}

std::string RequestLifecycleChecker::on_abort(RequestId id) {
  if (alive_.count(id) == 0) return fmt::format("request {} was aborted, but does not live", id);
  return end(id);
}

std::string RequestLifecycleChecker::on_output(const RequestOutput& output) {
  const auto it = alive_.find(output.id);
  if (it == alive_.end()) return fmt::format("request {} got a token, but does not live", output.id);
  if (++it->second.outputs > it->second.max_tokens) {
    return fmt::format("request {} got {} tokens of at most {}", output.id, it->second.outputs,
                       it->second.max_tokens);
  }
  return output.ended ? end(output.id) : std::string();
}

std::string RequestLifecycleChecker::check_alive(const Scheduler& scheduler) const {
  std::set<RequestId> seen;
  for (const RequestId id : scheduler.running_ids()) {
    if (!seen.insert(id).second) return fmt::format("request {} runs twice", id);
  }
  for (const RequestId id : scheduler.waiting_ids()) {
    if (!seen.insert(id).second) return fmt::format("request {} waits twice, or waits and runs", id);
  }
  for (const auto& [id, life] : alive_) {
    if (seen.count(id) == 0) return fmt::format("request {} is lost", id);
    const auto state = scheduler.state(id);
    if (!state) return fmt::format("request {} has no state", id);
    if (state->num_tokens != life.num_prompt + life.outputs) {
      return fmt::format("request {} has {} tokens; {} of the prompt and {} outputs were seen", id,
                         state->num_tokens, life.num_prompt, life.outputs);
    }
  }
  if (seen.size() != alive_.size())
    return fmt::format("{} requests live, {} should", seen.size(), alive_.size());
  return {};
}

int64_t RequestLifecycleChecker::plans_until_rest() const {
  // Each request once computes its sequence undisturbed; at depth 2 a plan may be empty between two that are
  // not.
  int64_t sum = 8;
  for (const auto& [id, life] : alive_) sum += 2 * (int64_t{life.num_prompt} + life.max_tokens) + 4;
  return sum;
}

}  // namespace vllm::testing
