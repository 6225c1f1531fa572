#pragma once

// The workload of a replay, checked: which calls there are, when each is due, and what releases it.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "config/options.h"
#include "formats/workload.h"
#include "kv/plan.h"

namespace vllm {

inline constexpr size_t kNoCall = std::numeric_limits<size_t>::max();

// One request to issue. A flat row is one call; a session is a chain of them.
struct ReplayCall {
  int64_t line = 0;
  std::vector<int32_t> prompt;  // moved out when it is issued
  int32_t input_toks = 0, output_toks = 0;
  TimeNs arrival_ns = 0;        // after the start of the replay; unused when `released` is true
  bool released = false;        // due when the call before it in its session ends, plus that one's tool time
  TimeNs tool_duration_ns = 0;  // between the end of this call and the release of `next`
  size_t next = kNoCall;
};

struct ReplayInput {
  std::string path, sha256;
  std::vector<ReplayCall> calls;  // in dataset order: call i is "bench-<i>"
  int64_t flat_rows = 0;
  int64_t sessions_skipped = 0, sessions_replayed = 0;
};

// Reads --dataset, at most --num-reqs rows of it. An error names the file and the line: what read_workload
// refuses, a row without token ids, an id outside the vocabulary, and a file from which --on-session skip
// leaves nothing.
Result<ReplayInput> load_replay_input(const BenchRunOptions& options, int64_t vocab_size);

// Refuses when calls can never fit under the plan, counting all of them and naming the line of the first.
Status check_calls_fit(const ReplayInput& input, const KvPlan& plan, int64_t max_num_batched_tokens);

}  // namespace vllm
