#pragma once

// The text log of the simulator: section 10 of the interface specification, in the grammar of 3.5, so that
// other people's tools read it. Functions from values to text; what they print is decided by the caller. A
// compat log is byte-equal to the reference's but for run id, paths and wall time.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace vllm {

struct ParsedOptions;
struct ClusterSpec;
struct InstanceMemory;

// The banner and the "Input configuration" block, to the rule that ends it. Compat: the reference's banner
// and lines; native: our name, and the lines that say what native mode adds (mode, host overhead, pick-up
// delay).
std::string sim_log_header(const ParsedOptions& parsed, const std::string& run_id);

// One line of "KV Cache Initialization".
struct KvInitLine {
  int instance = 0;
  int64_t tokens = 0, blocks = 0;
  double gib_per_rank = 0;  // of all blocks
  double util = 0;
};
// That block, the rule and the start line with the empty line after it. `notes` stand before the rule (keys
// that were ignored, skipped layers); a compat log without oddities has none.
std::string sim_log_start(const std::vector<KvInitLine>& lines, const std::vector<std::string>& notes);

struct HeartbeatInstance {
  int id = 0;
  int64_t running = 0, waiting = 0;
  int npus = 1;
  int64_t used_bytes = 0, total_bytes = 0;  // of one NPU: weights, pinned and cached blocks
  bool prefix_caching = true;
  int64_t hit_tokens = 0, requested_tokens = 0;
};
struct HeartbeatNode {
  int id = 0;
  int64_t cpu_used_bytes = 0, cpu_total_bytes = 0;
  std::vector<HeartbeatInstance> instances;
};
struct Heartbeat {
  double end_s = 0;  // label: end of the interval
  double prompt_tokens_per_s = 0, generation_tokens_per_s = 0;
  std::vector<HeartbeatNode> nodes;
};
std::string sim_log_heartbeat(const Heartbeat& beat);

struct InstanceResults {
  int id = 0;
  std::vector<int64_t> ttft_ns, tpot_ns, itl_ns;  // any order; sorted by the writer
  // With --no-itl the caller leaves itl_ns empty and may give these three.
  std::optional<double> itl_mean_ms, itl_median_ms, itl_p99_ms;
};

struct SimResults {
  int64_t wall_ns = 0;
  int64_t total_requests = 0;  // finished
  int64_t total_clocks_ns = 0;
  int64_t input_tokens = 0;  // prompt tokens of all requests
  int64_t generated_tokens = 0;
  // Sum of the prompt counter, hits and recomputation included: what the prompt throughput is made of.
  int64_t prompt_tokens = 0;
  int64_t preemptions = 0, recomputed_tokens = 0;
  double log_interval_s = 1.0;
  std::vector<std::pair<double, double>> throughput;  // a pair for each heartbeat
  bool prefix_caching = true;                         // of any instance
  int64_t requested_prompt_tokens = 0, hit_prompt_tokens = 0;
  std::vector<InstanceResults> instances;
  std::string output_path;  // of sim.csv; empty: no last line
  // Lines of ours after the tables (queries out of range, refused requests); none in a clean compat log.
  std::vector<std::string> notes;
};
// From the rule before "Exiting simulation" to the end.
std::string sim_log_results(SimResults results);

// "Avg prompt throughput: ..." of an interval as Python prints a float: 9069.0.
std::string python_float(double value);

}  // namespace vllm
