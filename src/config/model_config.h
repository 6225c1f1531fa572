#pragma once

// What a model is, read from a Hugging Face config.json or from GGUF metadata into one structure. An
// architecture is one file in config/architectures/ and one line in its registry; everything after this
// folder reads only this structure and never asks which family a model belongs to.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/dtype.h"
#include "formats/json_fwd.h"
#include "formats/tensor_file.h"

namespace vllm {

enum class LayerKind { kFull, kSliding, kMla, kRecurrent };
const char* layer_kind_name(LayerKind kind);  // "full", "sliding", "mla", "recurrent"

struct RopeConfig {
  double theta = 10000.0;
  double partial_rotary_factor = 1.0;
  std::string type = "default";  // default, linear, dynamic, yarn, llama3, longrope
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  std::optional<double> attention_factor, mscale, mscale_all_dim;
  int64_t original_max_position_embeddings = 0;   // 0: not given
  std::vector<double> short_factor, long_factor;  // longrope
};

struct LayerConfig {
  LayerKind kind = LayerKind::kFull;
  int64_t sliding_window = 0;  // tokens, kSliding only
  bool moe = false;            // the feed-forward part is a mixture of experts
  bool local_rope = false;     // uses ModelConfig::rope_local
  // kRecurrent only: constant state of one sequence in this layer.
  int64_t state_bytes_per_sequence = 0;
};

struct MoeConfig {
  int64_t num_experts = 0;  // routed
  int64_t num_experts_per_tok = 0;
  int64_t intermediate_size = 0;         // of one routed expert
  int64_t shared_intermediate_size = 0;  // all shared experts together; 0: none
};

// kv_lora_rank 0: the model has no multi-head latent attention.
struct MlaConfig {
  int64_t kv_lora_rank = 0, q_lora_rank = 0;  // q_lora_rank 0: no low-rank query
  int64_t qk_nope_head_dim = 0, qk_rope_head_dim = 0, v_head_dim = 0;
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama"
  std::string source;        // file it was read from
  bool from_gguf = false;    // its tensors keep their own types; --kv-cache-dtype auto is bfloat16 then
  // Whether this build can run it; otherwise `not_runnable_reason` is one sentence.
  bool runnable = false;
  std::string not_runnable_reason;

  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_layers = 0;
  int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;  // head_dim: of Q and K
  int64_t v_head_dim = 0;                                 // = head_dim unless MLA
  int64_t max_position_embeddings = 0;                    // longest sequence, a yarn scaling counted in
  double norm_eps = 1e-6;
  std::string hidden_act = "silu";
  bool tie_word_embeddings = false;
  bool attention_bias = false;      // q, k, v
  bool attention_out_bias = false;  // o
  bool mlp_bias = false;
  bool qk_norm = false;
  bool norm_plus_one = false;    // Gemma: weight + 1
  bool post_norms = false;       // Gemma: norms after attention and feed-forward too
  double embedding_scale = 1.0;  // Gemma: sqrt(hidden)
  double attention_scale = 0.0;  // 0: 1/sqrt(head_dim)
  double attn_logit_softcap = 0.0, final_logit_softcap = 0.0;  // 0: none
  RopeConfig rope, rope_local;
  // Pairing of rotated elements: false = halves (HF), true = neighbours (GGUF's llama files have permuted
  // weights).
  bool rope_interleaved = false;
  MoeConfig moe;
  MlaConfig mla;
  std::vector<LayerConfig> layers;  // num_layers entries

  std::optional<DType> dtype;  // of the checkpoint, as it says
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;

  // Parameters of the whole model (embeddings once if tied), computed from the shapes above. A configuration
  // that was read by the functions below has at most 2^50 of them.
  int64_t num_parameters() const;
};

// From config.json's text; `source` names it in errors. Absent keys take the reference class's default.
Result<ModelConfig> model_config_from_json(const Json& json, const std::string& source);
Result<ModelConfig> model_config_from_gguf(const GgufFile& file);

// `model`: a folder with config.json, a .gguf file, or a config.json itself.
Result<ModelConfig> load_model_config(const std::string& model);
bool is_gguf_path(const std::string& model);

// Names that the registry knows, for error messages and tests: architecture, and whether it can run.
struct ArchitectureInfo {
  std::string architecture;
  std::string model_type;
  bool runnable;
};
std::vector<ArchitectureInfo> known_architectures();

}  // namespace vllm
