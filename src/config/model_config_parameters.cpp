// How many parameters the shapes make. 128-bit sums: a hostile file's product may exceed 64 bits, and then
// the answer is the largest 64-bit number.

#include <limits>

#include "config/model_config.h"

namespace vllm {
namespace {

__extension__ typedef __int128 Count;

Count matrix(Count rows, Count cols, bool bias) { return rows * cols + (bias ? rows : 0); }

// gate, up and down.
Count feed_forward(Count hidden, Count intermediate, bool bias) {
  return 2 * matrix(intermediate, hidden, bias) + matrix(hidden, intermediate, bias);
}

Count attention(const ModelConfig& model) {
  const Count hidden = model.hidden_size;
  const Count heads = model.num_heads;
  if (model.mla.kv_lora_rank > 0) {
    const MlaConfig& mla = model.mla;
    const Count query = heads * model.head_dim;
    const Count q = mla.q_lora_rank > 0 ? matrix(mla.q_lora_rank, hidden, model.attention_bias) +
                                              mla.q_lora_rank + matrix(query, mla.q_lora_rank, false)
                                        : matrix(query, hidden, false);
    const Count kv_a = matrix(mla.kv_lora_rank + mla.qk_rope_head_dim, hidden, model.attention_bias);
    const Count kv_b = matrix(heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank, false);
    return q + kv_a + mla.kv_lora_rank + kv_b +
           matrix(hidden, heads * mla.v_head_dim, model.attention_out_bias);
  }
  const Count kv_heads = model.num_kv_heads;
  return matrix(heads * model.head_dim, hidden, model.attention_bias) +
         matrix(kv_heads * model.head_dim, hidden, model.attention_bias) +
         matrix(kv_heads * model.v_head_dim, hidden, model.attention_bias) +
         matrix(hidden, heads * model.v_head_dim, model.attention_out_bias) +
         (model.qk_norm ? 2 * model.head_dim : 0);
}

Count experts(const ModelConfig& model) {
  const Count hidden = model.hidden_size;
  const Count router = model.moe.num_experts * hidden;
  const Count shared = model.moe.shared_intermediate_size;
  // Shared experts are one feed-forward part of their joint width; only the dense kind of layer has biases
  // elsewhere.
  return router + model.moe.num_experts * feed_forward(hidden, model.moe.intermediate_size, false) +
         (shared > 0 ? feed_forward(hidden, shared, model.mlp_bias) : 0);
}

}  // namespace

int64_t ModelConfig::num_parameters() const {
  const Count hidden = hidden_size;
  Count total = vocab_size * hidden * (tie_word_embeddings ? 1 : 2) + hidden;  // the last is the final norm
  for (const LayerConfig& layer : layers) {
    if (layer.kind == LayerKind::kRecurrent) continue;  // no reference class with such layers is read yet
    total += attention(*this) + hidden * (post_norms ? 4 : 2);
    total += layer.moe ? experts(*this) : feed_forward(hidden, intermediate_size, mlp_bias);
  }
  constexpr Count kLargest = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(total < kLargest ? total : kLargest);
}

}  // namespace vllm
