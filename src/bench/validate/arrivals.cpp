// Instants of a recording: when a request arrived, and what happened in each tick.

#include <algorithm>
#include <cmath>

#include "bench/validate/real_run.h"

namespace vllm {
namespace {

// Epoch seconds and an engine's monotonic clock are years apart.
constexpr double kOneClock_s = 100'000;
// A longer series would not be drawn but fill the memory.
constexpr double kMostTicks = 1e6;

bool shares_clock(const RequestRecord& r) {
  return r.arrival_time_s && r.first_token_ts_s && r.last_token_ts_s &&
         std::abs(*r.arrival_time_s - *r.first_token_ts_s) < kOneClock_s &&
         std::abs(*r.arrival_time_s - *r.last_token_ts_s) < kOneClock_s;
}

std::optional<double> smallest_offset(const std::vector<RequestRecord>& records) {
  std::optional<double> offset;
  for (const RequestRecord& r : records) {
    if (!r.queued_ts_s || !r.arrival_time_s) continue;
    const double distance = *r.queued_ts_s - *r.arrival_time_s;
    offset = offset ? std::min(*offset, distance) : distance;
  }
  return offset;
}

// As the reference project did before it had an offset.
std::optional<double> queued_arrival(const RequestRecord& r) {
  if (shares_clock(r)) return r.arrival_time_s;
  if (r.queued_ts_s) return r.queued_ts_s;
  return r.issued_ts_s;
}

// Counts that begin at one instant and end at another, summed up per tick.
class Levels {
 public:
  Levels(size_t ticks, double tick_s, double origin_s)
      : steps_(ticks + 1, 0), tick_s_(tick_s), origin_s_(origin_s) {}
  // Holds at the ends of ticks in [from, to).
  void add(double from_s, double to_s) {
    const size_t begin = first_end(from_s), end = first_end(to_s);
    if (begin >= end) return;
    ++steps_[begin];
    --steps_[end];
  }
  int64_t next(size_t tick) { return level_ += steps_[tick]; }

 private:
  // The first tick whose end is not before `instant_s`.
  size_t first_end(double instant_s) const {
    const double ticks = std::ceil((instant_s - origin_s_) / tick_s_) - 1;
    return static_cast<size_t>(std::clamp(ticks, 0.0, static_cast<double>(steps_.size() - 1)));
  }
  std::vector<int64_t> steps_;
  double tick_s_, origin_s_;
  int64_t level_ = 0;
};

}  // namespace

std::vector<std::optional<double>> arrivals(const std::vector<RequestRecord>& records, ArrivalAnchor anchor) {
  std::vector<std::optional<double>> out;
  out.reserve(records.size());
  const std::optional<double> offset =
      anchor == ArrivalAnchor::kPickup ? smallest_offset(records) : std::nullopt;
  for (const RequestRecord& r : records) {
    if (offset && r.arrival_time_s) {
      out.emplace_back(*r.arrival_time_s + *offset);
    } else {
      out.push_back(queued_arrival(r));
    }
  }
  return out;
}

std::vector<TimeseriesRow> derive_timeseries(const std::vector<RequestRecord>& records,
                                             const std::vector<std::optional<double>>& arrivals_s,
                                             double tick_s, double origin_s) {
  double last = origin_s;
  for (const RequestRecord& r : records) last = std::max(last, r.last_token_ts_s.value_or(last));
  const double count = std::ceil((last - origin_s) / tick_s);
  if (!(count >= 1) || count > kMostTicks) return {};
  const auto ticks = static_cast<size_t>(count);

  std::vector<TimeseriesRow> rows(ticks);
  const auto row_at = [&](double instant_s) -> TimeseriesRow& {
    const double tick = std::clamp(std::floor((instant_s - origin_s) / tick_s), 0.0, count - 1);
    return rows[static_cast<size_t>(tick)];
  };
  Levels running(ticks, tick_s, origin_s), waiting(ticks, tick_s, origin_s);
  for (size_t i = 0; i < records.size(); ++i) {
    const RequestRecord& r = records[i];
    if (!r.first_token_ts_s || !r.last_token_ts_s || !arrivals_s[i]) continue;
    const double queued = r.queued_ts_s.value_or(*arrivals_s[i]);
    const double scheduled = r.scheduled_ts_s.value_or(queued);
    const double first = *r.first_token_ts_s;
    const double end = *r.last_token_ts_s;
    waiting.add(queued, scheduled);
    running.add(scheduled, end);
    row_at(first).prompt_throughput += static_cast<double>(r.input_toks);
    const int64_t gaps = std::max<int64_t>(r.output_toks - 1, 0);
    if (r.output_toks > 0) row_at(first).gen_throughput += 1;
    // Token by token only as far as that stays cheap; further ones are shared out over the ticks in
    // proportion.
    const int64_t shares = std::min<int64_t>(gaps, 100'000);
    for (int64_t k = 1; k <= shares; ++k) {
      const double instant = first + (end - first) * static_cast<double>(k) / static_cast<double>(shares);
      row_at(instant).gen_throughput += static_cast<double>(gaps) / static_cast<double>(shares);
    }
  }
  for (size_t k = 0; k < ticks; ++k) {
    TimeseriesRow& row = rows[k];
    row.t_s = static_cast<double>(k + 1) * tick_s;
    row.prompt_throughput /= tick_s;
    row.gen_throughput /= tick_s;
    row.running = running.next(k);
    row.waiting = waiting.next(k);
  }
  return rows;
}

}  // namespace vllm
