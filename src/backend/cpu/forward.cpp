#include "backend/cpu/forward.h"

#include <algorithm>
#include <cmath>

namespace vllm {
namespace {

Status check_supported(const ModelConfig& model) {
  const auto no = [&](const std::string& what) {
    return refused("'{}' ({}) has {}, which the plain CPU forward cannot compute: it runs the Llama family",
                   model.source, model.architecture, what);
  };
  for (const LayerConfig& layer : model.layers) {
    if (layer.kind != LayerKind::kFull && layer.kind != LayerKind::kSliding) {
      return no(fmt::format("layers of kind {}", layer_kind_name(layer.kind)));
    }
    if (layer.moe) return no("a mixture of experts");
  }
  if (model.hidden_act != "silu") return no(fmt::format("the activation '{}'", model.hidden_act));
  if (model.attn_logit_softcap != 0 || model.final_logit_softcap != 0) return no("soft-capped logits");
  if (model.norm_plus_one || model.post_norms) return no("norms of another kind");
  if (model.v_head_dim != model.head_dim) return no("value heads of another width than its key heads");
  if (model.num_kv_heads <= 0 || model.num_heads % model.num_kv_heads != 0) {
    return no(fmt::format("{} heads over {} KV heads", model.num_heads, model.num_kv_heads));
  }
  return Status::ok();
}

}  // namespace

std::vector<float> LlamaForward::expand(const Parameter& parameter) const {
  if (parameter.data == nullptr) return {};
  std::vector<float> out(static_cast<size_t>(parameter.cols));
  kernels_->dequantise_row(parameter.dtype, parameter.data, out.data(), parameter.cols);
  return out;
}

Result<LlamaForward> LlamaForward::create(const ModelConfig& model, const ModelWeights& weights,
                                          const CpuKernels& kernels) {
  VLLM_RETURN_IF_ERROR(check_supported(model));
  LlamaForward out(model, weights, kernels);
  out.shape_ = {.num_heads = model.num_heads, .num_kv_heads = model.num_kv_heads, .head_dim = model.head_dim};
  out.shape_.scale =
      static_cast<float>(model.attention_scale != 0 ? model.attention_scale
                                                    : 1.0 / std::sqrt(static_cast<double>(model.head_dim)));
  const std::vector<float> divisors = out.expand(weights.rope_divisors);
  VLLM_ASSIGN_OR_RETURN(out.rope_, make_rope_table(model, model.rope, divisors));
  out.has_local_rope_ = std::any_of(model.layers.begin(), model.layers.end(),
                                    [](const LayerConfig& layer) { return layer.local_rope; });
  if (out.has_local_rope_) {
    VLLM_ASSIGN_OR_RETURN(out.local_rope_, make_rope_table(model, model.rope_local, {}));
  }
  for (const LayerWeights& layer : weights.layers) {
    out.vectors_.push_back({.attn_norm = out.expand(layer.attn_norm),
                            .ffn_norm = out.expand(layer.ffn_norm),
                            .q_norm = out.expand(layer.q_norm),
                            .k_norm = out.expand(layer.k_norm),
                            .q_bias = out.expand(layer.q_bias),
                            .k_bias = out.expand(layer.k_bias),
                            .v_bias = out.expand(layer.v_bias),
                            .o_bias = out.expand(layer.o_bias),
                            .gate_bias = out.expand(layer.gate_bias),
                            .up_bias = out.expand(layer.up_bias),
                            .down_bias = out.expand(layer.down_bias)});
  }
  out.final_norm_ = out.expand(weights.final_norm);
  return out;
}

void LlamaForward::run(const Batch& batch, CpuKvCache& cache, const Workspace& workspace,
                       const TaskRunner& tasks) {
  const Step step{.batch = batch,
                  .cache = cache,
                  .work = workspace,
                  .tasks = tasks,
                  .tokens = static_cast<int64_t>(batch.tokens.size())};
  if (step.tokens == 0) return;
  embed(step);
  find_angles(step);
  for (int layer = 0; layer < static_cast<int>(model_->num_layers); ++layer) {
    attention_part(step, layer);
    feed_forward_part(step, layer);
  }
  logits(step);
}

void LlamaForward::embed(const Step& step) const {
  const Parameter& table = weights_->embedding;
  step.tasks.run_rows(step.tokens, [&](int64_t t) {
    float* row = step.work.hidden + t * table.cols;
    const int64_t token = step.batch.tokens[static_cast<size_t>(t)];
    kernels_->dequantise_row(table.dtype, table.data + token * table.row_bytes, row, table.cols);
    if (model_->embedding_scale != 1.0) {
      for (int64_t i = 0; i < table.cols; ++i) row[i] *= static_cast<float>(model_->embedding_scale);
    }
  });
}

// Angles depend on the position only, so all layers share them.
void LlamaForward::find_angles(const Step& step) const {
  const auto pairs = static_cast<int64_t>(rope_.inverse_frequencies.size());
  const auto local_pairs = static_cast<int64_t>(local_rope_.inverse_frequencies.size());
  for (const BatchSequence& sequence : step.batch.sequences) {
    step.tasks.run_rows(sequence.count, [&](int64_t i) {
      const int64_t row = sequence.row + i, position = sequence.position + i;
      rope_angles(rope_, position, step.work.cosines + row * pairs, step.work.sines + row * pairs);
      if (has_local_rope_) {
        rope_angles(local_rope_, position, step.work.local_cosines + row * local_pairs,
                    step.work.local_sines + row * local_pairs);
      }
    });
  }
}

void LlamaForward::normalise(const Step& step, const float* x, const std::vector<float>& weight,
                             float* y) const {
  const auto width = static_cast<int64_t>(weight.size());
  step.tasks.run_rows(step.tokens, [&](int64_t t) {
    kernels_->rms_norm(x + t * width, weight.data(), static_cast<float>(model_->norm_eps), width,
                       y + t * width);
  });
}

void LlamaForward::add_to_hidden(const Step& step, const float* x) const {
  const int64_t width = model_->hidden_size;
  step.tasks.run_rows(step.tokens,
                      [&](int64_t t) { kernels_->add(step.work.hidden + t * width, x + t * width, width); });
}

void LlamaForward::attention_part(const Step& step, int layer) {
  const LayerWeights& w = weights_->layers[static_cast<size_t>(layer)];
  const LayerVectors& vectors = vectors_[static_cast<size_t>(layer)];
  const Workspace& work = step.work;
  normalise(step, work.hidden, vectors.attn_norm, work.normed);
  const Product qkv[] = {{&w.q, &vectors.q_bias, work.q, w.q.rows},
                         {&w.k, &vectors.k_bias, work.k, w.k.rows},
                         {&w.v, &vectors.v_bias, work.v, w.v.rows}};
  multiply(*kernels_, step.tasks, qkv, work.normed, model_->hidden_size, step.tokens, work.scratch);
  rotate_and_store(step, layer);
  attend_all(step, layer);
  // The normed input is used up; its place takes the output.
  const Product out[] = {{&w.o, &vectors.o_bias, work.normed, w.o.rows}};
  multiply(*kernels_, step.tasks, out, work.attention, w.o.cols, step.tokens, work.scratch);
  add_to_hidden(step, work.normed);
}

void LlamaForward::rotate_and_store(const Step& step, int layer) const {
  const LayerVectors& vectors = vectors_[static_cast<size_t>(layer)];
  const Workspace& work = step.work;
  const bool local = model_->layers[static_cast<size_t>(layer)].local_rope;
  const RopeTable& rope = local ? local_rope_ : rope_;
  const float* cosines = local ? work.local_cosines : work.cosines;
  const float* sines = local ? work.local_sines : work.sines;
  const auto pairs = static_cast<int64_t>(rope.inverse_frequencies.size());
  const int64_t head_dim = model_->head_dim;
  const auto eps = static_cast<float>(model_->norm_eps);

  const auto prepare = [&](float* head, const std::vector<float>& norm, int64_t row) {
    if (!norm.empty()) kernels_->rms_norm(head, norm.data(), eps, head_dim, head);
    rope_rotate(rope, cosines + row * pairs, sines + row * pairs, head);
  };
  for (const BatchSequence& sequence : step.batch.sequences) {
    const std::vector<BlockId>& table = (*sequence.tables)[static_cast<size_t>(step.cache.group_of(layer))];
    step.tasks.run_rows(sequence.count, [&](int64_t i) {
      const int64_t row = sequence.row + i, position = sequence.position + i;
      float* q = work.q + row * model_->num_heads * head_dim;
      float* k = work.k + row * model_->num_kv_heads * head_dim;
      const float* v = work.v + row * model_->num_kv_heads * head_dim;
      for (int64_t h = 0; h < model_->num_heads; ++h) prepare(q + h * head_dim, vectors.q_norm, row);
      for (int64_t h = 0; h < model_->num_kv_heads; ++h) prepare(k + h * head_dim, vectors.k_norm, row);
      const int64_t block_size = step.cache.block_size();
      step.cache.write(layer, table[static_cast<size_t>(position / block_size)],
                       static_cast<int>(position % block_size), k, v);
    });
  }
}

void LlamaForward::attend_all(const Step& step, int layer) {
  const LayerConfig& config = model_->layers[static_cast<size_t>(layer)];
  const int64_t window = config.kind == LayerKind::kSliding ? config.sliding_window : 0;
  attention_tasks_.clear();
  for (const BatchSequence& sequence : step.batch.sequences) {
    const BlockId* table = (*sequence.tables)[static_cast<size_t>(step.cache.group_of(layer))].data();
    for (int64_t begin = 0; begin < sequence.count; begin += shape_.tokens_per_task()) {
      const int64_t count = std::min(shape_.tokens_per_task(), sequence.count - begin);
      for (int head = 0; head < static_cast<int>(shape_.num_kv_heads); ++head) {
        attention_tasks_.push_back({.table = table,
                                    .row = sequence.row + begin,
                                    .count = count,
                                    .position = sequence.position + begin,
                                    .kv_head = head});
      }
    }
  }
  step.tasks.run(static_cast<int64_t>(attention_tasks_.size()), [&](int64_t i, int thread) {
    attend(*kernels_, shape_, step.cache, layer, window, attention_tasks_[static_cast<size_t>(i)],
           step.work.q, step.work.attention, step.work.scratch[static_cast<size_t>(thread)]);
  });
}

void LlamaForward::feed_forward_part(const Step& step, int layer) const {
  const LayerWeights& w = weights_->layers[static_cast<size_t>(layer)];
  const LayerVectors& vectors = vectors_[static_cast<size_t>(layer)];
  const Workspace& work = step.work;
  const int64_t inner = model_->intermediate_size;
  normalise(step, work.hidden, vectors.ffn_norm, work.normed);
  const Product in[] = {{&w.gate, &vectors.gate_bias, work.gate, inner},
                        {&w.up, &vectors.up_bias, work.up, inner}};
  multiply(*kernels_, step.tasks, in, work.normed, model_->hidden_size, step.tokens, work.scratch);
  step.tasks.run_rows(step.tokens, [&](int64_t t) {
    kernels_->silu_multiply(work.gate + t * inner, work.up + t * inner, inner);
  });
  const Product out[] = {{&w.down, &vectors.down_bias, work.normed, model_->hidden_size}};
  multiply(*kernels_, step.tasks, out, work.gate, inner, step.tokens, work.scratch);
  add_to_hidden(step, work.normed);
}

// Only the rows that are sampled go through the head, which is the largest matrix of a small model.
void LlamaForward::logits(const Step& step) const {
  const auto rows = static_cast<int64_t>(step.batch.logits_rows.size());
  if (rows == 0) return;
  const int64_t width = model_->hidden_size;
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = step.work.hidden + step.batch.logits_rows[static_cast<size_t>(i)] * width;
    kernels_->rms_norm(from, final_norm_.data(), static_cast<float>(model_->norm_eps), width,
                       step.work.normed + i * width);
  }
  const Product head[] = {{&weights_->head, nullptr, step.work.logits, model_->vocab_size}};
  multiply(*kernels_, step.tasks, head, step.work.normed, width, rows, step.work.scratch);
}

}  // namespace vllm
