#pragma once

// Configurations of well-known models and of made-up ones, for tests that need shapes and no files.

#include <string>
#include <vector>

#include "config/model_config.h"

namespace vllm::testing {

// From a config.json's text; an error fails the test.
ModelConfig model_from(const std::string& json);

ModelConfig qwen3_1_7b();
ModelConfig llama_3_1_8b();
ModelConfig gemma3_27b();
ModelConfig deepseek_v2_lite();

// One small model of each registered architecture, with at least two layers of each kind that it has.
std::vector<ModelConfig> small_models();

// A made-up mixture of kinds, e.g. {kRecurrent, kFull, kSliding}: windows of 64, states of 1000 bytes and up.
ModelConfig mixed_model(const std::vector<LayerKind>& kinds);

}  // namespace vllm::testing
