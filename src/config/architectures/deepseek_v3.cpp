// DeepSeek-V3 and R1: as V2, larger. The layers for multi-token prediction are not part of the model proper.

#include "config/architectures/common.h"
#include "config/architectures/registry.h"

namespace vllm {
namespace {

void read(ConfigReader& reader, ModelConfig& model) {
  read_common(reader,
              {.vocab_size = 129280,
               .hidden_size = 7168,
               .intermediate_size = 18432,
               .num_layers = 61,
               .num_heads = 128,
               .num_kv_heads = 128,
               .max_position_embeddings = 4096,
               .bos_token_id = 0,
               .eos_token_id = 1},
              model);
  read_deepseek(reader,
                {.moe_intermediate_size = 2048,
                 .num_experts = 256,
                 .num_shared_experts = 1,
                 .first_dense = 3,
                 .num_experts_per_tok = 8},
                model);
  read_rope(reader, {}, model);
  model.attention_scale = yarn_attention_scale(model.rope, model.head_dim);
}

}  // namespace

Architecture deepseek_v3_architecture() {
  return {.names = {"DeepseekV3ForCausalLM"}, .model_types = {"deepseek_v3"}, .read = read};
}

}  // namespace vllm
