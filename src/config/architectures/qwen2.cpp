// Qwen2 and Qwen2.5: biases on q, k and v; with use_sliding_window the layers from max_window_layers on
// slide.

#include "config/architectures/common.h"
#include "config/architectures/registry.h"

namespace vllm {
namespace {

void read(ConfigReader& reader, ModelConfig& model) {
  read_common(reader,
              {.vocab_size = 151936,
               .hidden_size = 4096,
               .intermediate_size = 22016,
               .num_layers = 32,
               .num_heads = 32,
               .num_kv_heads = 32,
               .max_position_embeddings = 32768},
              model);
  model.attention_bias = true;
  const auto given = read_window(reader, 4096);
  const auto window = reader.boolean("use_sliding_window", false) ? given : std::nullopt;
  const int64_t first = reader.integer("max_window_layers", 28, 0, kMaxLayers);
  read_layer_types(
      reader, window, [first](int64_t layer) { return layer >= first; }, model);
  read_rope(reader, {}, model);
}

void read_gguf(const GgufFile&, ModelConfig& model) { model.attention_bias = true; }

}  // namespace

Architecture qwen2_architecture() {
  return {.names = {"Qwen2ForCausalLM"},
          .model_types = {"qwen2"},
          .read = read,
          .gguf_name = "qwen2",
          .read_gguf = read_gguf};
}

}  // namespace vllm
