#include "backend/cpu/workspace.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "backend/cpu/attention.h"
#include "backend/cpu/matmul.h"
#include "base/units.h"
#include "sample/sampler.h"

namespace vllm {
namespace {

constexpr int64_t kAlignmentFloats = 16;  // 64 bytes
constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// A thread's scratch serves one purpose at a time.
int64_t scratch_floats(const ModelConfig& model) {
  const AttentionShape attention{
      .num_heads = model.num_heads, .num_kv_heads = model.num_kv_heads, .head_dim = model.head_dim};
  const int64_t columns =
      std::max({model.hidden_size, model.intermediate_size, model.num_heads * model.head_dim});
  return std::max({matmul_scratch_floats(columns), attention.scratch_floats(),
                   ceil_div(sampler_scratch_bytes(model.vocab_size), kFloatBytes)});
}

// Hands out parts one after another; without a base it only counts.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(base) {}
  float* take(int64_t rows, int64_t width) {
    float* part = base_ == nullptr ? nullptr : reinterpret_cast<float*>(base_ + used_bytes_);
    const auto floats = checked_mul(rows, width);
    const auto padded = floats ? checked_add(*floats, kAlignmentFloats - 1) : std::nullopt;
    const auto bytes =
        padded ? checked_mul(*padded / kAlignmentFloats * kAlignmentFloats, kFloatBytes) : std::nullopt;
    const auto sum = bytes ? checked_add(used_bytes_, *bytes) : std::nullopt;
    used_bytes_ = sum.value_or(kMost);
    return part;
  }
  int64_t used_bytes() const { return used_bytes_; }

 private:
  std::byte* base_;
  int64_t used_bytes_ = 0;
};

Workspace take_all(const ModelConfig& model, const WorkspaceLimits& limits, Cutter& cutter) {
  Workspace out;
  const int64_t tokens = limits.tokens;
  const int64_t q_width = model.num_heads * model.head_dim, kv_width = model.num_kv_heads * model.head_dim;
  const bool local = std::any_of(model.layers.begin(), model.layers.end(),
                                 [](const LayerConfig& layer) { return layer.local_rope; });
  // The rows that are sampled are gathered in `normed`.
  out.normed = cutter.take(std::max(tokens, limits.sequences), model.hidden_size);
  out.hidden = cutter.take(tokens, model.hidden_size);
  out.q = cutter.take(tokens, q_width);
  out.attention = cutter.take(tokens, q_width);
  out.k = cutter.take(tokens, kv_width);
  out.v = cutter.take(tokens, kv_width);
  out.gate = cutter.take(tokens, model.intermediate_size);
  out.up = cutter.take(tokens, model.intermediate_size);
  out.cosines = cutter.take(tokens, model.head_dim / 2);
  out.sines = cutter.take(tokens, model.head_dim / 2);
  out.local_cosines = cutter.take(local ? tokens : 0, model.head_dim / 2);
  out.local_sines = cutter.take(local ? tokens : 0, model.head_dim / 2);
  out.logits = cutter.take(limits.sequences, model.vocab_size);
  for (int64_t i = 0; i < limits.threads; ++i) out.scratch.push_back(cutter.take(1, scratch_floats(model)));
  return out;
}

}  // namespace

int64_t workspace_bytes(const ModelConfig& model, const WorkspaceLimits& limits) {
  Cutter counter(nullptr);
  take_all(model, limits, counter);
  return counter.used_bytes();
}

Workspace Workspace::cut(const ModelConfig& model, const WorkspaceLimits& limits,
                         const DeviceBuffer& buffer) {
  Cutter cutter(buffer.data());
  Workspace out = take_all(model, limits, cutter);
  assert(cutter.used_bytes() == buffer.bytes());
  return out;
}

}  // namespace vllm
