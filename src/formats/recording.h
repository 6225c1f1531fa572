#pragma once

// A recorded run: requests.jsonl, timeseries.csv and meta.json of one directory, read by name, in the
// dialects that docs/formats.md lists (ours; the reference project's, old and new; the vLLM step recordings).

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/json_fwd.h"

namespace vllm {

struct RequestRecord {
  std::string request_id;
  int64_t input_toks = 0;
  int64_t output_toks = 0;
  // Seconds. arrival_time_s is Unix time at submission, the others are on the engine's monotonic clock;
  // nullopt when the file has null.
  std::optional<double> arrival_time_s, queued_ts_s, scheduled_ts_s, first_token_ts_s, last_token_ts_s;
  // Ours, and absent elsewhere.
  std::optional<double> issued_ts_s, finished_ts_s, send_lag_s;
  std::optional<int64_t> num_preemptions, cached_toks;
  std::vector<double> itl_s;  // only when recorded
};

// One line of requests.jsonl, the eight known keys first, no newline.
std::string request_record_json(const RequestRecord& record);
Result<std::vector<RequestRecord>> read_requests_jsonl(const std::string& path);

struct TimeseriesRow {
  double t_s = 0;  // end of the tick
  double prompt_throughput = 0, prompt_compute_throughput = 0, prompt_cached_throughput = 0,
         gen_throughput = 0;
  int64_t running = 0, waiting = 0, preempted = 0;
  double kv_cache_pct = 0;
};
// CRLF lines with the nine columns in the documented order; roundings as documented.
std::string timeseries_csv(const std::vector<TimeseriesRow>& rows);
Result<std::vector<TimeseriesRow>> read_timeseries_csv(const std::string& path);

// The KV pool of one engine, null block included.
struct EngineCapacity {
  int64_t num_blocks = 0;
  int block_size = 0;
};
// Of each data-parallel engine, in the order of the ranks. The scalars of kv_cache are sums over the engines
// and count only where there is one.
struct RecordedCapacity {
  std::vector<EngineCapacity> engines;
  std::string unknown;  // why there are none
};
Result<RecordedCapacity> recorded_capacity(const Json& meta, const std::string& path);

// The limits of a recorded run, whichever dialect its meta.json speaks.
struct RecordedLimits {
  int64_t num_blocks = 0;  // null block included
  int block_size = 0;
  int max_num_seqs = 0;
  int max_num_batched_tokens = 0;
  int64_t max_model_len = 0;  // INT32_MAX when the recording does not say
  int long_prefill_token_threshold = 0;
  bool chunked_prefill = true, prefix_caching = true, reserve_full_isl = true, priority_policy = false;
  double watermark = 0;
  std::optional<int> scheduling_depth;  // 1 or 2; async scheduling is 2
  int64_t kv_tokens() const { return num_blocks * block_size; }
};
Result<RecordedLimits> recorded_limits(const Json& meta, const std::string& path);

// The number behind the first '-' that is followed by digits alone up to the next '-' or the end:
// "replay-17-a4afb4d6" and "bench-17" are row 17. nullopt for ids of another form.
std::optional<int64_t> request_row(const std::string& request_id);

}  // namespace vllm
