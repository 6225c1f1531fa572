#include "bench/ticker.h"

#include <algorithm>

namespace vllm {

void Ticker::sample(int engine, TimeNs now_ns, const CoreCounters& counters) {
  CoreCounters& previous = previous_[engine];
  Tick& tick = ticks_[std::max<TimeNs>(0, now_ns - start_ns_) / tick_ns_];
  tick.prompt += counters.prompt_tokens - previous.prompt_tokens;
  tick.prompt_computed += counters.prompt_tokens_computed - previous.prompt_tokens_computed;
  tick.prompt_cached += counters.prompt_tokens_cached - previous.prompt_tokens_cached;
  tick.generated += counters.generation_tokens - previous.generation_tokens;
  tick.preempted += counters.preemptions - previous.preemptions;
  tick.last[engine] = counters;
  previous = counters;
}

std::vector<TimeseriesRow> Ticker::rows() const {
  std::vector<TimeseriesRow> out;
  const double tick_s = ns_to_s(tick_ns_);
  for (const auto& [index, tick] : ticks_) {
    TimeseriesRow row;
    row.t_s = static_cast<double>(index + 1) * tick_s;
    row.prompt_throughput = static_cast<double>(tick.prompt) / tick_s;
    row.prompt_compute_throughput = static_cast<double>(tick.prompt_computed) / tick_s;
    row.prompt_cached_throughput = static_cast<double>(tick.prompt_cached) / tick_s;
    row.gen_throughput = static_cast<double>(tick.generated) / tick_s;
    row.preempted = tick.preempted;
    double used = 0;
    for (const auto& [engine, counters] : tick.last) {
      row.running += counters.running;
      row.waiting += counters.waiting;
      if (counters.usable_blocks > 0) {
        used += static_cast<double>(counters.used_blocks) / static_cast<double>(counters.usable_blocks);
      }
    }
    row.kv_cache_pct = 100.0 * used / static_cast<double>(tick.last.size());
    out.push_back(row);
  }
  return out;
}

}  // namespace vllm
