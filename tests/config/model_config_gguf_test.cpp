// Model configurations from GGUF metadata, on files described in memory and on the default model.

#include "config/model_config.h"
#include "formats/tensor_file.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

GgufFile small(const std::string& architecture = "llama") {
  GgufFile file;
  file.metadata["general.architecture"] = architecture;
  const auto set = [&](const std::string& key, GgufValue value) {
    file.metadata[architecture + "." + key] = value;
  };
  set("embedding_length", uint64_t{64});
  set("feed_forward_length", uint64_t{128});
  set("block_count", uint64_t{3});
  set("context_length", uint64_t{512});
  set("attention.head_count", uint64_t{8});
  set("attention.head_count_kv", uint64_t{2});
  set("attention.layer_norm_rms_epsilon", 1e-5);
  file.tensors["token_embd.weight"] = {"token_embd.weight", DType::kF32, {100, 64}, nullptr, 25600};
  return file;
}

ModelConfig read(const GgufFile& file) {
  auto model = model_config_from_gguf(file);
  EXPECT_TRUE(model.is_ok()) << model.status().message();
  return model ? std::move(model).value() : ModelConfig{};
}

std::string error_of(const GgufFile& file) {
  const auto model = model_config_from_gguf(file);
  EXPECT_FALSE(model.is_ok());
  if (model) return "";
  EXPECT_EQ(exit_code(model.status()), 2);
  return model.status().message();
}

TEST(ModelConfigGguf, ReadsALlama) {
  GgufFile file = small();
  file.metadata["llama.rope.freq_base"] = 500000.0;
  file.metadata["tokenizer.ggml.bos_token_id"] = uint64_t{1};
  file.metadata["tokenizer.ggml.eos_token_id"] = uint64_t{2};
  const ModelConfig model = read(file);
  EXPECT_EQ(model.architecture, "LlamaForCausalLM");
  EXPECT_TRUE(model.runnable);
  EXPECT_TRUE(model.from_gguf);
  EXPECT_TRUE(model.rope_interleaved);
  EXPECT_EQ(model.head_dim, 8);
  EXPECT_EQ(model.v_head_dim, 8);
  EXPECT_EQ(model.vocab_size, 100);
  EXPECT_EQ(model.rope.theta, 500000.0);
  EXPECT_EQ(model.max_position_embeddings, 512);
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_TRUE(model.tie_word_embeddings);
  EXPECT_EQ(model.bos_token_id, 1);
  EXPECT_EQ(model.eos_token_ids, std::vector<int64_t>{2});
  EXPECT_EQ(model.layers.size(), 3U);
  EXPECT_FALSE(model.dtype.has_value());
}

TEST(ModelConfigGguf, AnOutputMatrixUntiesTheHead) {
  GgufFile file = small();
  file.tensors["output.weight"] = {"output.weight", DType::kF32, {100, 64}, nullptr, 25600};
  EXPECT_FALSE(read(file).tie_word_embeddings);
}

TEST(ModelConfigGguf, QwensRotateHalvesAndHaveTheirOwnExtras) {
  const ModelConfig qwen2 = read(small("qwen2"));
  EXPECT_FALSE(qwen2.rope_interleaved);
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_FALSE(qwen2.runnable);
  const ModelConfig qwen3 = read(small("qwen3"));
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.attention_bias || qwen3.rope_interleaved);
  EXPECT_EQ(qwen3.architecture, "Qwen3ForCausalLM");
}

TEST(ModelConfigGguf, HeadSizeFromKeyLengthThenRotatedDimensionsThenShare) {
  GgufFile file = small();
  file.metadata["llama.rope.dimension_count"] = uint64_t{16};
  EXPECT_EQ(read(file).head_dim, 16);
  file.metadata["llama.attention.key_length"] = uint64_t{32};
  EXPECT_EQ(read(file).head_dim, 32);
  EXPECT_EQ(read(file).rope.partial_rotary_factor, 0.5);
  file.metadata["llama.attention.value_length"] = uint64_t{16};
  EXPECT_THAT(error_of(file), HasSubstr("attention.value_length"));
}

TEST(ModelConfigGguf, BiasesAreThereWhenTheirTensorsAre) {
  GgufFile file = small();
  EXPECT_FALSE(read(file).attention_bias);
  file.tensors["blk.0.attn_q.bias"] = {"blk.0.attn_q.bias", DType::kF32, {64}, nullptr, 256};
  file.tensors["blk.0.ffn_up.bias"] = {"blk.0.ffn_up.bias", DType::kF32, {128}, nullptr, 512};
  const ModelConfig model = read(file);
  EXPECT_TRUE(model.attention_bias && model.mlp_bias);
  EXPECT_FALSE(model.attention_out_bias);
}

TEST(ModelConfigGguf, VocabularyFromRowsOrTokens) {
  GgufFile file = small();
  file.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>(90, "x");
  EXPECT_EQ(read(file).vocab_size, 100);
  file.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>(101, "x");
  EXPECT_THAT(error_of(file), HasSubstr("tokenizer.ggml.tokens"));
  file.tensors.clear();
  EXPECT_EQ(read(file).vocab_size, 101);
  file.metadata.erase("tokenizer.ggml.tokens");
  EXPECT_THAT(error_of(file), HasSubstr("vocabulary of 0"));
}

TEST(ModelConfigGguf, RotaryScaling) {
  GgufFile file = small();
  file.metadata["llama.rope.scaling.type"] = std::string("yarn");
  EXPECT_THAT(error_of(file), HasSubstr("rope.scaling.factor"));
  file.metadata["llama.rope.scaling.factor"] = 4.0;
  file.metadata["llama.rope.scaling.original_context_length"] = uint64_t{128};
  const ModelConfig model = read(file);
  EXPECT_EQ(model.rope.type, "yarn");
  EXPECT_EQ(model.rope.original_max_position_embeddings, 128);
  file.metadata["llama.rope.scaling.type"] = std::string("spiral");
  EXPECT_THAT(error_of(file), HasSubstr("spiral"));
}

TEST(ModelConfigGguf, HostileValuesNameFileAndKey) {
  for (const char* key : {"embedding_length", "feed_forward_length", "block_count", "context_length",
                          "attention.head_count", "attention.head_count_kv"}) {
    for (const GgufValue& value :
         {GgufValue(int64_t{-1}), GgufValue(uint64_t{0}), GgufValue(uint64_t{1} << 63),
          GgufValue(int64_t{1} << 62), GgufValue(std::string("64")), GgufValue(true)}) {
      GgufFile file = small();
      file.metadata[std::string("llama.") + key] = value;
      const std::string message = error_of(file);
      EXPECT_THAT(message, HasSubstr(std::string("\"llama.") + key + "\"")) << key << " " << value.index();
      EXPECT_THAT(message, HasSubstr("GGUF file"));
    }
  }
  GgufFile file = small();
  file.metadata["llama.attention.head_count_kv"] = uint64_t{3};
  EXPECT_THAT(error_of(file), HasSubstr("divisor"));
  file = small();
  file.metadata.erase("llama.block_count");
  EXPECT_THAT(error_of(file), HasSubstr("\"llama.block_count\" is absent"));
  file = small();
  file.metadata["llama.attention.head_count_kv"] = std::vector<int64_t>{2, 2, 2};
  EXPECT_THAT(error_of(file), HasSubstr("head_count_kv"));
  file = small();
  file.metadata["llama.expert_count"] = uint64_t{8};
  EXPECT_THAT(error_of(file), HasSubstr("mixture of experts"));
}

TEST(ModelConfigGguf, UnknownArchitectures) {
  GgufFile file = small();
  file.metadata["general.architecture"] = std::string("gpt2");
  EXPECT_THAT(error_of(file), HasSubstr("llama, qwen2, qwen3"));
  file.metadata.erase("general.architecture");
  EXPECT_THAT(error_of(file), HasSubstr("general.architecture"));
}

TEST(ModelConfigGguf, TheDefaultModel) {
  const auto path = testing::default_model_path();
  if (!path)
    GTEST_SKIP() << "models/SmolLM2-135M-Instruct.Q4_1.gguf is not there; scripts/setup puts it there";
  const auto model = load_model_config(*path);
  ASSERT_TRUE(model.is_ok()) << model.status().message();
  EXPECT_EQ(model->num_parameters(), 134515008);
  EXPECT_EQ(model->num_layers, 30);
  EXPECT_EQ(model->num_heads, 9);
  EXPECT_EQ(model->num_kv_heads, 3);
  EXPECT_EQ(model->head_dim, 64);
  EXPECT_EQ(model->vocab_size, 49152);
  EXPECT_EQ(model->max_position_embeddings, 8192);
  EXPECT_EQ(model->rope.theta, 100000.0);
  EXPECT_EQ(model->eos_token_ids, std::vector<int64_t>{2});
  EXPECT_TRUE(model->tie_word_embeddings && model->rope_interleaved && model->runnable);
}

}  // namespace
}  // namespace vllm
