#pragma once

// Weights without a file: deterministic small numbers, for measuring and for tests.

#include <string_view>

#include "base/status.h"
#include "model/weights.h"

namespace vllm {

// Fills all parameters of `model` in `dtype` (float32, float16 or bfloat16). Matrices and biases get values
// of mean 0 and standard deviation 0.02 whose distribution is close to normal (the sum of four uniform
// numbers), norms get 1. A parameter's values depend on `seed`, its name and its shape only.
Result<ModelWeights> make_dummy_weights(const ModelConfig& model, DType dtype, int64_t seed);

}  // namespace vllm
