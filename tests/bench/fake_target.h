#pragma once

// A system under test without an engine: answers on the issuing thread, so that a virtual clock can drive a
// replay.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bench/replay_input.h"
#include "bench/system_under_test.h"

namespace vllm::testing {

class FakeTarget final : public SystemUnderTest {
 public:
  explicit FakeTarget(const Clock& clock) : clock_(clock) {}

  std::string name() const override { return "fake"; }
  void observe(TargetObserver* observer) override { observer_ = observer; }
  Status issue(TargetRequest request) override {
    issued.push_back({request.name, request.prompt, request.output_tokens, clock_.now_ns()});
    if (!refuse_next.is_ok()) return std::exchange(refuse_next, Status::ok());
    if (hold) {
      held.push_back(request.index);
      return Status::ok();
    }
    finish(request.index, request.output_tokens, clock_.now_ns());
    return Status::ok();
  }
  void abort_all() override {
    for (const size_t index : std::exchange(held, {})) end(index, 0, EndReason::kAborted, Status::ok(), {});
  }
  bool reset_for_measurement() override {
    ++resets;
    return reset_works;
  }
  void stop() override { stopped = true; }
  Status health() const override { return health_status; }
  CoreCounters counters() const override { return counter_values; }
  std::vector<MemoryUse> memory() const override { return {{"kv_cache", 100, 200}}; }
  const EngineFacts* facts() const override { return nullptr; }

  // Tokens come `first_ns` after the issue and then every `gap_ns`.
  void finish(size_t index, int32_t tokens, TimeNs issued_ns) {
    RequestTimes times;
    times.queued_ns = issued_ns + 10;
    times.scheduled_ns = issued_ns + 20;
    times.first_token_ns = issued_ns + first_ns;
    times.cached_tokens = 3;
    for (int32_t i = 0; i < tokens; ++i) {
      times.last_token_ns = times.first_token_ns + i * gap_ns;
      observer_->on_token(index, times.last_token_ns);
    }
    times.finished_ns = times.last_token_ns;
    end(index, tokens + extra_tokens, EndReason::kLength, end_status, times);
  }
  void end(size_t index, int64_t tokens, EndReason reason, Status status, const RequestTimes& times) {
    observer_->on_end(index, {std::move(status), reason, tokens, times});
  }

  struct Issued {
    std::string name;
    std::vector<int32_t> prompt;
    int32_t output_tokens;
    TimeNs now_ns;
  };
  std::vector<Issued> issued;
  std::vector<size_t> held;
  bool hold = false, stopped = false, reset_works = true;
  int resets = 0;
  int64_t extra_tokens = 0;
  TimeNs first_ns = 1000, gap_ns = 500;
  Status refuse_next, end_status, health_status;
  CoreCounters counter_values;

 private:
  const Clock& clock_;
  TargetObserver* observer_ = nullptr;
};

// Flat calls with the given arrivals; call i has i + 2 prompt tokens and asks for `output` tokens.
inline ReplayInput make_input(const std::vector<TimeNs>& arrivals_ns, int32_t output = 2) {
  ReplayInput input;
  input.path = "made.jsonl";
  input.sha256 = "00";
  for (size_t i = 0; i < arrivals_ns.size(); ++i) {
    ReplayCall call;
    call.line = static_cast<int64_t>(i) + 1;
    call.prompt.assign(i + 2, static_cast<int32_t>(i));
    call.input_toks = static_cast<int32_t>(call.prompt.size());
    call.output_toks = output;
    call.arrival_ns = arrivals_ns[i];
    input.calls.push_back(call);
  }
  input.flat_rows = static_cast<int64_t>(arrivals_ns.size());
  return input;
}

}  // namespace vllm::testing
