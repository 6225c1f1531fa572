// Gemma 3: five of six layers slide and rotate at a base of their own; norms on q and k. The multimodal class
// keeps the text model under "text_config"; its images are not served.

#include <cmath>

#include "config/architectures/common.h"
#include "config/architectures/registry.h"

namespace vllm {
namespace {

void read(ConfigReader& reader, ModelConfig& model) {
  read_common(reader,
              {.vocab_size = 262208,
               .hidden_size = 2304,
               .intermediate_size = 9216,
               .num_layers = 26,
               .num_heads = 8,
               .num_kv_heads = 4,
               .head_dim = 256,
               .max_position_embeddings = 131072,
               .activation_key = "hidden_activation",
               .activation = "gelu_pytorch_tanh",
               .tie_word_embeddings = true,
               .bos_token_id = 2,
               .eos_token_id = 1},
              model);
  model.attention_bias = model.attention_out_bias = reader.boolean("attention_bias", false);
  model.qk_norm = model.norm_plus_one = model.post_norms = true;
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden_size));
  model.attention_scale = 1.0 / std::sqrt(reader.number("query_pre_attn_scalar", 256, 1e-6, 1e9));
  model.attn_logit_softcap =
      reader.optional_number("attn_logit_softcapping", std::nullopt, 0.0, 1e9).value_or(0.0);
  model.final_logit_softcap =
      reader.optional_number("final_logit_softcapping", std::nullopt, 0.0, 1e9).value_or(0.0);
  if (reader.has("use_bidirectional_attention") && !reader.is_null("use_bidirectional_attention") &&
      reader.boolean("use_bidirectional_attention", false)) {
    reader.fail("use_bidirectional_attention", "is true; accepted is false, a model that generates");
  }
  const auto window = read_window(reader, 4096);
  const std::string pattern_key =
      reader.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  const int64_t pattern = reader.integer(pattern_key, 6, 1, kMaxLayers);
  read_layer_types(
      reader, window, [pattern](int64_t layer) { return (layer + 1) % pattern != 0; }, model);
  read_rope_by_layer_type(reader, 1e6, 1e4, model);
}

}  // namespace

Architecture gemma3_architecture() {
  return {.names = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
          .model_types = {"gemma3_text", "gemma3"},
          .read = read};
}

}  // namespace vllm
