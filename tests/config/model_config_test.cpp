// Every architecture against what the reference classes of transformers 4 and 5 resolve, and against the
// parameters that the reference models have (tests/golden/config/make.py).

#include "config/model_config.h"

#include <cmath>
#include <set>

#include "formats/json.h"

namespace vllm {
namespace {

std::string golden_path(const std::string& version, const std::string& name) {
  return std::string(VLLM_SOURCE_DIR) + "/tests/golden/config/" + version + "/" + name + ".json";
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json rope_json(const RopeConfig& rope) {
  Json out;
  out["type"] = rope.type;
  out["theta"] = rope.theta;
  out["partial_rotary_factor"] = rope.partial_rotary_factor;
  if (rope.type == "default") return out;
  out["factor"] = rope.factor;
  if (rope.original_max_position_embeddings != 0) {
    out["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  }
  if (rope.type == "llama3") {
    out["low_freq_factor"] = rope.low_freq_factor;
    out["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.type == "yarn") {
    out["beta_fast"] = rope.beta_fast;
    out["beta_slow"] = rope.beta_slow;
    out["mscale"] = optional_json(rope.mscale);
    out["mscale_all_dim"] = optional_json(rope.mscale_all_dim);
  }
  if (rope.type == "longrope") {
    out["short_factor"] = rope.short_factor;
    out["long_factor"] = rope.long_factor;
  }
  return out;
}

// The configuration in the goldens' words.
Json described(const ModelConfig& model) {
  Json out;
  out["vocab_size"] = model.vocab_size;
  out["hidden_size"] = model.hidden_size;
  out["intermediate_size"] = model.intermediate_size;
  out["num_layers"] = model.num_layers;
  out["num_heads"] = model.num_heads;
  out["num_kv_heads"] = model.num_kv_heads;
  out["head_dim"] = model.head_dim;
  out["v_head_dim"] = model.v_head_dim;
  out["max_position_embeddings"] = model.max_position_embeddings;
  out["norm_eps"] = model.norm_eps;
  out["hidden_act"] = model.hidden_act;
  out["tie_word_embeddings"] = model.tie_word_embeddings;
  out["bos_token_id"] = model.bos_token_id ? Json(*model.bos_token_id) : Json(nullptr);
  out["eos_token_ids"] = model.eos_token_ids;
  out["dtype"] = model.dtype ? Json(dtype_name(*model.dtype)) : Json(nullptr);
  out["rope"] = rope_json(model.rope);
  out["rope_local"] = rope_json(model.rope_local);
  Json windows = Json::array(), sparse = Json::array();
  for (const LayerConfig& layer : model.layers) {
    windows.push_back(layer.kind == LayerKind::kSliding ? layer.sliding_window : 0);
    sparse.push_back(layer.moe ? 1 : 0);
  }
  out["windows"] = windows;
  out["moe"] = nullptr;
  if (model.moe.num_experts > 0) {
    out["moe"] = {{"num_experts", model.moe.num_experts},
                  {"num_experts_per_tok", model.moe.num_experts_per_tok},
                  {"intermediate_size", model.moe.intermediate_size},
                  {"shared_intermediate_size", model.moe.shared_intermediate_size},
                  {"layers", sparse}};
  }
  out["mla"] = nullptr;
  if (model.mla.kv_lora_rank > 0) {
    out["mla"] = {{"kv_lora_rank", model.mla.kv_lora_rank},
                  {"q_lora_rank", model.mla.q_lora_rank},
                  {"qk_nope_head_dim", model.mla.qk_nope_head_dim},
                  {"qk_rope_head_dim", model.mla.qk_rope_head_dim},
                  {"v_head_dim", model.mla.v_head_dim}};
  }
  out["attention_scale"] = model.attention_scale;
  out["attn_logit_softcap"] = model.attn_logit_softcap;
  out["final_logit_softcap"] = model.final_logit_softcap;
  out["num_parameters"] = model.num_parameters();
  return out;
}

bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const double x = a.get<double>(), y = b.get<double>();
    return x == y || std::abs(x - y) <= 1e-12 * std::abs(x);
  }
  if (a.is_array() && b.is_array()) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!same(a[i], b[i])) return false;
    }
    return true;
  }
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a.items()) {
      if (!b.contains(key) || !same(value, b[key])) return false;
    }
    return true;
  }
  return a == b;
}

void check_goldens(const std::string& version, const std::string& name, const std::string& architecture) {
  const auto document = read_json_file(golden_path(version, name));
  ASSERT_TRUE(document.is_ok()) << document.status().message();
  int cases = 0;
  for (const auto& [title, golden] : (*document)["cases"].items()) {
    SCOPED_TRACE(version + " " + name + ": " + title);
    const auto model = model_config_from_json(golden["input"], title + "/config.json");
    ASSERT_TRUE(model.is_ok()) << model.status().message();
    EXPECT_EQ(model->architecture, architecture);
    EXPECT_EQ(static_cast<int64_t>(model->layers.size()), model->num_layers);
    const Json ours = described(*model);
    for (const auto& [key, value] : golden["expected"].items()) {
      EXPECT_TRUE(same(value, ours[key]))
          << key << ": reference " << value.dump() << ", ours " << ours[key].dump();
    }
    ++cases;
  }
  EXPECT_GE(cases, 4);
}

struct Golden {
  const char* file;
  const char* architecture;
};
constexpr Golden kGoldens[] = {
    {"llama", "LlamaForCausalLM"},
    {"mistral", "MistralForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"phi3", "Phi3ForCausalLM"},
    {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3", "Gemma3ForCausalLM"},
    {"qwen3_moe", "Qwen3MoeForCausalLM"},
    {"mixtral", "MixtralForCausalLM"},
    {"deepseek_v2", "DeepseekV2ForCausalLM"},
    {"deepseek_v3", "DeepseekV3ForCausalLM"},
};

TEST(ModelConfig, EqualsTheReferenceClassesOfTransformers5) {
  for (const Golden& golden : kGoldens) check_goldens("transformers-5", golden.file, golden.architecture);
}

TEST(ModelConfig, EqualsTheReferenceClassesOfTransformers4) {
  for (const Golden& golden : kGoldens) check_goldens("transformers-4", golden.file, golden.architecture);
}

TEST(ModelConfig, EveryRegisteredArchitectureHasGoldens) {
  std::set<std::string> golden;
  for (const Golden& g : kGoldens) golden.insert(g.architecture);
  std::set<std::string> registered;
  for (const ArchitectureInfo& info : known_architectures()) registered.insert(info.architecture);
  EXPECT_EQ(golden, registered);
}

ModelConfig read(const char* text) {
  const auto json = parse_json(text, "config.json");
  EXPECT_TRUE(json.is_ok()) << json.status().message();
  auto model = model_config_from_json(*json, "config.json");
  EXPECT_TRUE(model.is_ok()) << model.status().message();
  return model ? std::move(model).value() : ModelConfig{};
}

TEST(ModelConfig, OnlyLlamaRunsAndTheOthersSayWhyNot) {
  for (const ArchitectureInfo& info : known_architectures()) {
    SCOPED_TRACE(info.architecture);
    const ModelConfig model = read(fmt::format(R"({{"architectures": ["{}"]}})", info.architecture).c_str());
    EXPECT_EQ(model.runnable, info.architecture == "LlamaForCausalLM");
    EXPECT_EQ(model.runnable, info.runnable);
    if (!model.runnable) {
      EXPECT_THAT(model.not_runnable_reason, ::testing::HasSubstr(info.architecture));
      EXPECT_THAT(model.not_runnable_reason, ::testing::HasSubstr("LlamaForCausalLM"));
    }
    EXPECT_FALSE(model.from_gguf);
  }
}

TEST(ModelConfig, ModelTypeDecidesWhereNoArchitectureIsNamed) {
  for (const ArchitectureInfo& info : known_architectures()) {
    EXPECT_EQ(read(fmt::format(R"({{"model_type": "{}"}})", info.model_type).c_str()).architecture,
              info.architecture);
  }
  EXPECT_EQ(read(R"({"architectures": null, "model_type": "gemma3"})").architecture, "Gemma3ForCausalLM");
  EXPECT_EQ(read(R"({"architectures": [], "model_type": "llama"})").architecture, "LlamaForCausalLM");
}

TEST(ModelConfig, QuantisedCheckpointsArePlannedButNotRun) {
  const ModelConfig model =
      read(R"({"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "awq"}})");
  EXPECT_FALSE(model.runnable);
  EXPECT_THAT(model.not_runnable_reason, ::testing::HasSubstr("awq"));
}

TEST(ModelConfig, YarnStretchesAnOlderLengthOnlyWhenTheOriginalIsGiven) {
  EXPECT_EQ(read(R"({"model_type": "qwen3", "max_position_embeddings": 40960, "rope_scaling":
      {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}})")
                .max_position_embeddings,
            131072);
  EXPECT_EQ(read(R"({"model_type": "qwen3", "max_position_embeddings": 40960, "rope_scaling":
      {"type": "yarn", "factor": 4.0}})")
                .max_position_embeddings,
            40960);
}

TEST(ModelConfig, RopeParametersNestedByLayerTypeGiveSlidingLayersTheirOwn) {
  const ModelConfig model =
      read(R"({"model_type": "qwen2", "num_hidden_layers": 3, "use_sliding_window": true,
      "sliding_window": 128, "max_window_layers": 2, "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 1000000},
        "sliding_attention": {"rope_type": "linear", "rope_theta": 10000, "factor": 2}}})");
  EXPECT_EQ(model.rope.theta, 1e6);
  EXPECT_EQ(model.rope_local.theta, 1e4);
  EXPECT_EQ(model.rope_local.type, "linear");
  EXPECT_FALSE(model.layers[1].local_rope);
  EXPECT_TRUE(model.layers[2].local_rope);
}

TEST(ModelConfig, GemmaSetsWhatItsClassFixes) {
  const ModelConfig model =
      read(R"({"model_type": "gemma3_text", "hidden_size": 64, "num_attention_heads": 4})");
  EXPECT_TRUE(model.qk_norm && model.norm_plus_one && model.post_norms);
  EXPECT_EQ(model.embedding_scale, 8.0);
  EXPECT_TRUE(model.layers[0].local_rope);
  EXPECT_FALSE(model.layers[5].local_rope);
}

TEST(ModelConfig, DeepseekRotatesNeighbours) {
  EXPECT_TRUE(read(R"({"model_type": "deepseek_v2"})").rope_interleaved);
  EXPECT_TRUE(read(R"({"model_type": "deepseek_v3"})").rope_interleaved);
  EXPECT_FALSE(read(R"({"model_type": "llama"})").rope_interleaved);
}

}  // namespace
}  // namespace vllm
