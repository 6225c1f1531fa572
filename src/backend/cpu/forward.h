#pragma once

// The forward pass of the Llama family over one flattened batch: prefill chunks and decode tokens side by
// side. Knows nothing of requests, plans or sampling. One thread at a time runs it; it uses the task runner's
// threads inside.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/kv_cache.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/rope.h"
#include "backend/cpu/tasks.h"
#include "backend/cpu/workspace.h"
#include "base/status.h"
#include "config/model_config.h"
#include "model/weights.h"

namespace vllm {

// The tokens of one sequence in a batch: consecutive positions.
struct BatchSequence {
  int64_t row = 0;                                            // of its first token in the batch
  int64_t count = 0;                                          // tokens
  int64_t position = 0;                                       // of its first token in the sequence
  const std::vector<std::vector<BlockId>>* tables = nullptr;  // one a group; they cover its positions
};

struct Batch {
  std::vector<int32_t> tokens;  // all in [0, vocab_size)
  std::vector<BatchSequence> sequences;
  std::vector<int64_t> logits_rows;  // rows of `tokens` whose logits are wanted
  void clear() {
    tokens.clear();
    sequences.clear();
    logits_rows.clear();
  }
};

class LlamaForward {
 public:
  // Refuses, in one sentence, what this forward cannot compute. `model` and `weights` are kept by reference.
  static Result<LlamaForward> create(const ModelConfig& model, const ModelWeights& weights,
                                     const CpuKernels& kernels);

  // Writes K and V of every token into `cache` and logits into workspace.logits, [logits_rows, vocab_size].
  void run(const Batch& batch, CpuKvCache& cache, const Workspace& workspace, const TaskRunner& tasks);

 private:
  struct LayerVectors {
    std::vector<float> attn_norm, ffn_norm, q_norm, k_norm;
    std::vector<float> q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias;
  };
  struct Step {
    const Batch& batch;
    CpuKvCache& cache;
    const Workspace& work;
    const TaskRunner& tasks;
    int64_t tokens = 0;
  };

  LlamaForward(const ModelConfig& model, const ModelWeights& weights, const CpuKernels& kernels)
      : model_(&model), weights_(&weights), kernels_(&kernels) {}

  std::vector<float> expand(const Parameter& parameter) const;
  void embed(const Step& step) const;
  void find_angles(const Step& step) const;
  void normalise(const Step& step, const float* x, const std::vector<float>& weight, float* y) const;
  void attention_part(const Step& step, int layer);
  void rotate_and_store(const Step& step, int layer) const;
  void attend_all(const Step& step, int layer);
  void feed_forward_part(const Step& step, int layer) const;
  void logits(const Step& step) const;
  void add_to_hidden(const Step& step, const float* x) const;

  const ModelConfig* model_;
  const ModelWeights* weights_;
  const CpuKernels* kernels_;
  AttentionShape shape_;
  RopeTable rope_, local_rope_;
  bool has_local_rope_ = false;
  std::vector<LayerVectors> vectors_;
  std::vector<float> final_norm_;
  std::vector<AttentionTask> attention_tasks_;  // of one layer; kept for its capacity
};

}  // namespace vllm
