#include "config/architectures/common.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/printable.h"

namespace vllm {
namespace {

constexpr double kLargestTheta = 1e15;
constexpr double kLargestFactor = 1e6;

std::string read_activation(ConfigReader& reader, const CommonDefaults& defaults) {
  const std::string name = reader.text(defaults.activation_key, defaults.activation);
  if (name == "swish") return "silu";
  static constexpr std::array kKnown = {"silu", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu"};
  if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) {
    reader.fail(defaults.activation_key,
                fmt::format("is \"{}\"; accepted is silu, gelu, gelu_pytorch_tanh, gelu_new or relu",
                            printable(name)));
  }
  return name;
}

std::optional<DType> read_dtype(ConfigReader& reader) {
  const std::string key = reader.has("dtype") && !reader.is_null("dtype") ? "dtype" : "torch_dtype";
  const auto name = reader.optional_text(key);
  if (!name) return std::nullopt;
  const auto dtype = parse_float_dtype(*name);
  if (!dtype)
    reader.fail(key, fmt::format("is \"{}\"; accepted is bfloat16, float16 or float32", printable(*name)));
  return dtype;
}

// One set of parameters; `reader` stands at the object that holds them.
RopeConfig read_rope_set(ConfigReader& reader, double theta, double partial, int64_t original_length,
                         bool phi3) {
  RopeConfig rope;
  rope.theta = reader.number("rope_theta", theta, 1e-3, kLargestTheta);
  rope.partial_rotary_factor = reader.number("partial_rotary_factor", partial, 1e-6, 1.0);
  const std::string type_key = reader.has("rope_type") ? "rope_type" : "type";
  rope.type = reader.text(type_key, "default");
  if (rope.type == "su" || (phi3 && rope.type == "yarn")) rope.type = "longrope";
  static constexpr std::array kKnown = {"default", "linear", "dynamic", "yarn", "llama3", "longrope"};
  if (std::find(kKnown.begin(), kKnown.end(), rope.type) == kKnown.end()) {
    reader.fail(type_key,
                fmt::format("is \"{}\"; accepted is default, linear, dynamic, yarn, llama3 or longrope",
                            printable(rope.type)));
    rope.type = "default";
  }
  if (rope.type == "default") return rope;

  const auto required = [&](const char* key) {
    if (!reader.has(key)) reader.fail(key, fmt::format("is absent; rope type {} needs it", rope.type));
  };
  if (rope.type != "longrope") required("factor");
  rope.factor = reader.optional_number("factor", 1.0, 1e-3, kLargestFactor).value_or(1.0);
  rope.attention_factor = reader.optional_number("attention_factor", std::nullopt, 0.0, kLargestFactor);
  if (rope.type == "linear" || rope.type == "dynamic") return rope;

  rope.original_max_position_embeddings =
      phi3 ? original_length
           : reader.optional_integer("original_max_position_embeddings", original_length, 1, kMaxPositions)
                 .value_or(original_length);
  if (rope.type == "llama3") {
    required("low_freq_factor");
    required("high_freq_factor");
    rope.low_freq_factor = reader.number("low_freq_factor", 1.0, 0.0, kLargestFactor);
    rope.high_freq_factor = reader.number("high_freq_factor", 4.0, 0.0, kLargestFactor);
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      reader.fail("high_freq_factor", fmt::format("is {}; accepted is more than low_freq_factor, which is {}",
                                                  rope.high_freq_factor, rope.low_freq_factor));
    }
  } else if (rope.type == "yarn") {
    rope.beta_fast = reader.optional_number("beta_fast", 32.0, 0.0, kLargestFactor).value_or(32.0);
    rope.beta_slow = reader.optional_number("beta_slow", 1.0, 0.0, kLargestFactor).value_or(1.0);
    rope.mscale = reader.optional_number("mscale", std::nullopt, 0.0, kLargestFactor);
    rope.mscale_all_dim = reader.optional_number("mscale_all_dim", std::nullopt, 0.0, kLargestFactor);
    if (!reader.boolean("truncate", true)) reader.fail("truncate", "is false; accepted is true");
  } else {
    required("short_factor");
    required("long_factor");
    rope.short_factor = reader.numbers("short_factor", 1e-9, 1e9);
    rope.long_factor = reader.numbers("long_factor", 1e-9, 1e9);
  }
  return rope;
}

void check_longrope(ConfigReader& reader, const RopeConfig& rope, const ModelConfig& model) {
  if (rope.type != "longrope") return;
  const int64_t head_dim = model.mla.kv_lora_rank > 0 ? model.mla.qk_rope_head_dim : model.head_dim;
  const auto rotary = static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor);
  for (const auto* key : {"short_factor", "long_factor"}) {
    const auto& factors = std::string_view(key) == "short_factor" ? rope.short_factor : rope.long_factor;
    if (static_cast<int64_t>(factors.size()) == rotary / 2) continue;
    reader.fail(key, fmt::format("has {} numbers; accepted is {}, half of the {} rotated elements of a head",
                                 factors.size(), rotary / 2, rotary));
  }
}

// A file that stretches its positions by yarn may still say the length before it.
void stretch_length(ModelConfig& model, bool original_given) {
  if (model.rope.type != "yarn" || !original_given) return;
  const double stretched =
      model.rope.factor * static_cast<double>(model.rope.original_max_position_embeddings);
  const double longest = std::min(stretched, static_cast<double>(kMaxPositions));
  model.max_position_embeddings = std::max(model.max_position_embeddings, static_cast<int64_t>(longest));
}

bool non_empty_object(ConfigReader& reader, const std::string& key) {
  if (!reader.has(key) || reader.is_null(key)) return false;
  if (!reader.is_object(key)) reader.object(key);  // keeps the error
  return reader.is_object(key);
}

}  // namespace

void read_common(ConfigReader& reader, const CommonDefaults& defaults, ModelConfig& model) {
  model.vocab_size = reader.integer("vocab_size", defaults.vocab_size, 1, kMaxVocabSize);
  model.hidden_size = reader.integer("hidden_size", defaults.hidden_size, 1, kMaxHiddenSize);
  model.intermediate_size =
      reader.integer("intermediate_size", defaults.intermediate_size, 1, kMaxIntermediateSize);
  model.num_layers = reader.integer("num_hidden_layers", defaults.num_layers, 1, kMaxLayers);
  model.num_heads = reader.integer("num_attention_heads", defaults.num_heads, 1, kMaxHeads);
  model.num_kv_heads = reader.optional_integer("num_key_value_heads", defaults.num_kv_heads, 1, kMaxHeads)
                           .value_or(model.num_heads);
  if (model.num_heads % model.num_kv_heads != 0) {
    reader.fail(
        "num_key_value_heads",
        fmt::format("is {}{}; accepted is a divisor of num_attention_heads, which is {}", model.num_kv_heads,
                    reader.has("num_key_value_heads") ? "" : " by default", model.num_heads));
  }

  const auto head_dim = reader.optional_integer("head_dim", defaults.head_dim, 1, kMaxHeadDim);
  if (!head_dim && model.hidden_size % model.num_heads != 0) {
    reader.fail("head_dim",
                fmt::format("is absent and hidden_size {} is no multiple of num_attention_heads {}",
                            model.hidden_size, model.num_heads));
  }
  model.head_dim = head_dim.value_or(std::max<int64_t>(1, model.hidden_size / model.num_heads));
  model.v_head_dim = model.head_dim;

  model.max_position_embeddings =
      reader.integer("max_position_embeddings", defaults.max_position_embeddings, 1, kMaxPositions);
  model.norm_eps = reader.number("rms_norm_eps", defaults.norm_eps, 0.0, 1.0);
  model.hidden_act = read_activation(reader, defaults);
  model.tie_word_embeddings = reader.boolean("tie_word_embeddings", defaults.tie_word_embeddings);
  model.dtype = read_dtype(reader);
  model.bos_token_id = reader.optional_integer("bos_token_id", defaults.bos_token_id, 0, kMaxPositions);
  std::vector<int64_t> eos;
  if (defaults.eos_token_id) eos.push_back(*defaults.eos_token_id);
  model.eos_token_ids = reader.integers("eos_token_id", eos, 0, kMaxPositions);
}

void read_rope(ConfigReader& reader, const RopeDefaults& defaults, ModelConfig& model) {
  const double theta = reader.number("rope_theta", defaults.theta, 1e-3, kLargestTheta);
  const double partial = reader.number("partial_rotary_factor", 1.0, 1e-6, 1.0);
  const int64_t original = defaults.phi3
                               ? reader.integer("original_max_position_embeddings", 4096, 1, kMaxPositions)
                               : model.max_position_embeddings;
  const bool scaling = non_empty_object(reader, "rope_scaling");
  non_empty_object(reader, "rope_parameters");
  ConfigReader parameters = reader.object(scaling ? "rope_scaling" : "rope_parameters");

  const bool nested = parameters.is_object("full_attention") || parameters.is_object("sliding_attention");
  ConfigReader full = nested ? parameters.object("full_attention") : parameters;
  model.rope = read_rope_set(full, theta, partial, original, defaults.phi3);
  check_longrope(full, model.rope, model);
  stretch_length(model, full.has("original_max_position_embeddings"));
  model.rope_local = model.rope;
  if (!nested) return;
  ConfigReader sliding = parameters.object("sliding_attention");
  model.rope_local = read_rope_set(sliding, theta, partial, original, defaults.phi3);
  check_longrope(sliding, model.rope_local, model);
  for (LayerConfig& layer : model.layers) layer.local_rope = layer.kind == LayerKind::kSliding;
}

void read_rope_by_layer_type(ConfigReader& reader, double full_theta, double sliding_theta,
                             ModelConfig& model) {
  const double theta = reader.number("rope_theta", full_theta, 1e-3, kLargestTheta);
  const double local_theta = reader.number("rope_local_base_freq", sliding_theta, 1e-3, kLargestTheta);
  const int64_t original = model.max_position_embeddings;
  non_empty_object(reader, "rope_parameters");
  ConfigReader parameters = reader.object("rope_parameters");
  if (parameters.has("rope_type") || parameters.has("rope_theta")) {
    reader.fail("rope_parameters",
                "is one set; accepted is one under \"full_attention\" and one under "
                "\"sliding_attention\"");
  }
  const bool scaling = non_empty_object(reader, "rope_scaling");
  ConfigReader full = scaling ? reader.object("rope_scaling") : parameters.object("full_attention");
  model.rope = read_rope_set(full, theta, 1.0, original, false);
  check_longrope(full, model.rope, model);
  stretch_length(model, full.has("original_max_position_embeddings"));
  ConfigReader sliding = parameters.object("sliding_attention");
  model.rope_local = read_rope_set(sliding, local_theta, 1.0, original, false);
  check_longrope(sliding, model.rope_local, model);
  for (LayerConfig& layer : model.layers) layer.local_rope = layer.kind == LayerKind::kSliding;
}

std::optional<int64_t> read_window(ConfigReader& reader, std::optional<int64_t> absent) {
  return reader.optional_integer("sliding_window", absent, 1, kMaxPositions);
}

void set_uniform_layers(ModelConfig& model, std::optional<int64_t> window) {
  LayerConfig layer;
  layer.kind = window ? LayerKind::kSliding : LayerKind::kFull;
  layer.sliding_window = window.value_or(0);
  model.layers.assign(static_cast<size_t>(model.num_layers), layer);
}

bool read_listed_layer_types(ConfigReader& reader, std::optional<int64_t> window, ModelConfig& model) {
  const auto types = reader.texts("layer_types");
  if (!types) return false;
  set_uniform_layers(model, std::nullopt);
  if (types->size() != model.layers.size()) {
    reader.fail("layer_types", fmt::format("has {} entries; accepted is one for each of the {} layers",
                                           types->size(), model.layers.size()));
    return true;
  }
  for (size_t i = 0; i < types->size(); ++i) {
    const std::string& type = (*types)[i];
    if (type == "full_attention") continue;
    if (type != "sliding_attention") {
      reader.fail("layer_types", fmt::format("names \"{}\" for layer {}; accepted is full_attention or "
                                             "sliding_attention",
                                             type, i));
      return true;
    }
    if (!window) {
      reader.fail("layer_types", fmt::format("makes layer {} sliding, but there is no sliding_window", i));
      return true;
    }
    model.layers[i].kind = LayerKind::kSliding;
    model.layers[i].sliding_window = *window;
  }
  return true;
}

double yarn_attention_scale(const RopeConfig& rope, int64_t head_dim) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  if (rope.type != "yarn" || rope.mscale_all_dim.value_or(0.0) == 0.0 || rope.factor <= 1.0) return scale;
  const double mscale = 0.1 * *rope.mscale_all_dim * std::log(rope.factor) + 1.0;
  return scale * mscale * mscale;
}

void read_deepseek(ConfigReader& reader, const DeepseekDefaults& defaults, ModelConfig& model) {
  model.mla.kv_lora_rank = reader.integer("kv_lora_rank", 512, 1, kMaxHiddenSize);
  model.mla.q_lora_rank = reader.optional_integer("q_lora_rank", 1536, 1, kMaxHiddenSize).value_or(0);
  model.mla.qk_nope_head_dim = reader.integer("qk_nope_head_dim", 128, 1, kMaxHeadDim);
  model.mla.qk_rope_head_dim = reader.integer("qk_rope_head_dim", 64, 1, kMaxHeadDim);
  model.mla.v_head_dim = reader.integer("v_head_dim", 128, 1, kMaxHeadDim);
  model.head_dim = model.mla.qk_nope_head_dim + model.mla.qk_rope_head_dim;
  model.v_head_dim = model.mla.v_head_dim;
  model.attention_bias = model.attention_out_bias = reader.boolean("attention_bias", false);
  model.rope_interleaved = reader.boolean("rope_interleave", true);

  const std::string experts_key = reader.has("n_routed_experts")    ? "n_routed_experts"
                                  : reader.has("num_local_experts") ? "num_local_experts"
                                                                    : "num_experts";
  model.moe.num_experts = reader.integer(experts_key, defaults.num_experts, 1, kMaxExperts);
  model.moe.num_experts_per_tok =
      reader.optional_integer("num_experts_per_tok", defaults.num_experts_per_tok, 1, model.moe.num_experts)
          .value_or(0);
  model.moe.intermediate_size =
      reader.integer("moe_intermediate_size", defaults.moe_intermediate_size, 1, kMaxIntermediateSize);
  const int64_t shared =
      reader.optional_integer("n_shared_experts", defaults.num_shared_experts, 0, kMaxExperts).value_or(0);
  model.moe.shared_intermediate_size = shared * model.moe.intermediate_size;

  const int64_t first_dense = reader.integer("first_k_dense_replace", defaults.first_dense, 0, kMaxLayers);
  const int64_t every = reader.integer("moe_layer_freq", 1, 1, kMaxLayers);
  set_uniform_layers(model, std::nullopt);
  for (int64_t i = 0; i < model.num_layers; ++i) {
    LayerConfig& layer = model.layers[static_cast<size_t>(i)];
    layer.kind = LayerKind::kMla;
    layer.moe = i >= first_dense && i % every == 0;
  }
}

}  // namespace vllm
