#include "sample/sampling_params.h"

#include <cmath>

namespace vllm {
namespace {

constexpr double kGreedyBelow = 1e-5;
constexpr double kLeastTemperature = 0.01;
constexpr double kMostTemperature = 2.0;

}  // namespace

// Every comparison is written so that a NaN fails it.
Result<SamplingParams> normalise(SamplingParams params) {
  if (!(params.temperature >= 0 && params.temperature <= kMostTemperature)) {
    return usage_error("temperature {} is not accepted: it must be a number from 0 (greedy) to 2",
                       params.temperature);
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return usage_error("top_p {} is not accepted: it must be greater than 0 and at most 1", params.top_p);
  }
  if (params.top_k < -1) {
    return usage_error("top_k {} is not accepted: it must be at least 1, or 0 or -1 for all tokens",
                       params.top_k);
  }
  if (!(params.min_p >= 0 && params.min_p <= 1)) {
    return usage_error("min_p {} is not accepted: it must be a number from 0 to 1", params.min_p);
  }
  if (params.top_k == -1) params.top_k = 0;
  if (params.seed == -1) params.seed.reset();
  if (params.temperature < kGreedyBelow) {
    // Nothing is drawn, so nothing else matters; equal behaviour then has one spelling.
    params.temperature = 0;
    params.top_p = 1;
    params.top_k = 0;
    params.min_p = 0;
  } else if (params.temperature < kLeastTemperature) {
    params.temperature = kLeastTemperature;
  }
  return params;
}

}  // namespace vllm
