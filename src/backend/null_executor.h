#pragma once

// An executor without a model: answers at once or after given times, with tokens that are a pure function of
// the request and its position. Measures our own overhead and drives tests.

#include <functional>

#include "backend/executor.h"

namespace vllm {

class NullExecutor final : public Executor {
 public:
  // `step_ns(plan)`: how long a step takes; empty: no time. Sleeps on `clock`. `vocab_size` bounds the
  // tokens.
  NullExecutor(Clock& clock, int64_t vocab_size, std::function<TimeNs(const StepPlan&)> step_ns = {},
               int max_in_flight = 2);
  ~NullExecutor() override;

  void add_request(RequestId id, const SamplingParams& params) override;
  Status launch(const StepPlan& plan) override;
  Status collect(StepResult& result) override;
  int max_in_flight() const override;
  std::string name() const override { return "null"; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vllm
