#include "bench/replay_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vllm {
namespace {

constexpr TimeNs kTerminalPeriod = 500 * kNsPerMs;
constexpr TimeNs kLinePeriod = 10 * kNsPerSecond;

}  // namespace

std::string progress_text(const ProgressState& state, TimeNs start_ns, TimeNs now_ns) {
  const double elapsed_s = ns_to_s(now_ns - start_ns);
  const double rate = elapsed_s > 0 ? static_cast<double>(state.output_tokens) / elapsed_s : 0.0;
  std::string out = fmt::format("{}/{} requests, {} running, {} waiting, {:.0f} tok/s", state.done,
                                state.total, state.running, state.waiting, rate);
  if (rate <= 0) return out;
  // Neither the arrivals nor the remaining tokens can be had sooner.
  const double by_tokens_s = static_cast<double>(state.total_output_tokens - state.output_tokens) / rate;
  const double by_schedule_s = ns_to_s(state.last_due_ns - now_ns);
  // A whole number of seconds must not become the next one by the last bit of a product.
  const double left_s = std::ceil(std::max({by_tokens_s, by_schedule_s, 0.0}) - 1e-6);
  return out + fmt::format(", about {:.0f} s left", std::max(left_s, 0.0));
}

std::string ReplayProgress::update(const ProgressState& state, TimeNs now_ns) {
  if (now_ns < next_ns_) return {};
  next_ns_ = now_ns + (terminal_ ? kTerminalPeriod : kLinePeriod);
  shown_ = true;
  const std::string text = progress_text(state, start_ns_, now_ns);
  return terminal_ ? "\r\x1b[K" + text : text + "\n";
}

std::string ReplayProgress::finish() {
  const bool clear = terminal_ && shown_;
  shown_ = false;
  return clear ? "\r\x1b[K" : "";
}

}  // namespace vllm
