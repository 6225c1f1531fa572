// Phi-3, Phi-3.5 and Phi-4-mini: partly rotated heads, "longrope" under three names.

#include "config/architectures/common.h"
#include "config/architectures/registry.h"

namespace vllm {
namespace {

void read(ConfigReader& reader, ModelConfig& model) {
  read_common(reader,
              {.vocab_size = 32064,
               .hidden_size = 3072,
               .intermediate_size = 8192,
               .num_layers = 32,
               .num_heads = 32,
               .max_position_embeddings = 4096,
               .norm_eps = 1e-5,
               .bos_token_id = 1,
               .eos_token_id = 32000},
              model);
  set_uniform_layers(model, read_window(reader, std::nullopt));
  read_rope(reader, {.phi3 = true}, model);
}

}  // namespace

Architecture phi3_architecture() {
  return {.names = {"Phi3ForCausalLM"}, .model_types = {"phi3"}, .read = read};
}

}  // namespace vllm
