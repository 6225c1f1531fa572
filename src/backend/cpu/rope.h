#pragma once

// Rotary position embedding: the frequencies of a configuration, and the rotation itself.

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "config/model_config.h"

namespace vllm {

struct RopeTable {
  std::vector<float> inverse_frequencies;  // one for each rotated pair
  float magnitude = 1.0f;                  // factor of cosine and sine (yarn)
  bool interleaved = false;                // pairs are neighbours; otherwise half the rotated width apart
};

// Types default, linear, dynamic, llama3 and yarn; another one is refused by name. "dynamic" is computed for
// the longest sequence that it is made for (max_position_embeddings * factor) at every length, as vLLM does:
// a frequency that grew with the sequence would not fit the keys that are cached already. `divisors` divide
// the frequencies; empty: none.
Result<RopeTable> make_rope_table(const ModelConfig& model, const RopeConfig& rope,
                                  const std::vector<float>& divisors);

// Cosines and sines of one position, one of each for each pair.
void rope_angles(const RopeTable& table, int64_t position, float* cosines, float* sines);

// Rotates the first 2 * pairs elements of one head in place.
void rope_rotate(const RopeTable& table, const float* cosines, const float* sines, float* head);

}  // namespace vllm
