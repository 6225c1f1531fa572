// What a GPU that is not here would need besides weights and KV: made from shapes, so that a plan for it is
// not too hopeful. Every line errs on the large side of what public engines report for these models.

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "kv/plan.h"

namespace vllm {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kActivationBytes = 2;  // bfloat16
constexpr int64_t kLogitBytes = 4;
// Scratch of matrix and attention libraries.
constexpr int64_t kLibraryBytes = 256 * kMiB;
// One captured graph: launch records of each layer's kernels.
constexpr int64_t kGraphBytesPerLayer = 256 * kKiB;
constexpr int64_t kLargestCapture = 512;

int64_t mul(int64_t a, int64_t b) { return checked_mul(a, b).value_or(kLargest); }
int64_t add(int64_t a, int64_t b) { return checked_add(a, b).value_or(kLargest); }

// Elements that one token of the largest step holds at a time on one rank.
int64_t activation_elements(const ModelConfig& model, int64_t tp) {
  const int64_t attention = ceil_div(model.num_heads * (model.head_dim + model.v_head_dim), tp) +
                            2 * ceil_div(model.num_kv_heads, tp) * std::max(model.head_dim, model.v_head_dim);
  int64_t feed_forward = 2 * ceil_div(model.intermediate_size, tp);
  if (model.moe.num_experts > 0) {
    const int64_t chosen = std::max<int64_t>(1, model.moe.num_experts_per_tok);
    feed_forward = std::max(feed_forward,
                            mul(chosen, 2 * ceil_div(model.moe.intermediate_size, tp) + model.hidden_size));
  }
  return add(4 * model.hidden_size, std::max(attention, feed_forward));
}

}  // namespace

int64_t estimate_gpu_workspace_bytes(const ModelConfig& model, const Options& options) {
  const int64_t tp = std::max(1, options.parallel.tensor_parallel_size);
  const int64_t tokens = options.scheduler.max_num_batched_tokens;
  const int64_t sequences = options.scheduler.max_num_seqs;
  const int64_t activations = mul(mul(tokens, activation_elements(model, tp)), kActivationBytes);
  // Logits, and the sampler's sorted copy of them.
  const int64_t logits = mul(mul(sequences, model.vocab_size), 2 * kLogitBytes);
  const int64_t length = options.model.max_model_len.value_or(model.max_position_embeddings);
  int64_t tables = 0;
  if (const auto spec = make_kv_spec(model, options)) {
    const auto groups = static_cast<int64_t>(spec->groups.size());
    tables = mul(mul(sequences, ceil_div(std::max<int64_t>(1, length), spec->block_size)), 4 * groups);
  }
  return add(add(activations, logits), add(tables, kLibraryBytes));
}

int64_t estimate_gpu_graph_bytes(const ModelConfig& model, const Options& options) {
  if (options.runtime.enforce_eager) return 0;
  // Graphs for 1, 2 and 4 tokens, then every 8 to 256 and every 16 to 512, up to twice the running sequences.
  const int64_t largest = std::min(kLargestCapture, mul(2, std::max(1, options.scheduler.max_num_seqs)));
  int64_t graphs = 3;
  for (int64_t tokens = 8; tokens <= largest; tokens += tokens < 256 ? 8 : 16) ++graphs;
  return mul(graphs, mul(model.num_layers, kGraphBytesPerLayer));
}

}  // namespace vllm
