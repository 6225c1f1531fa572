#pragma once

// A model's parameters by name, whatever file they come from. The bytes stay where the loader found or made
// them (a mapping, or one DeviceMemory buffer for dummies and converted tensors); a forward asks for a
// parameter's rows and never sees a file.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/model_config.h"
#include "config/options.h"
#include "formats/dtype.h"

namespace vllm {

// A matrix [rows, cols] or a vector (rows = 1), row-major, rows stored one after another.
struct Parameter {
  std::string name;
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0;
  const std::byte* data = nullptr;
  int64_t row_bytes = 0;
};

struct LayerWeights {
  Parameter attn_norm, q, k, v, o, ffn_norm, gate, up, down;
  Parameter q_bias, k_bias, v_bias, o_bias;  // data == nullptr when absent
  Parameter gate_bias, up_bias, down_bias;   // data == nullptr when absent
  Parameter q_norm, k_norm;                  // data == nullptr when absent
};

struct ModelWeights {
  Parameter embedding, final_norm, head;  // head is the embedding when tied
  // GGUF's llama files store the llama3 scaling as divisors of the rotary frequencies; data == nullptr when
  // absent.
  Parameter rope_divisors;
  std::vector<LayerWeights> layers;
  int64_t total_bytes = 0;      // a tied head counts once
  std::shared_ptr<void> owner;  // mappings and buffers that the parameters point into
};

// Loads and checks every parameter's shape and type against `model`. kDummy makes deterministic values from
// `seed` (small normals; norms 1) in `dtype` and needs no weight files. For safetensors the values stay in
// their stored type.
Result<ModelWeights> load_weights(const std::string& model_path, const ModelConfig& model, LoadFormat format,
                                  DType dtype, int64_t seed);

// Bytes that load_weights would hold, from headers and shapes alone. For any architecture, runnable or not.
Result<int64_t> estimate_weights_bytes(const std::string& model_path, const ModelConfig& model,
                                       LoadFormat format, DType dtype, int tensor_parallel_size);

}  // namespace vllm
