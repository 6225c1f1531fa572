#pragma once

// What a simulated model is: its dimensions, read from <configs-root>/model/<name>.json (a Hugging Face
// config.json), and the rows of one step, read from <configs-root>/architecture/<model_type>.yaml (or
// profiler/models/ of the reference project, whose files are read unchanged). Plain values.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/json_fwd.h"

namespace vllm {

// Which table holds a layer's time.
enum class ProfiledKind { kDense, kPerSequence, kAttention, kMoe };

struct ArchitectureLayer {
  std::string name;
  ProfiledKind kind = ProfiledKind::kDense;
  bool tp_stable = false;  // always read from the tp1 tables
};

// Names in the lists are in the catalog (checked).
struct Architecture {
  std::string path;
  std::vector<std::string> prologue, pre_attn, post_attn, mlp_dense, mlp_moe, head;
  std::vector<ArchitectureLayer> catalog;
  const ArchitectureLayer* find(std::string_view name) const;
};

struct ModelDims {
  std::string name;  // "Qwen/Qwen3-32B"
  std::string path;  // file it was read from
  std::string model_type;
  std::string torch_dtype;  // as the file says; empty: absent
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t intermediate = 0, moe_intermediate = 0, vocab = 0, max_positions = 0;
  int64_t experts = 0, experts_per_token = 0;  // 0: dense
  bool is_moe() const { return experts > 0; }
  int64_t q_size() const { return heads * head_dim; }
  int64_t kv_size() const { return kv_heads * head_dim; }
};

Result<ModelDims> model_dims_from_json(const Json& json, const std::string& name, const std::string& path);
Result<ModelDims> read_model_dims(const std::string& name, const std::string& path);

Result<Architecture> parse_architecture(const std::string& text, const std::string& path);
Result<Architecture> read_architecture(const std::string& path);

}  // namespace vllm
