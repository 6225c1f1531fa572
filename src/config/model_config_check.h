#pragma once

// What the two readers of a model configuration share.

#include "base/status.h"
#include "config/architectures/registry.h"
#include "config/model_config.h"

namespace vllm {

// Names, and whether and why not it can run.
void describe_architecture(const Architecture& architecture, ModelConfig& model);
// What no single key can be blamed for: pairs of rotated elements, the number of parameters.
Status check_model_config(const ModelConfig& model);

}  // namespace vllm
