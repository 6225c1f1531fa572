#include "sim/request_ledger.h"

#include "metrics/latency.h"

namespace vllm {

std::map<int64_t, int64_t> ItlCounts::ordered() const {
  std::map<int64_t, int64_t> all(counts_.begin(), counts_.end());
  if (repeats_ > 0) all[last_] += repeats_;
  return all;
}

int64_t ItlCounts::count() const {
  int64_t sum = repeats_;
  for (const auto& [ns, count] : counts_) sum += count;
  return sum;
}

double ItlCounts::mean_ns() const {
  long double sum = 0;
  for (const auto& [ns, count] : ordered())
    sum += static_cast<long double>(ns) * static_cast<long double>(count);
  return static_cast<double>(sum / static_cast<long double>(count()));
}

double ItlCounts::percentile_ns(double q) const {
  const PercentilePlace place = percentile_place(static_cast<size_t>(count()), q);
  const auto below = static_cast<int64_t>(place.below);
  double low = 0, high = 0;
  int64_t seen = 0;
  bool has_low = false;
  for (const auto& [ns, count] : ordered()) {
    seen += count;
    if (!has_low && seen > below) {
      low = high = static_cast<double>(ns);
      has_low = true;
      if (seen > below + 1) break;
    } else if (has_low) {
      high = static_cast<double>(ns);
      break;
    }
  }
  return low + (high - low) * place.part;
}

}  // namespace vllm
