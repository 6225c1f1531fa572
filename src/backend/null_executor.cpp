#include "backend/null_executor.h"

#include <deque>

#include "base/random.h"

namespace vllm {

struct NullExecutor::Impl {
  Clock& clock;
  int64_t vocab_size;
  std::function<TimeNs(const StepPlan&)> step_ns;
  int max_in_flight;
  // When the step launched last will be done: steps run one after another, whatever is launched ahead.
  TimeNs busy_until_ns = 0;
  struct Flight {
    const StepPlan* plan;
    TimeNs done_ns;
  };
  std::deque<Flight> flights;
};

namespace {

// A pure function of the request and the token's position in its sequence.
int32_t null_token(RequestId id, int64_t position, int64_t vocab_size) {
  uint64_t state = id;
  state = splitmix64(state) ^ static_cast<uint64_t>(position);
  return static_cast<int32_t>(splitmix64(state) % static_cast<uint64_t>(vocab_size));
}

}  // namespace

NullExecutor::NullExecutor(Clock& clock, int64_t vocab_size, std::function<TimeNs(const StepPlan&)> step_ns,
                           int max_in_flight)
    : impl_(std::make_unique<Impl>(Impl{.clock = clock,
                                        .vocab_size = vocab_size,
                                        .step_ns = std::move(step_ns),
                                        .max_in_flight = max_in_flight,
                                        .busy_until_ns = 0,
                                        .flights = {}})) {}
NullExecutor::~NullExecutor() = default;

void NullExecutor::add_request(RequestId, const SamplingParams&) {}

Status NullExecutor::launch(const StepPlan& plan) {
  if (static_cast<int>(impl_->flights.size()) >= impl_->max_in_flight) {
    return failed("Step {} was launched while {} steps were in flight", plan.step, impl_->flights.size());
  }
  const TimeNs start_ns = std::max(impl_->clock.now_ns(), impl_->busy_until_ns);
  impl_->busy_until_ns = start_ns + (impl_->step_ns ? impl_->step_ns(plan) : 0);
  impl_->flights.push_back({.plan = &plan, .done_ns = impl_->busy_until_ns});
  return Status::ok();
}

Status NullExecutor::collect(StepResult& result) {
  if (impl_->flights.empty()) return failed("There is no step to collect");
  const Impl::Flight flight = impl_->flights.front();
  impl_->flights.pop_front();
  if (impl_->step_ns) impl_->clock.sleep_until_ns(flight.done_ns);
  result.tokens.clear();
  for (const StepEntry& entry : flight.plan->entries) {
    result.tokens.push_back(
        null_token(entry.id, int64_t{entry.num_computed} + entry.num_tokens, impl_->vocab_size));
  }
  result.ready_ns = impl_->step_ns ? flight.done_ns : impl_->clock.now_ns();
  return Status::ok();
}

int NullExecutor::max_in_flight() const { return impl_->max_in_flight; }

}  // namespace vllm
