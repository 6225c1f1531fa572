// Qwen3-MoE: Qwen3's attention, a mixture of experts in the layers that decoder_sparse_step picks.

#include <algorithm>

#include "config/architectures/common.h"
#include "config/architectures/registry.h"

namespace vllm {
namespace {

void read(ConfigReader& reader, ModelConfig& model) {
  read_common(reader,
              {.vocab_size = 151936,
               .hidden_size = 2048,
               .intermediate_size = 6144,
               .num_layers = 24,
               .num_heads = 32,
               .num_kv_heads = 4,
               .max_position_embeddings = 32768},
              model);
  model.qk_norm = true;
  model.attention_bias = model.attention_out_bias = reader.boolean("attention_bias", false);
  const std::string experts_key = reader.has("num_experts") ? "num_experts" : "num_local_experts";
  model.moe.num_experts = reader.integer(experts_key, 128, 1, kMaxExperts);
  model.moe.num_experts_per_tok = reader.integer("num_experts_per_tok", 8, 1, model.moe.num_experts);
  model.moe.intermediate_size = reader.integer("moe_intermediate_size", 768, 1, kMaxIntermediateSize);

  const auto given = read_window(reader, 4096);
  set_uniform_layers(model, reader.boolean("use_sliding_window", false) ? given : std::nullopt);
  const int64_t step = reader.integer("decoder_sparse_step", 1, 1, kMaxLayers);
  const auto dense = reader.integers("mlp_only_layers", {}, 0, kMaxLayers);
  for (int64_t i = 0; i < model.num_layers; ++i) {
    const bool listed = std::find(dense.begin(), dense.end(), i) != dense.end();
    model.layers[static_cast<size_t>(i)].moe = !listed && (i + 1) % step == 0;
  }
  read_rope(reader, {}, model);
}

}  // namespace

Architecture qwen3_moe_architecture() {
  return {.names = {"Qwen3MoeForCausalLM"}, .model_types = {"qwen3_moe"}, .read = read};
}

}  // namespace vllm
