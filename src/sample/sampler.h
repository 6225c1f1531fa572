#pragma once

// From one row of logits to one token. The order of the steps and the generator: docs/sampling.md. Pure: the
// result depends on the arguments alone, never on what else is in the batch or on earlier calls.

#include <cstdint>
#include <optional>
#include <span>

#include "sample/sampling_params.h"

namespace vllm {

// The key of a request's draws: its own seed, or one made of the engine's seed and the request's number.
uint64_t sampling_key(const SamplingParams& params, int64_t engine_seed, uint64_t request_number);

// The uniform number in [0, 1) with which the token at `position` of a sequence (0 = the prompt's first) is
// drawn. A function of both alone, so that a request that was preempted and resumed draws the same numbers
// again.
double sampling_draw(uint64_t key, int64_t position);

// Scratch of one call, `vocab` entries each. Contents do not survive the call.
struct SamplerScratch {
  std::span<float> weights;
  std::span<int32_t> order;
};
constexpr int64_t sampler_scratch_bytes(int64_t vocab) {
  return vocab * int64_t{sizeof(float) + sizeof(int32_t)};
}

// The greatest logit, the lowest id among equals; nullopt when a logit is NaN or infinite.
std::optional<int32_t> greedy_token(std::span<const float> logits);

// `params` normalised. nullopt when a logit is NaN or infinite: nothing is drawn from garbage.
std::optional<int32_t> sample_token(std::span<const float> logits, const SamplingParams& params, uint64_t key,
                                    int64_t position, SamplerScratch scratch);

}  // namespace vllm
