#pragma once

// How one request's tokens are chosen. Meaning and order of the steps: docs/sampling.md.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"

namespace vllm {

struct SamplingParams {
  double temperature = 0.0;     // < 1e-5: greedy
  double top_p = 1.0;           // (0, 1]
  int top_k = 0;                // 0 or -1: off
  double min_p = 0.0;           // [0, 1]
  std::optional<int64_t> seed;  // none: drawn from the engine's seed and the request's number
};

// An error names the field, the value and the accepted range. Otherwise the normalised parameters.
Result<SamplingParams> normalise(SamplingParams params);

}  // namespace vllm
