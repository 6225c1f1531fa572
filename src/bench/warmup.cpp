#include "bench/warmup.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/random.h"

namespace vllm {
namespace {

constexpr uint64_t kWarmupStream = 0x5741524d5550;  // "WARMUP": apart from the streams that make workloads
constexpr int32_t kMostOutputTokens = 8;
constexpr TimeNs kPoll = 5 * kNsPerMs;

template <typename Get>
int64_t median_of(const ReplayInput& input, Get get) {
  std::vector<int64_t> values;
  values.reserve(input.calls.size());
  for (const ReplayCall& call : input.calls) values.push_back(get(call));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Counts ends and keeps the first failure. The target's thread writes, the waiting thread reads.
class WarmupObserver final : public TargetObserver {
 public:
  void on_token(size_t, TimeNs) override {}
  void on_step(const CoreCounters&, const StepRecord&) override {}
  void on_end(size_t index, const TargetEnd& end) override {
    const std::lock_guard lock(mutex_);
    ++ended_;
    if (first_.is_ok() && !end.status.is_ok()) {
      first_ = end.status.with_context(fmt::format("warm-up request {}", index));
    }
  }
  int64_t ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  Status first_failure() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  int64_t ended_ = 0;
  Status first_;
};

}  // namespace

WarmupPlan plan_warmup(const ReplayInput& input, int count) {
  WarmupPlan plan;
  plan.count = count;
  // A median call of the dataset fits, as each of its calls was checked to; so does a shorter output.
  plan.prompt_tokens = median_of(input, [](const ReplayCall& c) { return int64_t{c.input_toks}; });
  int64_t shortest_output = kMostOutputTokens;
  for (const ReplayCall& call : input.calls) {
    shortest_output = std::min<int64_t>(shortest_output, std::max(1, call.output_toks));
  }
  plan.output_tokens = static_cast<int32_t>(shortest_output);
  return plan;
}

std::vector<std::vector<int32_t>> warmup_prompts(const WarmupPlan& plan, const ReplayInput& input,
                                                 int64_t vocab_size, int64_t seed) {
  Random random(static_cast<uint64_t>(seed), kWarmupStream);
  std::vector<std::vector<int32_t>> prompts;
  // Short prompts of a tiny vocabulary run out; then fewer are made.
  for (int tries = 0; static_cast<int>(prompts.size()) < plan.count && tries < 10 * plan.count; ++tries) {
    std::vector<int32_t> prompt(static_cast<size_t>(plan.prompt_tokens));
    for (int32_t& id : prompt) id = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab_size)));
    const bool from_dataset = std::any_of(input.calls.begin(), input.calls.end(),
                                          [&](const ReplayCall& call) { return call.prompt == prompt; });
    const bool known = std::find(prompts.begin(), prompts.end(), prompt) != prompts.end();
    if (!from_dataset && !known) prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Status run_warmup(SystemUnderTest& target, Clock& clock, std::vector<std::vector<int32_t>> prompts,
                  int32_t output_tokens, const std::atomic<bool>& interrupted) {
  WarmupObserver observer;
  target.observe(&observer);
  int64_t issued = 0;
  Status status;
  for (size_t i = 0; i < prompts.size() && status.is_ok(); ++i) {
    TargetRequest request;
    request.index = i;
    request.name = fmt::format("warmup-{}", i);
    request.prompt = std::move(prompts[i]);
    request.output_tokens = output_tokens;
    status = target.issue(std::move(request)).with_context(fmt::format("warm-up request {}", i));
    if (status.is_ok()) ++issued;
  }
  bool stopping = !status.is_ok();
  if (stopping) target.abort_all();
  while (observer.ended() < issued) {
    if (!stopping && interrupted.load()) {
      stopping = true;
      target.abort_all();
    }
    clock.sleep_until_ns(clock.now_ns() + kPoll);
  }
  // Nothing lives now; a last sample of the engine may still be under way, which the reset waits for.
  const bool reset = target.reset_for_measurement();
  target.observe(nullptr);
  if (status.is_ok()) status = observer.first_failure();
  VLLM_RETURN_IF_ERROR(status);
  if (interrupted.load()) return aborted("interrupted during the warm-up; nothing was recorded");
  if (!reset) return failed("the engine could not be reset after the warm-up; its blocks are not all free");
  return Status::ok();
}

}  // namespace vllm
