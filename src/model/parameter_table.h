#pragma once

// Which parameters a model of the Llama family has, under which names files keep them, and their shapes.
// Reading, checking and dummy weights all walk this one table.

#include <string>
#include <vector>

#include "config/model_config.h"
#include "model/weights.h"

namespace vllm {

struct ParameterSpec {
  std::string gguf_name, hf_name;
  Parameter* target = nullptr;  // in the ModelWeights that was given
  int64_t rows = 1, cols = 0;
  bool vector = false;    // a norm or a bias: one dimension in files
  bool norm = false;      // dummies fill it with ones
  bool optional = false;  // may be absent from a file
};

// Sizes weights.layers and lists every parameter that `model` has. The head is listed unless it is tied.
std::vector<ParameterSpec> list_parameters(const ModelConfig& model, ModelWeights& weights);

}  // namespace vllm
