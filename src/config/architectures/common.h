#pragma once

// What the architectures' files share: the keys that nearly every decoder has, rotary embeddings in both
// forms, and the kinds of layers.

#include <cstdint>
#include <optional>
#include <string>

#include "config/architectures/reader.h"
#include "config/model_config.h"

namespace vllm {

// Defaults of a reference class (transformers 5). The test goldens check every one of them.
struct CommonDefaults {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0, num_heads = 0;
  std::optional<int64_t> num_kv_heads = std::nullopt;  // none: as many as num_heads
  std::optional<int64_t> head_dim = std::nullopt;      // none: hidden_size / num_heads
  int64_t max_position_embeddings = 0;
  double norm_eps = 1e-6;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  bool tie_word_embeddings = false;
  std::optional<int64_t> bos_token_id = std::nullopt, eos_token_id = std::nullopt;
};

void read_common(ConfigReader& reader, const CommonDefaults& defaults, ModelConfig& model);

// rope_parameters (flat, or nested by layer type), or rope_theta with rope_scaling. Call it after read_common
// and after the layers are known: a sliding layer with parameters of its own gets local_rope.
struct RopeDefaults {
  double theta = 10000.0;
  // Phi-3: older names of "longrope", and the original length stands beside the parameters.
  bool phi3 = false;
};
void read_rope(ConfigReader& reader, const RopeDefaults& defaults, ModelConfig& model);
// Gemma-3: two sets, of which rope_scaling changes the full one only.
void read_rope_by_layer_type(ConfigReader& reader, double full_theta, double sliding_theta,
                             ModelConfig& model);

// num_layers layers of one kind: sliding with a window, full without.
void set_uniform_layers(ModelConfig& model, std::optional<int64_t> window);
// "layer_types" when it is given; otherwise layer i slides when `slides(i)` says so. Sliding layers need
// `window`.
template <typename Slides>
void read_layer_types(ConfigReader& reader, std::optional<int64_t> window, Slides slides, ModelConfig& model);

// Called by read_layer_types for a file that lists them.
bool read_listed_layer_types(ConfigReader& reader, std::optional<int64_t> window, ModelConfig& model);

template <typename Slides>
void read_layer_types(ConfigReader& reader, std::optional<int64_t> window, Slides slides,
                      ModelConfig& model) {
  if (read_listed_layer_types(reader, window, model)) return;
  set_uniform_layers(model, std::nullopt);
  for (size_t i = 0; window && i < model.layers.size(); ++i) {
    if (!slides(static_cast<int64_t>(i))) continue;
    model.layers[i].kind = LayerKind::kSliding;
    model.layers[i].sliding_window = *window;
  }
}

// "sliding_window": null is none; a window is at least one token.
std::optional<int64_t> read_window(ConfigReader& reader, std::optional<int64_t> absent);

// The scale of DeepSeek's attention: 1/sqrt(head_dim), times the square of yarn's mscale_all_dim term.
double yarn_attention_scale(const RopeConfig& rope, int64_t head_dim);

// Keys that the DeepSeek versions share: latent attention and the mixture, dense in the first layers.
struct DeepseekDefaults {
  int64_t moe_intermediate_size = 0, num_experts = 0, num_shared_experts = 0, first_dense = 0;
  std::optional<int64_t> num_experts_per_tok = std::nullopt;
};
void read_deepseek(ConfigReader& reader, const DeepseekDefaults& defaults, ModelConfig& model);

}  // namespace vllm
