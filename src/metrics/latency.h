#pragma once

// What TTFT, TPOT, ITL, latency and a percentile are, for every program.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vllm {

// Instants of one request in milliseconds on one clock.
struct RequestLatency {
  double ttft_ms = 0;             // first token - arrival
  std::optional<double> tpot_ms;  // (last - first) / (output tokens - 1), only if output tokens > 1
  double latency_ms = 0;          // last token - arrival
};
RequestLatency request_latency(double arrival_s, double first_token_s, double last_token_s,
                               int64_t output_tokens);

// Where percentile q of `count` sorted values lies: `part` of the way from the value `below` to the next one,
// by linear interpolation at q/100 * (count - 1). `count` above 0. For those who do not hold sorted doubles.
struct PercentilePlace {
  size_t below = 0;
  double part = 0;
};
PercentilePlace percentile_place(size_t count, double q);
// Of sorted values; NaN for no values.
double percentile(std::span<const double> sorted, double q);

// NaN, but for the count, where there are no values.
struct Summary {
  int64_t count = 0;
  double mean = 0, median = 0, p90 = 0, p95 = 0, p99 = 0, min = 0, max = 0;
  double std = 0;  // of the population
};
Summary summarise(std::vector<double> values);

}  // namespace vllm
