#pragma once

// The recorded side of a comparison: one finished run's folder, in every dialect that docs/formats.md lists.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/options.h"
#include "formats/recording.h"
#include "metrics/latency.h"

namespace vllm {

struct ConfigEntry {
  std::string key, value;
};

struct RealRequest {
  int64_t row = -1;  // of the dataset; -1 when the id names none
  int64_t input_toks = 0, output_toks = 0;
  // Seconds on the engine's clock; absent when the recording has no stamps of this request.
  std::optional<double> arrival_s;
  RequestLatency latency;  // counts only with arrival_s
  double last_token_s = 0;
};

struct RealRun {
  std::string dir;
  std::string engine, model, hardware;     // empty: the recording does not say
  std::string dataset_path, dataset_hash;  // empty: the recording does not say
  RecordedCapacity capacity;
  std::vector<ConfigEntry> configuration;  // meta.json's settings, "scheduler.max_num_seqs"
  std::vector<RealRequest> requests;
  int64_t input_toks = 0, output_toks = 0;  // of all requests
  int64_t without_stamps = 0;
  double tick_s = 1.0;
  std::vector<TimeseriesRow> timeseries;
  bool timeseries_derived = false;    // from requests.jsonl, since there is no timeseries.csv
  std::vector<std::string> refusals;  // why it is no ground truth; --force compares nevertheless
  std::vector<std::string> notes;

  // The value of the first of these settings that is there; empty when none is.
  std::string setting(std::initializer_list<std::string_view> keys) const;
};

// What cannot be read is an error; what must not be compared stands in `refusals`.
Result<RealRun> read_real_run(const std::string& dir, ArrivalAnchor anchor);

// When each request arrived, in seconds on the engine's clock. `pickup`: the recorded submission, moved to
// that clock by the smallest queued_ts - arrival_time of the run; `queued`: when the engine took it, which
// older summaries count from. Another stamp stands in for one that a request lacks; nullopt when none does.
std::vector<std::optional<double>> arrivals(const std::vector<RequestRecord>& records, ArrivalAnchor anchor);

// Throughputs, running and waiting per tick out of the stamps of the requests; `origin_s` is the instant 0.
// A prompt counts where its first token comes out, the other tokens evenly between first and last.
std::vector<TimeseriesRow> derive_timeseries(const std::vector<RequestRecord>& records,
                                             const std::vector<std::optional<double>>& arrivals_s,
                                             double tick_s, double origin_s);

}  // namespace vllm
