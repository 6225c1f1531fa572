#pragma once

// The architectures that are known. Each is one file in this folder, which defines `Architecture
// <name>_architecture()`, and one line in the list below. Nothing outside config/ asks which one a model
// belongs to.

#include <string>
#include <vector>

#include "config/architectures/reader.h"
#include "config/model_config.h"
#include "formats/tensor_file.h"

namespace vllm {

struct Architecture {
  // In config.json's "architectures"; the first is what the model is called after reading.
  std::vector<std::string> names = {};
  // In "model_type", for a file without "architectures"; the first likewise.
  std::vector<std::string> model_types = {};
  // This build has a forward for it.
  bool runnable = false;
  // Reads every key of the reference class, absent ones at that class's defaults.
  void (*read)(ConfigReader& reader, ModelConfig& model) = nullptr;
  // general.architecture of GGUF files; empty when none are read. `read_gguf` sets what is not in common
  // keys.
  std::string gguf_name = {};
  void (*read_gguf)(const GgufFile& file, ModelConfig& model) = nullptr;
};

// The registry.
#define VLLM_ARCHITECTURES(X) \
  X(llama)                    \
  X(mistral)                  \
  X(qwen2)                    \
  X(qwen3)                    \
  X(phi3)                     \
  X(gemma2)                   \
  X(gemma3)                   \
  X(qwen3_moe)                \
  X(mixtral)                  \
  X(deepseek_v2)              \
  X(deepseek_v3)

#define VLLM_DECLARE_ARCHITECTURE(name) Architecture name##_architecture();
VLLM_ARCHITECTURES(VLLM_DECLARE_ARCHITECTURE)
#undef VLLM_DECLARE_ARCHITECTURE

std::vector<Architecture> architectures();

}  // namespace vllm
