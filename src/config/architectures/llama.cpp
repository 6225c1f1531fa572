// Llama: SmolLM2, Llama 2 and 3, TinyLlama and everything else that calls itself LlamaForCausalLM.

#include "config/architectures/common.h"
#include "config/architectures/registry.h"

namespace vllm {
namespace {

void read(ConfigReader& reader, ModelConfig& model) {
  read_common(reader,
              {.vocab_size = 32000,
               .hidden_size = 4096,
               .intermediate_size = 11008,
               .num_layers = 32,
               .num_heads = 32,
               .max_position_embeddings = 2048,
               .bos_token_id = 1,
               .eos_token_id = 2},
              model);
  model.attention_bias = model.attention_out_bias = reader.boolean("attention_bias", false);
  model.mlp_bias = reader.boolean("mlp_bias", false);
  set_uniform_layers(model, std::nullopt);
  read_rope(reader, {}, model);
}

// The converter to GGUF permutes the rows of q and k so that neighbours rotate together.
void read_gguf(const GgufFile& file, ModelConfig& model) {
  model.rope_interleaved = true;
  model.attention_bias = file.tensors.count("blk.0.attn_q.bias") > 0;
  model.attention_out_bias = file.tensors.count("blk.0.attn_output.bias") > 0;
  model.mlp_bias = file.tensors.count("blk.0.ffn_up.bias") > 0;
}

}  // namespace

Architecture llama_architecture() {
  return {.names = {"LlamaForCausalLM"},
          .model_types = {"llama"},
          .runnable = true,
          .read = read,
          .gguf_name = "llama",
          .read_gguf = read_gguf};
}

}  // namespace vllm
