// Hostile and mistaken configurations: one sentence that names file, key, value and what is accepted, exit
// code 2.

#include <fstream>

#include "config/model_config.h"
#include "formats/json.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

Status error_of(const std::string& text) {
  const auto json = parse_json(text, "dir/config.json");
  if (!json) return json.status();
  const auto model = model_config_from_json(*json, "dir/config.json");
  if (!model) return model.status();
  return Status::ok();
}

void expect_error(const std::string& text, const std::vector<std::string>& parts) {
  SCOPED_TRACE(text);
  const Status status = error_of(text);
  ASSERT_FALSE(status.is_ok());
  EXPECT_EQ(exit_code(status), 2);
  EXPECT_THAT(status.message(), HasSubstr("dir/config.json"));
  for (const std::string& part : parts) EXPECT_THAT(status.message(), HasSubstr(part));
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

// {"model_type": <type>, <rest>}
std::string config(const std::string& type, const std::string& rest) {
  return fmt::format(R"({{"model_type": "{}", {}}})", type, rest);
}

TEST(ModelConfigErrors, SizesThatAreNotSizes) {
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const char* value : {"0", "-1", "4611686018427387904", "9223372036854775807", "18446744073709551615",
                              "1e30", "\"4096\"", "4096.5", "true", "[1]", "{}"}) {
      expect_error(config("llama", fmt::format("\"{}\": {}", key, value)),
                   {fmt::format("\"{}\"", key), "accepted is an integer from 1 to "});
    }
  }
  expect_error(config("llama", R"("hidden_size": null)"), {"\"hidden_size\"", "null"});
}

TEST(ModelConfigErrors, NumbersAndFlagsOfTheWrongKind) {
  expect_error(config("llama", R"("rms_norm_eps": "small")"),
               {"\"rms_norm_eps\"", "\"small\"", "a number from 0 to 1"});
  expect_error(config("llama", R"("rms_norm_eps": -1e-6)"), {"\"rms_norm_eps\"", "accepted is a number"});
  expect_error(config("llama", R"("rope_theta": 0)"), {"\"rope_theta\"", "accepted is a number"});
  expect_error(config("llama", R"("tie_word_embeddings": "yes")"),
               {"\"tie_word_embeddings\"", "true or false"});
  expect_error(config("llama", R"("hidden_act": "mish")"), {"\"hidden_act\"", "mish", "silu"});
  expect_error(config("llama", R"("torch_dtype": "int3")"), {"\"torch_dtype\"", "int3", "bfloat16"});
  expect_error(config("llama", R"("dtype": 16)"), {"\"dtype\"", "a string"});
  expect_error(config("llama", R"("eos_token_id": [1, -2])"), {"\"eos_token_id\"", "-2"});
  expect_error(config("llama", R"("eos_token_id": "</s>")"), {"\"eos_token_id\"", "</s>"});
}

TEST(ModelConfigErrors, HeadsThatDoNotDivide) {
  expect_error(config("llama", R"("num_attention_heads": 32, "num_key_value_heads": 5)"),
               {"\"num_key_value_heads\"", "is 5", "divisor", "32"});
  expect_error(config("qwen2", R"("num_attention_heads": 14, "hidden_size": 896)"),
               {"\"num_key_value_heads\"", "is 32 by default", "14"});
  expect_error(config("llama", R"("num_attention_heads": 3, "hidden_size": 100)"),
               {"\"head_dim\"", "100", "3"});
  expect_error(config("llama", R"("head_dim": 65)"), {"65", "even"});
}

TEST(ModelConfigErrors, LayerTypes) {
  const std::string sliding = R"("num_hidden_layers": 2, "use_sliding_window": true, "sliding_window": 8, )";
  expect_error(config("qwen3", sliding + R"("layer_types": ["full_attention"])"),
               {"\"layer_types\"", "has 1 entries", "2 layers"});
  expect_error(config("qwen3", sliding + R"("layer_types": ["full_attention", "mamba"])"),
               {"\"layer_types\"", "mamba", "layer 1", "full_attention or sliding_attention"});
  expect_error(config("qwen3", sliding + R"("layer_types": [1, 2])"),
               {"\"layer_types\"", "a list of strings"});
  expect_error(config("qwen3", sliding + R"("layer_types": "full_attention")"), {"\"layer_types\""});
  expect_error(config("gemma2", R"("num_hidden_layers": 2, "sliding_window": null,
      "layer_types": ["full_attention", "sliding_attention"])"),
               {"\"layer_types\"", "layer 1", "sliding_window"});
  expect_error(config("mistral", R"("sliding_window": 0)"), {"\"sliding_window\"", "is 0"});
  expect_error(config("gemma3_text", R"("sliding_window_pattern": 0)"),
               {"\"sliding_window_pattern\"", "is 0"});
}

TEST(ModelConfigErrors, RotaryEmbeddings) {
  expect_error(config("llama", R"("rope_scaling": {"type": "spiral"})"),
               {"\"rope_scaling.type\"", "spiral", "llama3"});
  expect_error(config("llama", R"("rope_parameters": {"rope_type": "linear"})"),
               {"\"rope_parameters.factor\"", "absent", "linear"});
  expect_error(config("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 8})"),
               {"low_freq_factor"});
  expect_error(config("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
      "high_freq_factor": 1})"),
               {"\"rope_scaling.high_freq_factor\"", "low_freq_factor"});
  expect_error(config("llama", R"("rope_scaling": [1])"), {"\"rope_scaling\"", "an object"});
  expect_error(
      config("phi3", R"("rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]})"),
      {"\"rope_scaling.short_factor\"", "has 1 numbers", "48"});
  expect_error(config("gemma3_text", R"("rope_parameters": {"rope_type": "default"})"),
               {"\"rope_parameters\"", "full_attention"});
  expect_error(config("gemma3_text", R"("rope_parameters": {"full_attention": {"rope_theta": "x"}})"),
               {"\"rope_parameters.full_attention.rope_theta\""});
}

TEST(ModelConfigErrors, ExpertsAndLatents) {
  expect_error(config("mixtral", R"("num_local_experts": 0)"), {"\"num_local_experts\""});
  expect_error(config("mixtral", R"("num_experts_per_tok": 9)"), {"\"num_experts_per_tok\"", "from 1 to 8"});
  expect_error(config("qwen3_moe", R"("decoder_sparse_step": 0)"), {"\"decoder_sparse_step\""});
  expect_error(config("deepseek_v3", R"("kv_lora_rank": -512)"), {"\"kv_lora_rank\""});
  expect_error(config("deepseek_v2", R"("qk_rope_head_dim": 63)"), {"63", "even"});
  expect_error(config("gemma3_text", R"("use_bidirectional_attention": true)"),
               {"\"use_bidirectional_attention\""});
}

TEST(ModelConfigErrors, ShapesWhoseProductNobodyHas) {
  expect_error(
      config("mixtral", R"("num_hidden_layers": 4096, "hidden_size": 1048576, "intermediate_size": 4194304,
      "num_local_experts": 65536, "num_attention_heads": 16384, "head_dim": 16384, "num_key_value_heads": 16384)"),
      {"parameters", "accepted are at most 1125899906842624"});
}

TEST(ModelConfigErrors, UnknownModelsListTheKnownOnes) {
  for (const char* text : {R"({"architectures": ["GPT2LMHeadModel"]})", R"({"model_type": "gpt2"})"}) {
    expect_error(text,
                 {text[2] == 'a' ? "GPT2LMHeadModel" : "gpt2", "LlamaForCausalLM", "DeepseekV3ForCausalLM"});
  }
  expect_error("{}", {"architectures", "model_type", "LlamaForCausalLM"});
  expect_error(R"({"architectures": "LlamaForCausalLM"})", {"\"architectures\"", "a list of strings"});
  expect_error("[1, 2]", {"not a JSON object"});
}

TEST(ModelConfigErrors, TheTextConfigOfAMultimodalFileIsNamed) {
  expect_error(R"({"model_type": "gemma3", "text_config": {"hidden_size": 0}})",
               {"\"text_config.hidden_size\""});
}

TEST(ModelConfigErrors, FilesThatAreNotThere) {
  const testing::TempDir dir;
  const auto message = [](const std::string& path) {
    const auto model = load_model_config(path);
    EXPECT_FALSE(model.is_ok());
    EXPECT_EQ(exit_code(model.status()), 2);
    return model ? std::string() : model.status().message();
  };
  EXPECT_THAT(message(dir / "nothing"), HasSubstr("no such folder or file"));
  EXPECT_THAT(message(dir / "nothing"), HasSubstr("--model"));
  EXPECT_THAT(message(dir.path()), HasSubstr("no config.json"));
  EXPECT_THAT(message(dir / "nothing.gguf"), HasSubstr("nothing.gguf"));
  testing::write_text(dir / "config.json", "{\"model_type\": ");
  EXPECT_THAT(message(dir.path()), HasSubstr("config.json"));
  testing::write_text(dir / "config.json", R"({"model_type": "llama", "num_hidden_layers": 3})");
  EXPECT_EQ(load_model_config(dir.path())->num_layers, 3);
  EXPECT_EQ(load_model_config(dir / "config.json")->source, dir / "config.json");
}

TEST(ModelConfigErrors, GgufPathsAreKnownByTheirEnding) {
  EXPECT_TRUE(is_gguf_path("a/b.gguf"));
  EXPECT_TRUE(is_gguf_path("B.GGUF"));
  EXPECT_FALSE(is_gguf_path("b.gguf.json"));
  EXPECT_FALSE(is_gguf_path("gguf"));
}

}  // namespace
}  // namespace vllm
