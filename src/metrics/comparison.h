#pragma once

// How two sets of measurements differ, and how far repeated ones spread.

#include <cstdint>
#include <span>
#include <vector>

namespace vllm {

// (sim - real) / real in percent: positive is slower. NaN where `real` is 0.
double difference_pct(double real, double sim);

// Kolmogorov-Smirnov: the largest distance between the two empirical distribution functions, 0 to 1. NaN when
// one side has no values.
double ks_distance(std::vector<double> a, std::vector<double> b);

// Of repeated runs. The deviation is the sample's (n - 1); NaN with fewer than two values.
struct Spread {
  int64_t count = 0;
  double mean = 0, sd = 0, sd_pct = 0;
};
Spread spread(std::span<const double> values);

// Of pairs of the same request. NaN where there are none.
struct MatchedError {
  int64_t count = 0;
  double mean_abs = 0;      // |sim - real|
  double mean_abs_pct = 0;  // |sim - real| / real, over the pairs in which `real` is above 0
  double bias = 0;          // sim - real
};
MatchedError matched_error(std::span<const double> real, std::span<const double> sim);

}  // namespace vllm
