#pragma once

// The figures of a run under load and the keys that users of vLLM's serving benchmark know, for the bench and
// both simulators.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "formats/json_fwd.h"
#include "metrics/latency.h"

namespace vllm {

// The most intervals [begin, end) that overlap at an instant.
int64_t peak_concurrency(const std::vector<std::pair<TimeNs, TimeNs>>& intervals);

// Tokens by whole seconds, from the instant 0 on.
class TokensBySecond {
 public:
  void add(TimeNs at_ns) { ++tokens_[at_ns / kNsPerSecond]; }
  int64_t peak() const;  // of the fullest second; 0 without tokens

 private:
  std::map<int64_t, int64_t> tokens_;
};

struct LoadReport {
  std::string endpoint_type, backend, model_id;
  int64_t num_prompts = 0, completed = 0, failed = 0;
  int64_t input_tokens = 0, output_tokens = 0;
  double duration_s = 0;                           // first issue to last completion
  std::optional<int64_t> max_output_tokens_per_s;  // nullopt: times of tokens were not kept
  int64_t max_concurrent_requests = 0;
  Summary ttft_ms, tpot_ms, itl_ms, e2el_ms;
};
// Rates without a duration and statistics without values are null.
Json load_report_json(const LoadReport& report);

}  // namespace vllm
