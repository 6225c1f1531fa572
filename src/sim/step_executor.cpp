#include "sim/step_executor.h"

#include <cmath>
#include <deque>

namespace vllm {
namespace {

double to_ms(TimeNs t) { return static_cast<double>(t) / 1e6; }
TimeNs to_ns(double ms) { return static_cast<TimeNs>(std::llround(ms * 1e6)); }

// A pure function of the request and the token's position, so that no two requests share a generated prefix
// by chance.
int32_t made_up_token(RequestId id, int64_t position) {
  uint64_t state = id;
  state = splitmix64(state) ^ static_cast<uint64_t>(position);
  return static_cast<int32_t>(splitmix64(state) >> 33);
}

}  // namespace

struct StepExecutor::Impl {
  VirtualClock& clock;
  StepMachine machine;
  int max_in_flight;
  struct Flight {
    const StepPlan* plan;
    StepMachine::Times times;
  };
  std::deque<Flight> flights;
};

StepExecutor::StepExecutor(VirtualClock& clock, StepMachine machine, int max_in_flight)
    : impl_(std::make_unique<Impl>(Impl{clock, std::move(machine), max_in_flight, {}})) {}
StepExecutor::~StepExecutor() = default;

void StepExecutor::add_request(RequestId, const SamplingParams&) {}

Status StepExecutor::launch(const StepPlan& plan) {
  Impl& self = *impl_;
  if (static_cast<int>(self.flights.size()) >= self.max_in_flight) {
    return failed("step {} was launched while {} steps were in flight", plan.step, self.flights.size());
  }
  const auto times = self.machine.launch(step_shape(plan), to_ms(self.clock.now_ns()));
  self.flights.push_back({&plan, times});
  self.clock.advance_to_ns(to_ns(times.launched_ms));
  return Status::ok();
}

Status StepExecutor::collect(StepResult& result) {
  Impl& self = *impl_;
  if (self.flights.empty()) return failed("there is no step to collect");
  const Impl::Flight flight = self.flights.front();
  self.flights.pop_front();
  const auto rows = static_cast<int64_t>(flight.plan->entries.size());
  const double outputs = self.machine.outputs_ms(flight.times, to_ms(self.clock.now_ns()));
  result.tokens.clear();
  for (const StepEntry& entry : flight.plan->entries) {
    result.tokens.push_back(made_up_token(entry.id, int64_t{entry.num_computed} + entry.num_tokens));
  }
  result.ready_ns = to_ns(outputs + self.machine.stamp_ms(rows));
  self.clock.advance_to_ns(to_ns(outputs + self.machine.gap_ms(rows)));
  return Status::ok();
}

int StepExecutor::max_in_flight() const { return impl_->max_in_flight; }

}  // namespace vllm
