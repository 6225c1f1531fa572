#pragma once

// Which graphs a recorded engine had captured, out of its meta.json: vLLM's `capture_sizes` and
// `cudagraph_mode`, or our `execution`.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/json_fwd.h"

namespace vllm {

struct RecordedGraphs {
  bool known = false;          // the file says anything about graphs
  std::vector<int64_t> sizes;  // tokens, rising; empty: none
  int64_t full_rows = 0;       // steps of one token a row run whole up to this many rows
};
// `max_num_seqs` bounds the rows of a whole graph where the file does not list them.
Result<RecordedGraphs> recorded_graphs(const Json& meta, int64_t max_num_seqs, const std::string& path);

}  // namespace vllm
