#include "sim/architecture.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "config/architectures/reader.h"
#include "formats/json.h"
#include "formats/printable.h"

namespace vllm {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxNames = 256;

// ---- architecture ----

Result<std::vector<std::string>> read_names(const std::string& path, const std::string& key,
                                            const YAML::Node& node) {
  std::vector<std::string> names;
  if (!node || node.IsNull()) return names;
  if (!node.IsSequence()) return bad_input("{}: 'sequence.{}' is not a list of layer names", path, key);
  for (const YAML::Node& item : node) {
    if (!item.IsScalar() || item.Scalar().empty()) {
      return bad_input("{}: 'sequence.{}' holds what is not a layer name", path, key);
    }
    if (names.size() == kMaxNames)
      return bad_input("{}: 'sequence.{}' has more than {} names", path, key, kMaxNames);
    names.push_back(item.Scalar());
  }
  return names;
}

Status read_catalog(const std::string& path, const YAML::Node& catalog, Architecture& out) {
  static constexpr std::pair<const char*, ProfiledKind> kKinds[] = {
      {"dense", ProfiledKind::kDense},
      {"per_sequence", ProfiledKind::kPerSequence},
      {"attention", ProfiledKind::kAttention},
      {"moe", ProfiledKind::kMoe}};
  for (const auto& [name, kind] : kKinds) {
    const YAML::Node section = catalog[name];
    if (!section || section.IsNull()) continue;
    if (!section.IsMap()) return bad_input("{}: 'catalog.{}' is not a map of layers", path, name);
    for (const auto& entry : section) {
      if (!entry.first.IsScalar()) return bad_input("{}: 'catalog.{}' has a key that is no name", path, name);
      ArchitectureLayer layer;
      layer.name = entry.first.Scalar();
      layer.kind = kind;
      if (out.find(layer.name) != nullptr) {
        return bad_input("{}: layer '{}' is twice in the catalog", path, printable(layer.name));
      }
      if (out.catalog.size() == kMaxNames)
        return bad_input("{}: 'catalog' has more than {} layers", path, kMaxNames);
      if (entry.second.IsMap()) {
        const YAML::Node stable = entry.second["tp_stable"];
        if (stable && !YAML::convert<bool>::decode(stable, layer.tp_stable)) {
          return bad_input("{}: 'catalog.{}.{}.tp_stable' is neither true nor false", path, name,
                           printable(layer.name));
        }
      }
      out.catalog.push_back(std::move(layer));
    }
  }
  return Status::ok();
}

Status check_names(const Architecture& a) {
  const std::pair<const char*, const std::vector<std::string>*> lists[] = {
      {"prologue", &a.prologue},   {"pre_attn", &a.pre_attn}, {"post_attn", &a.post_attn},
      {"mlp_dense", &a.mlp_dense}, {"mlp_moe", &a.mlp_moe},   {"head", &a.head}};
  for (const auto& [key, names] : lists) {
    for (const std::string& name : *names) {
      if (a.find(name) != nullptr) continue;
      return bad_input("{}: layer '{}' of 'sequence.{}' is not in the catalog", a.path, printable(name), key);
    }
  }
  // Attention has one time for the whole batch and the experts one for each rank: each is one row of its
  // list.
  const auto is = [&](const std::string& name, ProfiledKind kind) { return a.find(name)->kind == kind; };
  for (const auto& [key, names] : lists) {
    for (const std::string& name : *names) {
      if (is(name, ProfiledKind::kMoe) && names != &a.mlp_moe) {
        return bad_input("{}: layer '{}' of kind moe stands in 'sequence.{}'; accepted is mlp_moe", a.path,
                         printable(name), key);
      }
    }
  }
  if (a.prologue.empty() || a.head.empty() || a.pre_attn.empty()) {
    return bad_input(
        "{}: 'sequence' needs the lists prologue, pre_attn and head with at least one layer each", a.path);
  }
  return Status::ok();
}

Result<Architecture> architecture_of(const YAML::Node& root, const std::string& path) {
  Architecture a;
  a.path = path;
  if (!root.IsMap()) return bad_input("{}: is not a map with 'sequence' and 'catalog'", path);
  const YAML::Node sequence = root["sequence"], catalog = root["catalog"];
  if (!sequence || !sequence.IsMap()) return bad_input("{}: has no map 'sequence'", path);
  if (!catalog || !catalog.IsMap()) return bad_input("{}: has no map 'catalog'", path);
  const std::pair<const char*, std::vector<std::string>*> lists[] = {
      {"prologue", &a.prologue},   {"pre_attn", &a.pre_attn}, {"post_attn", &a.post_attn},
      {"mlp_dense", &a.mlp_dense}, {"mlp_moe", &a.mlp_moe},   {"head", &a.head}};
  for (const auto& [key, names] : lists) {
    VLLM_ASSIGN_OR_RETURN(*names, read_names(path, key, sequence[key]));
  }
  VLLM_RETURN_IF_ERROR(read_catalog(path, catalog, a));
  VLLM_RETURN_IF_ERROR(check_names(a));
  return a;
}

// ---- model ----

// The key that stands first among those that are there.
std::string first_of(const ConfigReader& reader, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (reader.has(key) && !reader.is_null(key)) return key;
  }
  return "";
}

int64_t needed(ConfigReader& reader, const std::string& key, int64_t high) {
  if (!reader.has(key) || reader.is_null(key)) {
    reader.fail(key, "is missing; a whole number is needed");
    return 1;
  }
  return reader.integer(key, 1, 1, high);
}

int64_t or_else(ConfigReader& reader, const std::string& key, int64_t absent, int64_t high) {
  if (!reader.has(key) || reader.is_null(key)) return absent;
  return reader.integer(key, absent, 1, high);
}

}  // namespace

const ArchitectureLayer* Architecture::find(std::string_view name) const {
  for (const ArchitectureLayer& layer : catalog) {
    if (layer.name == name) return &layer;
  }
  return nullptr;
}

Result<Architecture> parse_architecture(const std::string& text, const std::string& path) {
  try {
    return architecture_of(YAML::Load(text), path);
  } catch (const YAML::Exception& error) {
    return bad_input("{}:{}: is not YAML ({})", path, error.mark.line + 1, error.msg);
  } catch (const std::exception& error) {
    return bad_input("{}: is not YAML ({})", path, error.what());
  }
}

Result<Architecture> read_architecture(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_architecture(text, path);
}

Result<ModelDims> model_dims_from_json(const Json& json, const std::string& name, const std::string& path) {
  if (!json.is_object()) return bad_input("{}: is not a JSON object", path);
  ConfigReader reader(json, path);
  ModelDims m;
  m.name = name;
  m.path = path;
  m.model_type = reader.text("model_type", "");
  if (m.model_type.empty()) reader.fail("model_type", "is missing; it selects the architecture file");
  m.torch_dtype = reader.text("torch_dtype", "");
  if (m.torch_dtype.empty()) m.torch_dtype = reader.text("dtype", "");  // its name since transformers 5
  m.hidden = needed(reader, "hidden_size", kMaxHiddenSize);
  m.layers = needed(reader, "num_hidden_layers", kMaxLayers);
  m.heads = needed(reader, "num_attention_heads", kMaxHeads);
  m.kv_heads = or_else(reader, "num_key_value_heads", m.heads, kMaxHeads);
  m.head_dim = or_else(reader, "head_dim", std::max<int64_t>(1, m.hidden / m.heads), kMaxHeadDim);
  m.intermediate = needed(reader, "intermediate_size", kMaxIntermediateSize);
  m.moe_intermediate = or_else(reader, "moe_intermediate_size", m.intermediate, kMaxIntermediateSize);
  m.vocab = needed(reader, "vocab_size", kMaxVocabSize);
  m.max_positions = needed(reader, "max_position_embeddings", kMaxPositions);
  const std::string experts = first_of(reader, {"num_local_experts", "num_experts"});
  if (!experts.empty()) {
    m.experts = reader.integer(experts, 0, 0, kMaxExperts);
    if (m.experts > 0) m.experts_per_token = needed(reader, "num_experts_per_tok", kMaxExperts);
    if (reader.status() && m.experts_per_token > m.experts) {
      reader.fail("num_experts_per_tok",
                  fmt::format("is {}, more than the {} experts", m.experts_per_token, m.experts));
    }
  }
  if (!reader.status()) return reader.status();
  return m;
}

Result<ModelDims> read_model_dims(const std::string& name, const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(const Json json, read_json_file(path));
  return model_dims_from_json(json, name, path);
}

}  // namespace vllm
