// Gemma 2: every other layer slides, four norms a layer, soft caps on attention and on logits.

#include <cmath>

#include "config/architectures/common.h"
#include "config/architectures/registry.h"

namespace vllm {
namespace {

void read(ConfigReader& reader, ModelConfig& model) {
  read_common(reader,
              {.vocab_size = 256000,
               .hidden_size = 2304,
               .intermediate_size = 9216,
               .num_layers = 26,
               .num_heads = 8,
               .num_kv_heads = 4,
               .head_dim = 256,
               .max_position_embeddings = 8192,
               .activation_key = "hidden_activation",
               .activation = "gelu_pytorch_tanh",
               .tie_word_embeddings = true,
               .bos_token_id = 2,
               .eos_token_id = 1},
              model);
  model.attention_bias = model.attention_out_bias = reader.boolean("attention_bias", false);
  model.norm_plus_one = model.post_norms = true;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden_size));
  model.attention_scale = 1.0 / std::sqrt(reader.number("query_pre_attn_scalar", 256, 1e-6, 1e9));
  model.attn_logit_softcap = reader.optional_number("attn_logit_softcapping", 50.0, 0.0, 1e9).value_or(0.0);
  model.final_logit_softcap = reader.optional_number("final_logit_softcapping", 30.0, 0.0, 1e9).value_or(0.0);
  read_layer_types(
      reader, read_window(reader, 4096), [](int64_t layer) { return (layer + 1) % 2 != 0; }, model);
  read_rope(reader, {}, model);
}

}  // namespace

Architecture gemma2_architecture() {
  return {.names = {"Gemma2ForCausalLM"}, .model_types = {"gemma2"}, .read = read};
}

}  // namespace vllm
