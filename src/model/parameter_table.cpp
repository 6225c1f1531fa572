#include "model/parameter_table.h"

namespace vllm {
namespace {

struct LayerPart {
  Parameter LayerWeights::*member;
  const char* gguf;
  const char* hf;
  int64_t rows, cols;
  bool present;
};

ParameterSpec matrix(Parameter& target, std::string gguf, std::string hf, int64_t rows, int64_t cols) {
  return {
      .gguf_name = std::move(gguf), .hf_name = std::move(hf), .target = &target, .rows = rows, .cols = cols};
}

ParameterSpec vector(Parameter& target, std::string gguf, std::string hf, int64_t cols, bool norm) {
  ParameterSpec spec = matrix(target, std::move(gguf), std::move(hf), 1, cols);
  spec.vector = true;
  spec.norm = norm;
  return spec;
}

void add_layer(const ModelConfig& model, LayerWeights& layer, const std::string& number,
               std::vector<ParameterSpec>& out) {
  using L = LayerWeights;
  const int64_t hidden = model.hidden_size, inner = model.intermediate_size;
  const int64_t q = model.num_heads * model.head_dim, kv = model.num_kv_heads * model.head_dim;
  const LayerPart matrices[] = {
      {&L::q, "attn_q", "self_attn.q_proj", q, hidden, true},
      {&L::k, "attn_k", "self_attn.k_proj", kv, hidden, true},
      {&L::v, "attn_v", "self_attn.v_proj", kv, hidden, true},
      {&L::o, "attn_output", "self_attn.o_proj", hidden, q, true},
      {&L::gate, "ffn_gate", "mlp.gate_proj", inner, hidden, true},
      {&L::up, "ffn_up", "mlp.up_proj", inner, hidden, true},
      {&L::down, "ffn_down", "mlp.down_proj", hidden, inner, true},
  };
  const LayerPart norms[] = {
      {&L::attn_norm, "attn_norm", "input_layernorm", 1, hidden, true},
      {&L::ffn_norm, "ffn_norm", "post_attention_layernorm", 1, hidden, true},
      {&L::q_norm, "attn_q_norm", "self_attn.q_norm", 1, model.head_dim, model.qk_norm},
      {&L::k_norm, "attn_k_norm", "self_attn.k_norm", 1, model.head_dim, model.qk_norm},
  };
  const LayerPart biases[] = {
      {&L::q_bias, "attn_q", "self_attn.q_proj", 1, q, model.attention_bias},
      {&L::k_bias, "attn_k", "self_attn.k_proj", 1, kv, model.attention_bias},
      {&L::v_bias, "attn_v", "self_attn.v_proj", 1, kv, model.attention_bias},
      {&L::o_bias, "attn_output", "self_attn.o_proj", 1, hidden, model.attention_out_bias},
      {&L::gate_bias, "ffn_gate", "mlp.gate_proj", 1, inner, model.mlp_bias},
      {&L::up_bias, "ffn_up", "mlp.up_proj", 1, inner, model.mlp_bias},
      {&L::down_bias, "ffn_down", "mlp.down_proj", 1, hidden, model.mlp_bias},
  };
  const std::string gguf = "blk." + number + ".", hf = "model.layers." + number + ".";
  for (const LayerPart& part : matrices) {
    out.push_back(matrix(layer.*part.member, gguf + part.gguf + ".weight", hf + part.hf + ".weight",
                         part.rows, part.cols));
  }
  for (const LayerPart& part : norms) {
    if (!part.present) continue;
    out.push_back(
        vector(layer.*part.member, gguf + part.gguf + ".weight", hf + part.hf + ".weight", part.cols, true));
  }
  for (const LayerPart& part : biases) {
    if (!part.present) continue;
    out.push_back(
        vector(layer.*part.member, gguf + part.gguf + ".bias", hf + part.hf + ".bias", part.cols, false));
  }
}

}  // namespace

std::vector<ParameterSpec> list_parameters(const ModelConfig& model, ModelWeights& weights) {
  std::vector<ParameterSpec> out;
  const int64_t hidden = model.hidden_size, vocab = model.vocab_size;
  out.push_back(matrix(weights.embedding, "token_embd.weight", "model.embed_tokens.weight", vocab, hidden));
  weights.layers.resize(static_cast<size_t>(model.num_layers));
  for (size_t i = 0; i < weights.layers.size(); ++i)
    add_layer(model, weights.layers[i], std::to_string(i), out);
  out.push_back(vector(weights.final_norm, "output_norm.weight", "model.norm.weight", hidden, true));
  if (!model.tie_word_embeddings) {
    out.push_back(matrix(weights.head, "output.weight", "lm_head.weight", vocab, hidden));
  }
  return out;
}

}  // namespace vllm
