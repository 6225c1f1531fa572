// Mistral 7B and its successors: Llama with, where sliding_window is not null, every layer sliding.

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
               .bos_token_id = 1,
               .eos_token_id = 2},
              model);
  set_uniform_layers(model, read_window(reader, 4096));
  read_rope(reader, {}, model);
}

}  // namespace

Architecture mistral_architecture() {
  return {.names = {"MistralForCausalLM"}, .model_types = {"mistral"}, .read = read};
}

}  // namespace vllm
