#include "support/models.h"

#include <gtest/gtest.h>

#include "formats/json.h"

namespace vllm::testing {

ModelConfig model_from(const std::string& text) {
  const auto json = parse_json(text, "config.json");
  EXPECT_TRUE(json.is_ok()) << json.status().message();
  if (!json) return {};
  auto model = model_config_from_json(*json, "config.json");
  EXPECT_TRUE(model.is_ok()) << model.status().message();
  return model ? std::move(model).value() : ModelConfig{};
}

ModelConfig qwen3_1_7b() {
  return model_from(R"({"model_type": "qwen3", "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
      "max_position_embeddings": 40960, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})");
}

ModelConfig llama_3_1_8b() {
  return model_from(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
      "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})");
}

ModelConfig gemma3_27b() {
  return model_from(R"({"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504,
      "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
      "sliding_window": 1024, "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})");
}

ModelConfig deepseek_v2_lite() {
  return model_from(R"({"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
      "num_hidden_layers": 27, "num_attention_heads": 16, "q_lora_rank": null, "n_routed_experts": 64,
      "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
      "max_position_embeddings": 163840, "torch_dtype": "bfloat16"})");
}

std::vector<ModelConfig> small_models() {
  std::vector<ModelConfig> out;
  for (const ArchitectureInfo& info : known_architectures()) {
    std::string more;
    // Beside its full layers, some that slide where the class knows a mixture.
    if (info.model_type == "qwen2" || info.model_type == "qwen3") {
      more = R"(, "use_sliding_window": true, "sliding_window": 64, "max_window_layers": 3)";
    }
    if (info.model_type == "gemma3_text") more = R"(, "sliding_window": 64, "sliding_window_pattern": 3)";
    if (info.model_type == "gemma2" || info.model_type == "mistral") more = R"(, "sliding_window": 64)";
    out.push_back(model_from(fmt::format(
        R"({{"model_type": "{}", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 7,
            "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 1000,
            "max_position_embeddings": 2048, "torch_dtype": "bfloat16"{}}})",
        info.model_type, more)));
  }
  return out;
}

ModelConfig mixed_model(const std::vector<LayerKind>& kinds) {
  ModelConfig model;
  model.architecture = "MadeUpForCausalLM";
  model.source = "made-up/config.json";
  model.vocab_size = 1000;
  model.hidden_size = 256;
  model.intermediate_size = 512;
  model.num_heads = 8;
  model.num_kv_heads = 4;
  model.head_dim = model.v_head_dim = 32;
  model.max_position_embeddings = 2048;
  model.num_layers = static_cast<int64_t>(kinds.size());
  model.mla.kv_lora_rank = 0;
  int64_t state_bytes = 1000;
  for (const LayerKind kind : kinds) {
    LayerConfig layer;
    layer.kind = kind;
    if (kind == LayerKind::kSliding) layer.sliding_window = 64;
    if (kind == LayerKind::kRecurrent) layer.state_bytes_per_sequence = state_bytes++;
    if (kind == LayerKind::kMla) {
      model.mla = {.kv_lora_rank = 48,
                   .q_lora_rank = 0,
                   .qk_nope_head_dim = 32,
                   .qk_rope_head_dim = 16,
                   .v_head_dim = 32};
    }
    model.layers.push_back(layer);
  }
  return model;
}

}  // namespace vllm::testing
