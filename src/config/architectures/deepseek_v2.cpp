// DeepSeek-V2 and V2-Lite: latent attention (q_lora_rank null in the Lite), experts after the first dense
// layers.

#include "config/architectures/common.h"
#include "config/architectures/registry.h"

namespace vllm {
namespace {

void read(ConfigReader& reader, ModelConfig& model) {
  read_common(reader,
              {.vocab_size = 102400,
               .hidden_size = 4096,
               .intermediate_size = 11008,
               .num_layers = 32,
               .num_heads = 32,
               .max_position_embeddings = 2048,
               .bos_token_id = 1,
               .eos_token_id = 2},
              model);
  model.mlp_bias = reader.boolean("mlp_bias", false);
  read_deepseek(reader, {.moe_intermediate_size = 1407, .num_experts = 64, .num_shared_experts = 2}, model);
  model.rope_interleaved = true;
  read_rope(reader, {}, model);
  model.attention_scale = yarn_attention_scale(model.rope, model.head_dim);
}

}  // namespace

Architecture deepseek_v2_architecture() {
  return {.names = {"DeepseekV2ForCausalLM"}, .model_types = {"deepseek_v2"}, .read = read};
}

}  // namespace vllm
