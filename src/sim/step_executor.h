#pragma once

// An executor without a model: steps take what a step bundle says, on a virtual clock. Launching advances the
// clock by the host's launch time, collecting to the outputs and then to where the next plan may begin; so
// the core loop and its scheduler are the engine's own.

#include <memory>

#include "backend/executor.h"
#include "sim/step_machine.h"

namespace vllm {

class StepExecutor final : public Executor {
 public:
  // `clock` and the machine's bundle outlive it.
  StepExecutor(VirtualClock& clock, StepMachine machine, int max_in_flight);
  ~StepExecutor() override;

  void add_request(RequestId id, const SamplingParams& params) override;
  Status launch(const StepPlan& plan) override;
  Status collect(StepResult& result) override;
  int max_in_flight() const override;
  std::string name() const override { return "step-bundle"; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vllm
