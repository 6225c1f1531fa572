// Mixtral: Mistral with a mixture of experts in every layer.

#include "config/architectures/common.h"
#include "config/architectures/registry.h"

namespace vllm {
namespace {

void read(ConfigReader& reader, ModelConfig& model) {
  read_common(reader,
              {.vocab_size = 32000,
               .hidden_size = 4096,
               .intermediate_size = 14336,
               .num_layers = 32,
               .num_heads = 32,
               .num_kv_heads = 8,
               .max_position_embeddings = 4096 * 32,
               .norm_eps = 1e-5,
               .bos_token_id = 1,
               .eos_token_id = 2},
              model);
  const std::string experts_key = reader.has("num_local_experts") ? "num_local_experts" : "num_experts";
  model.moe.num_experts = reader.integer(experts_key, 8, 1, kMaxExperts);
  model.moe.num_experts_per_tok = reader.integer("num_experts_per_tok", 2, 1, model.moe.num_experts);
  model.moe.intermediate_size = model.intermediate_size;
  set_uniform_layers(model, read_window(reader, std::nullopt));
  for (LayerConfig& layer : model.layers) layer.moe = true;
  read_rope(reader, {.theta = 1e6}, model);
}

}  // namespace

Architecture mixtral_architecture() {
  return {.names = {"MixtralForCausalLM"}, .model_types = {"mixtral"}, .read = read};
}

}  // namespace vllm
