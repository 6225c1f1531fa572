#include "config/model_config.h"

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "config/architectures/registry.h"
#include "config/model_config_check.h"
#include "formats/json.h"
#include "formats/printable.h"

namespace vllm {
namespace {

std::string known_names() {
  std::string out;
  for (const Architecture& architecture : architectures()) {
    for (const std::string& name : architecture.names) out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

bool contains(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// By "architectures", whose first known name wins; without them by "model_type".
Result<Architecture> find_architecture(ConfigReader& reader) {
  const auto names = reader.texts("architectures");
  const auto model_type = reader.optional_text("model_type");
  VLLM_RETURN_IF_ERROR(reader.status());
  if (names && !names->empty()) {
    for (const std::string& name : *names) {
      for (const Architecture& architecture : architectures()) {
        if (contains(architecture.names, name)) return architecture;
      }
    }
    return refused("{}: \"architectures\" names {}, which is not known; known are {}", reader.source(),
                   printable(names->front()), known_names());
  }
  if (!model_type) {
    return bad_input("{}: neither \"architectures\" nor \"model_type\" says what the model is; known are {}",
                     reader.source(), known_names());
  }
  for (const Architecture& architecture : architectures()) {
    if (contains(architecture.model_types, *model_type)) return architecture;
  }
  return refused("{}: \"model_type\" is {}, which is not known; known architectures are {}", reader.source(),
                 printable(*model_type), known_names());
}

std::string runnable_names() {
  std::string out;
  for (const Architecture& architecture : architectures()) {
    if (architecture.runnable) out += (out.empty() ? "" : ", ") + architecture.names.front();
  }
  return out;
}

// A checkpoint whose weights are stored in a quantised form of their own.
std::optional<std::string> quantisation(ConfigReader& reader) {
  if (!reader.is_object("quantization_config")) return std::nullopt;
  ConfigReader inner = reader.object("quantization_config");
  return printable(inner.optional_text("quant_method").value_or("an unnamed method"));
}

}  // namespace

const char* layer_kind_name(LayerKind kind) {
  switch (kind) {
    case LayerKind::kFull:
      return "full";
    case LayerKind::kSliding:
      return "sliding";
    case LayerKind::kMla:
      return "mla";
    case LayerKind::kRecurrent:
      return "recurrent";
  }
  return "unknown";
}

std::vector<ArchitectureInfo> known_architectures() {
  std::vector<ArchitectureInfo> out;
  for (const Architecture& architecture : architectures()) {
    out.push_back({architecture.names.front(), architecture.model_types.front(), architecture.runnable});
  }
  return out;
}

void describe_architecture(const Architecture& architecture, ModelConfig& model) {
  model.architecture = architecture.names.front();
  model.model_type = architecture.model_types.front();
  model.runnable = architecture.runnable;
  if (!model.runnable) {
    model.not_runnable_reason =
        fmt::format("{} is planned for but cannot be run by this build, which runs {}", model.architecture,
                    runnable_names());
  }
}

Status check_model_config(const ModelConfig& model) {
  const bool mla = model.mla.kv_lora_rank > 0;
  const int64_t rotated = mla ? model.mla.qk_rope_head_dim : model.head_dim;
  if (rotated % 2 != 0 && model.rope.partial_rotary_factor == 1.0) {
    return bad_input(
        "{}: a head has {} rotated elements; accepted is an even number, since they rotate in pairs",
        model.source, rotated);
  }
  const int64_t parameters = model.num_parameters();
  if (parameters > kMaxParameters) {
    return bad_input(
        "{}: the shapes make {} parameters; accepted are at most {}", model.source,
        parameters == std::numeric_limits<int64_t>::max() ? "over 2^63" : fmt::format("{}", parameters),
        kMaxParameters);
  }
  return Status::ok();
}

Result<ModelConfig> model_config_from_json(const Json& json, const std::string& source) {
  ConfigReader reader(json, source);
  VLLM_RETURN_IF_ERROR(reader.status());
  VLLM_ASSIGN_OR_RETURN(const Architecture architecture, find_architecture(reader));

  ModelConfig model;
  model.source = source;
  describe_architecture(architecture, model);
  // A multimodal file keeps the language model's keys one level down.
  const bool nested = reader.is_object("text_config");
  ConfigReader text = nested ? reader.object("text_config") : reader;
  architecture.read(text, model);
  if (nested) {
    const auto outer = [&](const char* key) { return reader.has(key) && !reader.is_null(key); };
    if (!model.dtype) {
      const std::string key = outer("dtype") ? "dtype" : "torch_dtype";
      if (const auto name = reader.optional_text(key)) model.dtype = parse_float_dtype(*name);
    }
    if (outer("eos_token_id")) model.eos_token_ids = reader.integers("eos_token_id", {}, 0, kMaxPositions);
    if (!text.has("tie_word_embeddings")) {
      model.tie_word_embeddings = reader.boolean("tie_word_embeddings", model.tie_word_embeddings);
    }
  }
  if (const auto method = quantisation(reader)) {
    model.runnable = false;
    model.not_runnable_reason = fmt::format(
        "{}: its weights are quantised (quantization_config: {}), which this build cannot run; it runs "
        "bfloat16, "
        "float16 and float32 checkpoints and GGUF files",
        source, *method);
  }
  VLLM_RETURN_IF_ERROR(reader.status());
  VLLM_RETURN_IF_ERROR(check_model_config(model));
  return model;
}

bool is_gguf_path(const std::string& model) {
  constexpr std::string_view kSuffix = ".gguf";
  if (model.size() < kSuffix.size()) return false;
  return std::equal(kSuffix.begin(), kSuffix.end(), model.end() - static_cast<std::ptrdiff_t>(kSuffix.size()),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

Result<ModelConfig> load_model_config(const std::string& model) {
  if (is_gguf_path(model) && !is_directory(model)) {
    VLLM_ASSIGN_OR_RETURN(const GgufFile file, read_gguf(model));
    return model_config_from_gguf(file);
  }
  std::string path = model;
  if (is_directory(model)) {
    path = join_path(model, "config.json");
    if (!file_exists(path)) {
      return bad_input(
          "--model {}: the folder has no config.json; accepted is a folder with one, or a .gguf file", model);
    }
  } else if (!file_exists(model)) {
    return bad_input(
        "--model {}: there is no such folder or file; accepted is a folder with a config.json, or a .gguf "
        "file (models "
        "are not downloaded)",
        model);
  }
  VLLM_ASSIGN_OR_RETURN(const Json json, read_json_file(path));
  return model_config_from_json(json, path);
}

}  // namespace vllm
