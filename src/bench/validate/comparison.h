#pragma once

// Real against simulated: whether the two may be compared, and how they differ. Times are milliseconds.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bench/validate/real_run.h"
#include "bench/validate/sim_run.h"
#include "metrics/comparison.h"

namespace vllm {

inline constexpr size_t kNumMetrics = 3;
inline constexpr size_t kNumStatistics = 5;
const char* metric_name(size_t metric);        // "TTFT", "TPOT", "Latency"
const char* metric_key(size_t metric);         // "ttft_ms", ...
const char* statistic_name(size_t statistic);  // "Mean", "Median", "P90", "P95", "P99"
const char* statistic_key(size_t statistic);   // "mean", "median", "p90", ...
const char* anchor_name(ArrivalAnchor anchor);

// A simulator within this many standard deviations of the real runs' mean is inside their noise.
inline constexpr double kNoiseWidth = 2;

struct StatisticComparison {
  double real = 0;  // with several recordings the mean of theirs
  double sim = 0;
  double diff_pct = 0;
  Spread real_spread;  // over the recordings
  // Only with several recordings.
  std::optional<double> distance_sd;  // |sim - real| in standard deviations of the recordings
  std::optional<bool> inside_noise;
};

struct MetricComparison {
  std::array<StatisticComparison, kNumStatistics> statistics;
  // Each value in no order, one list a recording; the simulator's TPOT only of requests with a second token.
  std::vector<std::vector<double>> real_values;
  std::vector<double> sim_values;
  double ks = 0;         // with several recordings the mean of the distances to each
  MatchedError matched;  // by the row of the dataset; likewise
  // Real against real, the mean over all pairs of recordings.
  std::optional<double> real_ks;
  std::optional<MatchedError> real_matched;
};

// From the first arrival to the last token.
struct LoadFigures {
  int64_t requests = 0, input_toks = 0, output_toks = 0;
  std::optional<double> duration_s;
  double output_throughput() const;  // NaN when the duration is unknown
};

enum class CheckResult { kGood, kBad, kDiffers, kUnknown };
struct Check {
  std::string name;
  CheckResult result = CheckResult::kUnknown;
  std::string text;
};

// A setting that both sides have, in one wording.
struct AlignedSetting {
  std::string name, real, sim;  // empty: not known
  CheckResult result = CheckResult::kUnknown;
};

struct Comparison {
  std::string title;
  ArrivalAnchor anchor = ArrivalAnchor::kPickup;
  std::array<MetricComparison, kNumMetrics> metrics;
  LoadFigures real_load, sim_load;  // of the first recording, and of the simulation
  std::vector<Check> checks;
  std::vector<AlignedSetting> settings;
  std::vector<std::string> refusals;  // why the sides must not be compared; not empty only with --force
  std::vector<std::string> notes;
};

// `real` has at least one run. Refusals are collected, not returned as an error.
Comparison compare_runs(const std::vector<RealRun>& real, const SimRun& sim, ArrivalAnchor anchor,
                        const std::string& title);

// The part of it that decides whether the sides belong together: checks, settings, refusals and notes.
void check_comparable(const std::vector<RealRun>& real, const SimRun& sim, Comparison& out);

}  // namespace vllm
