#pragma once

// Requests: each that was taken ends exactly once, none is lost, none gets a token after its end, none waits
// for ever.

#include <map>
#include <string>

#include "sched/scheduler.h"

namespace vllm::testing {

// Fed with what happens, in order. Each call answers empty when all is well, else what is wrong.
class RequestLifecycleChecker {
 public:
  std::string on_add(RequestId id, int32_t num_prompt, int32_t max_tokens);
  std::string on_abort(RequestId id);
  std::string on_output(const RequestOutput& output);
  // The requests that live, by the scheduler, are those that by the events should; each waits or runs.
  std::string check_alive(const Scheduler& scheduler) const;
  // Within this many plans everything that lives now must have ended, if nothing is added: in every plan that
  // has room for work, some request that no other can preempt comes one token closer to its end.
  int64_t plans_until_rest() const;
  size_t num_ended() const { return ended_.size(); }

 private:
  struct Life {
    int32_t num_prompt = 0, max_tokens = 0, outputs = 0;
  };
  std::string end(RequestId id);
  std::map<RequestId, Life> alive_;
  std::map<RequestId, int> ended_;
};

}  // namespace vllm::testing
