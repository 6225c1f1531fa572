#pragma once

// The memory of one step, taken once for the largest step and cut into parts. What is estimated before
// anything is loaded and what is allocated come from the same layout.

#include <cstdint>
#include <vector>

#include "backend/device_memory.h"
#include "config/model_config.h"

namespace vllm {

struct WorkspaceLimits {
  int64_t tokens = 0;     // of a step
  int64_t sequences = 0;  // rows of logits
  int64_t threads = 1;
};

// Saturates at the greatest number instead of overflowing: no device has that much.
int64_t workspace_bytes(const ModelConfig& model, const WorkspaceLimits& limits);

struct Workspace {
  // [tokens, width], float32.
  float *hidden = nullptr, *normed = nullptr;              // hidden_size
  float *q = nullptr, *attention = nullptr;                // num_heads * head_dim
  float *k = nullptr, *v = nullptr;                        // num_kv_heads * head_dim
  float *gate = nullptr, *up = nullptr;                    // intermediate_size
  float *cosines = nullptr, *sines = nullptr;              // head_dim / 2
  float *local_cosines = nullptr, *local_sines = nullptr;  // of layers with their own frequencies
  float* logits = nullptr;                                 // [sequences, vocab_size]
  std::vector<float*> scratch;                             // one for each thread

  // `buffer` has workspace_bytes(model, limits) bytes.
  static Workspace cut(const ModelConfig& model, const WorkspaceLimits& limits, const DeviceBuffer& buffer);
};

}  // namespace vllm
