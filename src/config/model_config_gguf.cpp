// A model's configuration from GGUF metadata: the keys "<architecture>.<name>" of the format's documentation.

#include <algorithm>

#include "config/model_config_check.h"

namespace vllm {
namespace {

// Typed look-ups that keep the first error, as ConfigReader does for JSON.
class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string source, std::string prefix)
      : file_(file), source_(std::move(source)), prefix_(std::move(prefix)) {}

  bool has(const std::string& name) const { return file_.metadata.count(prefix_ + name) > 0; }

  int64_t integer(const std::string& name, std::optional<int64_t> absent, int64_t low, int64_t high) {
    const std::string key = prefix_ + name;
    if (!has(name)) {
      if (!absent) fail(key, fmt::format("is absent; accepted is an integer from {} to {}", low, high));
      return absent.value_or(low);
    }
    const auto value = file_.integer(key);
    if (value && *value >= low && *value <= high) return *value;
    fail(key, fmt::format("is {}; accepted is an integer from {} to {}",
                          value ? fmt::format("{}", *value) : "not a 64-bit integer", low, high));
    return absent.value_or(low);
  }

  double number(const std::string& name, std::optional<double> absent, double low, double high) {
    const std::string key = prefix_ + name;
    if (!has(name)) {
      if (!absent) fail(key, fmt::format("is absent; accepted is a number from {} to {}", low, high));
      return absent.value_or(low);
    }
    const auto value = file_.number(key);
    if (value && *value >= low && *value <= high) return *value;
    fail(key, fmt::format("is {}; accepted is a number from {} to {}",
                          value ? fmt::format("{}", *value) : "not a number", low, high));
    return absent.value_or(low);
  }

  void fail(const std::string& key, const std::string& why) {
    if (status_.is_ok()) status_ = bad_input("{}: \"{}\" {}", source_, key, why);
  }
  const Status& status() const { return status_; }
  const std::string& prefix() const { return prefix_; }

 private:
  const GgufFile& file_;
  std::string source_, prefix_;
  Status status_;
};

Result<Architecture> find_architecture(const GgufFile& file, const std::string& source) {
  std::string known;
  const auto name = file.string("general.architecture");
  for (const Architecture& architecture : architectures()) {
    if (architecture.gguf_name.empty()) continue;
    if (name && *name == architecture.gguf_name) return architecture;
    known += (known.empty() ? "" : ", ") + architecture.gguf_name;
  }
  if (!name) return bad_input("{}: \"general.architecture\" is absent; accepted is one of {}", source, known);
  return refused("{}: \"general.architecture\" is {}, which is not known; known in GGUF files are {}", source,
                 *name, known);
}

void read_heads(GgufKeys& keys, ModelConfig& model) {
  model.num_heads = keys.integer("attention.head_count", std::nullopt, 1, kMaxHeads);
  model.num_kv_heads = keys.integer("attention.head_count_kv", model.num_heads, 1, kMaxHeads);
  if (model.num_heads % model.num_kv_heads != 0) {
    keys.fail(keys.prefix() + "attention.head_count_kv",
              fmt::format("is {}; accepted is a divisor of attention.head_count, which is {}",
                          model.num_kv_heads, model.num_heads));
  }
  if (!keys.has("attention.key_length") && !keys.has("rope.dimension_count") &&
      model.hidden_size % model.num_heads != 0) {
    keys.fail(keys.prefix() + "attention.key_length",
              fmt::format("is absent and embedding_length {} is no multiple of attention.head_count {}",
                          model.hidden_size, model.num_heads));
  }
  const int64_t even_share = std::max<int64_t>(1, model.hidden_size / model.num_heads);
  const int64_t rotated = keys.integer("rope.dimension_count", even_share, 1, kMaxHeadDim);
  model.head_dim = keys.integer("attention.key_length",
                                keys.has("rope.dimension_count") ? rotated : even_share, 1, kMaxHeadDim);
  model.v_head_dim = keys.integer("attention.value_length", model.head_dim, 1, kMaxHeadDim);
  if (model.v_head_dim != model.head_dim) {
    keys.fail(keys.prefix() + "attention.value_length",
              fmt::format("is {}; accepted is attention.key_length, which is {}", model.v_head_dim,
                          model.head_dim));
  }
  if (!keys.has("rope.dimension_count")) return;
  if (rotated > model.head_dim) {
    keys.fail(keys.prefix() + "rope.dimension_count",
              fmt::format("is {}; accepted is at most the {} elements of a head", rotated, model.head_dim));
  }
  model.rope.partial_rotary_factor = static_cast<double>(rotated) / static_cast<double>(model.head_dim);
}

// Llama 3's scaling has no keys: the converter writes its divisors as the tensor rope_freqs.weight, and
// whoever loads the weights applies them to the plain frequencies that are described here.
void read_rope(const GgufFile& file, GgufKeys& keys, ModelConfig& model) {
  model.rope.theta = keys.number("rope.freq_base", 10000.0, 1e-3, 1e15);
  const std::string type = file.string(keys.prefix() + "rope.scaling.type").value_or("none");
  if (type == "linear" || type == "yarn") {
    model.rope.type = type;
    model.rope.factor = keys.number("rope.scaling.factor", std::nullopt, 1e-3, 1e6);
    model.rope.original_max_position_embeddings =
        keys.integer("rope.scaling.original_context_length", model.max_position_embeddings, 1, kMaxPositions);
  } else if (type != "none") {
    keys.fail(keys.prefix() + "rope.scaling.type",
              fmt::format("is {}; accepted is none, linear or yarn", type));
  }
  model.rope_local = model.rope;
}

// The rows of the embedding decide; the list of tokens must not be longer.
void read_vocabulary(const GgufFile& file, GgufKeys& keys, ModelConfig& model) {
  int64_t tokens = 0;
  if (const auto it = file.metadata.find("tokenizer.ggml.tokens"); it != file.metadata.end()) {
    if (const auto* list = std::get_if<std::vector<std::string>>(&it->second)) {
      tokens = static_cast<int64_t>(list->size());
    }
  }
  int64_t rows = 0;
  if (const auto it = file.tensors.find("token_embd.weight");
      it != file.tensors.end() && it->second.shape.size() == 2) {
    rows = it->second.shape[0];
  }
  model.vocab_size = rows > 0 ? rows : tokens;
  if (model.vocab_size < 1 || model.vocab_size > kMaxVocabSize) {
    keys.fail("token_embd.weight", fmt::format("gives a vocabulary of {}; accepted are 1 to {} rows",
                                               model.vocab_size, kMaxVocabSize));
    model.vocab_size = 1;
  } else if (rows > 0 && tokens > rows) {
    keys.fail(
        "tokenizer.ggml.tokens",
        fmt::format("lists {} tokens; accepted are at most the {} rows of token_embd.weight", tokens, rows));
  }
  model.tie_word_embeddings = file.tensors.count("output.weight") == 0;
}

void read_special_tokens(const GgufFile& file, GgufKeys& keys, ModelConfig& model) {
  GgufKeys tokenizer(file, model.source, "tokenizer.ggml.");
  if (tokenizer.has("bos_token_id"))
    model.bos_token_id = tokenizer.integer("bos_token_id", 0, 0, kMaxPositions);
  if (tokenizer.has("eos_token_id"))
    model.eos_token_ids = {tokenizer.integer("eos_token_id", 0, 0, kMaxPositions)};
  if (!tokenizer.status().is_ok())
    keys.fail("tokenizer.ggml.eos_token_id", "or bos_token_id is not a token id");
}

}  // namespace

Result<ModelConfig> model_config_from_gguf(const GgufFile& file) {
  ModelConfig model;
  model.source = file.mapping ? file.mapping->path() : "GGUF file";
  model.from_gguf = true;
  VLLM_ASSIGN_OR_RETURN(const Architecture architecture, find_architecture(file, model.source));
  describe_architecture(architecture, model);

  GgufKeys keys(file, model.source, architecture.gguf_name + ".");
  if (keys.integer("expert_count", 0, 0, kMaxExperts) > 0) {
    return refused(
        "{}: \"{}.expert_count\" says that it is a mixture of experts, which is not read from GGUF files; "
        "accepted is a dense model, or the original's config.json for a plan",
        model.source, architecture.gguf_name);
  }
  model.hidden_size = keys.integer("embedding_length", std::nullopt, 1, kMaxHiddenSize);
  model.intermediate_size = keys.integer("feed_forward_length", std::nullopt, 1, kMaxIntermediateSize);
  model.num_layers = keys.integer("block_count", std::nullopt, 1, kMaxLayers);
  model.max_position_embeddings = keys.integer("context_length", std::nullopt, 1, kMaxPositions);
  model.norm_eps = keys.number("attention.layer_norm_rms_epsilon", std::nullopt, 0.0, 1.0);
  read_heads(keys, model);
  read_vocabulary(file, keys, model);
  read_rope(file, keys, model);
  read_special_tokens(file, keys, model);
  VLLM_RETURN_IF_ERROR(keys.status());
  model.layers.assign(static_cast<size_t>(model.num_layers), LayerConfig{});
  architecture.read_gguf(file, model);
  VLLM_RETURN_IF_ERROR(check_model_config(model));
  return model;
}

}  // namespace vllm
