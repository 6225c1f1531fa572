#include "model/weights.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/file.h"
#include "formats/json.h"
#include "model/float_convert.h"
#include "support/plan_driver.h"
#include "support/reference.h"

namespace vllm::testing {
namespace {

Result<ModelWeights> load(const std::string& path) {
  const auto model = load_model_config(path);
  if (!model.is_ok()) return model.status();
  return load_weights(path, *model, LoadFormat::kAuto, DType::kF32, 0);
}

void expect_error(const Result<ModelWeights>& result, StatusCode code, const std::string& message) {
  ASSERT_FALSE(result.is_ok()) << message;
  EXPECT_EQ(result.status().code(), code) << result.status().message();
  EXPECT_EQ(result.status().message(), message);
}

// ---- safetensors, written by the test
// ---------------------------------------------------------------------------

struct Tensor {
  std::string dtype;
  std::vector<int64_t> shape;
};

// A checkpoint of zeros in one file; `model` decides which tensors a correct one has.
class Checkpoint {
 public:
  Checkpoint() {
    const int64_t h = 16, inner = 24, vocab = 10;
    tensors_["model.embed_tokens.weight"] = {"F32", {vocab, h}};
    tensors_["lm_head.weight"] = {"F32", {vocab, h}};
    tensors_["model.norm.weight"] = {"F32", {h}};
    const std::string layer = "model.layers.0.";
    tensors_[layer + "input_layernorm.weight"] = {"F32", {h}};
    tensors_[layer + "post_attention_layernorm.weight"] = {"F32", {h}};
    tensors_[layer + "self_attn.q_proj.weight"] = {"F32", {h, h}};
    tensors_[layer + "self_attn.k_proj.weight"] = {"F32", {h / 2, h}};
    tensors_[layer + "self_attn.v_proj.weight"] = {"F32", {h / 2, h}};
    tensors_[layer + "self_attn.o_proj.weight"] = {"F32", {h, h}};
    tensors_[layer + "mlp.gate_proj.weight"] = {"F32", {inner, h}};
    tensors_[layer + "mlp.up_proj.weight"] = {"F32", {inner, h}};
    tensors_[layer + "mlp.down_proj.weight"] = {"F32", {h, inner}};
  }
  std::map<std::string, Tensor>& tensors() { return tensors_; }
  void set_config(const std::string& key, const Json& value) { config_[key] = value; }

  std::string write() {
    write_text(dir_ / "config.json", config_.dump());
    Json header;
    int64_t offset = 0;
    for (const auto& [name, tensor] : tensors_) {
      int64_t bytes = tensor.dtype == "F32"       ? 4
                      : tensor.dtype == "F64"     ? 8
                      : tensor.dtype == "F8_E4M3" ? 1
                                                  : 2;
      for (const int64_t d : tensor.shape) bytes *= d;
      header[name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
      offset += bytes;
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    file += text + std::string(static_cast<size_t>(offset), '\0');
    write_text(dir_ / "model.safetensors", file);
    return dir_.path();
  }
  std::string file() const { return dir_ / "model.safetensors"; }
  std::string config() const { return dir_ / "config.json"; }
  const TempDir& dir() const { return dir_; }

 private:
  TempDir dir_;
  std::map<std::string, Tensor> tensors_;
  Json config_ = {{"architectures", {"LlamaForCausalLM"}},
                  {"model_type", "llama"},
                  {"vocab_size", 10},
                  {"hidden_size", 16},
                  {"intermediate_size", 24},
                  {"num_hidden_layers", 1},
                  {"num_attention_heads", 4},
                  {"num_key_value_heads", 2},
                  {"tie_word_embeddings", false}};
};

TEST(SafetensorsWeightsTest, ParametersPointIntoTheFile) {
  Checkpoint checkpoint;
  const auto weights = load(checkpoint.write());
  ASSERT_TRUE(weights.is_ok()) << weights.status().message();
  EXPECT_EQ(weights->layers.size(), 1u);
  EXPECT_EQ(weights->layers[0].k.rows, 8);
  EXPECT_EQ(weights->layers[0].k.cols, 16);
  EXPECT_EQ(weights->layers[0].k.row_bytes, 64);
  EXPECT_EQ(weights->layers[0].q_bias.data, nullptr);
  EXPECT_EQ(weights->rope_divisors.data, nullptr);
  EXPECT_NE(weights->head.data, weights->embedding.data);
  int64_t elements = 10 * 16 * 2 + 16 * 3 + 16 * 16 * 2 + 8 * 16 * 2 + 24 * 16 * 3;
  EXPECT_EQ(weights->total_bytes, 4 * elements);
}

TEST(SafetensorsWeightsTest, AMissingTensor) {
  Checkpoint checkpoint;
  checkpoint.tensors().erase("model.layers.0.self_attn.k_proj.weight");
  const std::string dir = checkpoint.write();
  expect_error(
      load(dir), StatusCode::kBadInput,
      fmt::format("'{}' has no tensor 'model.layers.0.self_attn.k_proj.weight', which the model described by "
                  "'{}' needs with shape [8, 16]",
                  dir, checkpoint.config()));
}

TEST(SafetensorsWeightsTest, AWrongShape) {
  Checkpoint checkpoint;
  checkpoint.tensors()["model.layers.0.mlp.up_proj.weight"].shape = {16, 24};
  const std::string dir = checkpoint.write();
  expect_error(
      load(dir), StatusCode::kBadInput,
      fmt::format("'{}': tensor 'model.layers.0.mlp.up_proj.weight' has shape [16, 24], but the model "
                  "described by '{}' needs [24, 16]",
                  checkpoint.file(), checkpoint.config()));
}

TEST(SafetensorsWeightsTest, AMatrixWhereAVectorBelongs) {
  Checkpoint checkpoint;
  checkpoint.tensors()["model.norm.weight"].shape = {1, 16};
  const std::string dir = checkpoint.write();
  expect_error(
      load(dir), StatusCode::kBadInput,
      fmt::format("'{}': tensor 'model.norm.weight' has shape [1, 16], but the model described by '{}' needs "
                  "[16]",
                  checkpoint.file(), checkpoint.config()));
}

TEST(SafetensorsWeightsTest, ATypeThatCannotBeComputedWith) {
  Checkpoint checkpoint;
  checkpoint.tensors()["model.layers.0.mlp.up_proj.weight"].dtype = "F8_E4M3";
  const std::string dir = checkpoint.write();
  expect_error(
      load(dir), StatusCode::kRefused,
      fmt::format("'{}': tensor 'model.layers.0.mlp.up_proj.weight' has type float8_e4m3, which this build "
                  "cannot compute with; accepted are float32, float16, bfloat16, Q8_0 and Q4_1",
                  checkpoint.file()));
  checkpoint.tensors()["model.layers.0.mlp.up_proj.weight"].dtype = "F32";
  checkpoint.tensors()["model.norm.weight"].dtype = "F64";
  checkpoint.write();
  expect_error(
      load(dir), StatusCode::kRefused,
      fmt::format("'{}': tensor 'model.norm.weight' has type float64, but norms and biases are accepted in "
                  "float32, float16 and bfloat16",
                  checkpoint.file()));
}

TEST(SafetensorsWeightsTest, ATensorWithoutAPlaceIsNotIgnored) {
  Checkpoint checkpoint;
  checkpoint.tensors()["model.layers.0.self_attn.q_proj.bias"] = {"F32", {16}};
  const std::string dir = checkpoint.write();
  expect_error(
      load(dir), StatusCode::kBadInput,
      fmt::format("'{}': tensor 'model.layers.0.self_attn.q_proj.bias' of shape [16] has no place in the "
                  "model described by '{}' (LlamaForCausalLM)",
                  checkpoint.file(), checkpoint.config()));
}

TEST(SafetensorsWeightsTest, WhatCarriesNothingMayStand) {
  Checkpoint checkpoint;
  checkpoint.tensors()["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {2}};
  checkpoint.set_config("tie_word_embeddings", true);  // lm_head.weight is then a copy of the embedding
  const auto weights = load(checkpoint.write());
  ASSERT_TRUE(weights.is_ok()) << weights.status().message();
  EXPECT_EQ(weights->head.data, weights->embedding.data);
}

TEST(SafetensorsWeightsTest, ATruncatedFile) {
  Checkpoint checkpoint;
  const std::string dir = checkpoint.write();
  std::filesystem::resize_file(checkpoint.file(), std::filesystem::file_size(checkpoint.file()) - 1);
  const auto weights = load(dir);
  ASSERT_FALSE(weights.is_ok());
  EXPECT_EQ(exit_code(weights.status()), 2);
  EXPECT_THAT(weights.status().message(), ::testing::HasSubstr(checkpoint.file()));
}

TEST(SafetensorsWeightsTest, NoFileAtAll) {
  Checkpoint checkpoint;
  const std::string dir = checkpoint.write();
  std::filesystem::remove(checkpoint.file());
  const auto weights = load(dir);
  ASSERT_FALSE(weights.is_ok());
  EXPECT_EQ(exit_code(weights.status()), 2);
  EXPECT_THAT(weights.status().message(), ::testing::HasSubstr(dir));
}

TEST(SafetensorsWeightsTest, AConfigurationFileStandsForItsFolder) {
  Checkpoint checkpoint;
  checkpoint.write();
  const auto weights = load(checkpoint.config());
  EXPECT_TRUE(weights.is_ok()) << weights.status().message();
}

// ---- GGUF: the tiny files, with bytes changed
// --------------------------------------------------------------------

class GgufCopy {
 public:
  explicit GgufCopy(const std::string& kind) : path_(dir_ / "model.gguf") {
    bytes_ = read_file(golden_path("tiny/tiny-" + kind + ".gguf")).value();
  }
  // Where the tensor's entry continues after its name: dimensions' number, dimensions, type, offset.
  size_t after_name(const std::string& name) const { return bytes_.rfind(name) + name.size(); }
  void rename(const std::string& from, const std::string& to) {
    bytes_.replace(bytes_.rfind(from), from.size(), to);
  }
  template <typename T>
  void poke(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }
  void truncate(size_t by) { bytes_.resize(bytes_.size() - by); }
  Result<ModelWeights> load_it() {
    write_text(path_, bytes_);
    return load(path_);
  }
  const std::string& path() const { return path_; }

 private:
  TempDir dir_;
  std::string path_, bytes_;
};

TEST(GgufWeightsTest, EveryTypeKeepsItsBytes) {
  const std::map<std::string, std::pair<DType, int64_t>> row_bytes = {{"F16", {DType::kF16, 64}},
                                                                      {"BF16", {DType::kBF16, 64}},
                                                                      {"Q8_0", {DType::kQ8_0, 34}},
                                                                      {"Q4_1", {DType::kQ4_1, 20}}};
  for (const auto& [kind, expected] : row_bytes) {
    GgufCopy copy(kind);
    const auto weights = copy.load_it();
    ASSERT_TRUE(weights.is_ok()) << weights.status().message();
    EXPECT_EQ(weights->layers[1].q.dtype, expected.first);
    EXPECT_EQ(weights->layers[1].q.row_bytes, expected.second);
    EXPECT_EQ(weights->layers[1].down.row_bytes, 2 * expected.second);
    EXPECT_EQ(weights->layers[1].attn_norm.dtype, DType::kF32);
  }
}

TEST(GgufWeightsTest, AMissingTensorNamesFileAndTensor) {
  GgufCopy copy("Q8_0");
  copy.rename("blk.1.ffn_gate.weight", "blk.9.ffn_gate.weight");
  expect_error(
      copy.load_it(), StatusCode::kBadInput,
      fmt::format(
          "'{0}' has no tensor 'blk.1.ffn_gate.weight', which the model described by '{0}' needs with "
          "shape [64, 32]",
          copy.path()));
}

TEST(GgufWeightsTest, AnotherQuantisationIsRefusedByName) {
  GgufCopy copy("Q4_1");
  const size_t entry = copy.after_name("blk.0.ffn_up.weight");
  copy.poke<uint32_t>(entry + 4 + 16, 2);  // Q4_0
  expect_error(
      copy.load_it(), StatusCode::kRefused,
      fmt::format("'{}': tensor 'blk.0.ffn_up.weight' has type Q4_0, which this build cannot compute with; "
                  "accepted are float32, float16, bfloat16, Q8_0 and Q4_1",
                  copy.path()));
}

TEST(GgufWeightsTest, AWrongShape) {
  GgufCopy copy("F16");
  const size_t entry = copy.after_name("blk.0.ffn_up.weight");
  copy.poke<uint64_t>(entry + 4 + 8, 32);  // rows
  expect_error(
      copy.load_it(), StatusCode::kBadInput,
      fmt::format("'{0}': tensor 'blk.0.ffn_up.weight' has shape [32, 32], but the model described by '{0}' "
                  "needs [64, 32]",
                  copy.path()));
}

TEST(GgufWeightsTest, Truncated) {
  for (const size_t by : {size_t{1}, size_t{5000}, size_t{28000}}) {
    GgufCopy copy("Q8_0");
    copy.truncate(by);
    const auto weights = copy.load_it();
    ASSERT_FALSE(weights.is_ok()) << by;
    EXPECT_EQ(exit_code(weights.status()), 2);
    EXPECT_THAT(weights.status().message(), ::testing::HasSubstr(copy.path()));
  }
}

// ---- dummies
// -----------------------------------------------------------------------------------------------------

std::vector<float> values(const Parameter& p) {
  std::vector<float> out(static_cast<size_t>(p.rows * p.cols));
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half = 0;
    if (p.dtype == DType::kF32) {
      std::memcpy(&out[i], p.data + 4 * i, 4);
    } else {
      std::memcpy(&half, p.data + 2 * i, 2);
      out[i] = p.dtype == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
    }
  }
  return out;
}

Result<ModelWeights> dummy(const ModelConfig& model, DType dtype, int64_t seed) {
  return load_weights("/nowhere", model, LoadFormat::kDummy, dtype, seed);
}

TEST(DummyWeightsTest, SmallNumbersOfMeanZeroAndNormsOfOne) {
  const ModelConfig model = small_llama(2000);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const auto weights = dummy(model, dtype, 3);
    ASSERT_TRUE(weights.is_ok());
    const std::vector<float> embedding = values(weights->embedding);
    double sum = 0, squares = 0, fourth = 0;
    for (const float f : embedding) {
      sum += double{f};
      squares += double{f} * double{f};
      fourth += std::pow(double{f}, 4);
    }
    const auto n = static_cast<double>(embedding.size());
    EXPECT_NEAR(sum / n, 0.0, 5 * 0.02 / std::sqrt(n));
    EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.0002);
    // Four uniform numbers: 2.7, where a normal distribution has 3.
    EXPECT_NEAR(fourth / n / std::pow(squares / n, 2), 2.7, 0.05);
    for (const float f : values(weights->layers[1].ffn_norm)) ASSERT_EQ(f, 1.0f);
  }
}

TEST(DummyWeightsTest, SeedNameAndShapeDecideEveryValue) {
  const ModelConfig model = small_llama();
  const auto a = dummy(model, DType::kF32, 3), b = dummy(model, DType::kF32, 3),
             c = dummy(model, DType::kF32, 4);
  EXPECT_EQ(values(a->layers[0].q), values(b->layers[0].q));
  EXPECT_EQ(values(a->head), values(b->head));
  EXPECT_NE(values(a->layers[0].q), values(c->layers[0].q));
  EXPECT_NE(values(a->layers[0].gate), values(a->layers[0].up));
  EXPECT_NE(values(a->layers[0].q), values(a->layers[1].q));
  // The narrow types are the rounded float32 ones.
  const auto half = dummy(model, DType::kBF16, 3);
  const std::vector<float> wide = values(a->layers[1].down), narrow = values(half->layers[1].down);
  for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(narrow[i], bf16_to_f32(f32_to_bf16(wide[i])));
  // More layers do not move the others' values.
  ModelConfig deeper = model;
  deeper.num_layers = 3;
  deeper.layers.resize(3);
  EXPECT_EQ(values(dummy(deeper, DType::kF32, 3)->layers[1].up), values(a->layers[1].up));
}

TEST(DummyWeightsTest, BytesAreThoseOfTheParameters) {
  ModelConfig model = small_llama();
  for (const bool tied : {false, true}) {
    model.tie_word_embeddings = tied;
    const auto weights = dummy(model, DType::kBF16, 0);
    ASSERT_TRUE(weights.is_ok());
    EXPECT_EQ(weights->head.data == weights->embedding.data, tied);
    EXPECT_EQ(weights->total_bytes, 2 * model.num_parameters());
    EXPECT_EQ(estimate_weights_bytes("/nowhere", model, LoadFormat::kDummy, DType::kBF16, 1).value(),
              weights->total_bytes);
  }
}

TEST(DummyWeightsTest, BiasesAndQkNormsAreMade) {
  ModelConfig model = small_llama();
  model.attention_bias = model.attention_out_bias = model.mlp_bias = model.qk_norm = true;
  const auto weights = dummy(model, DType::kF32, 0);
  ASSERT_TRUE(weights.is_ok());
  EXPECT_EQ(weights->layers[0].q_bias.cols, 48);
  EXPECT_EQ(weights->layers[0].down_bias.cols, 48);
  EXPECT_EQ(weights->layers[0].up_bias.cols, 80);
  EXPECT_EQ(values(weights->layers[0].k_norm), std::vector<float>(8, 1.0f));
  EXPECT_EQ(weights->total_bytes, 4 * model.num_parameters());
}

TEST(DummyWeightsTest, RefusesWhatItCannotMake) {
  const auto wrong = dummy(small_llama(), DType::kQ8_0, 0);
  expect_error(
      wrong, StatusCode::kUsage,
      "--dtype Q8_0 cannot be made by --load-format dummy: accepted are float32, float16 and bfloat16");
  ModelConfig huge = small_llama();
  huge.vocab_size = int64_t{1} << 40;
  huge.hidden_size = int64_t{1} << 40;
  expect_error(
      dummy(huge, DType::kF32, 0), StatusCode::kRefused,
      "The dummy weights of 'config.json' do not fit into memory: take a smaller model or --dtype bfloat16");
  ModelConfig other = small_llama();
  other.runnable = false;
  other.not_runnable_reason = "This build cannot run it.";
  expect_error(dummy(other, DType::kF32, 0), StatusCode::kRefused, "This build cannot run it.");
  ModelConfig moe = small_llama();
  moe.layers[1].moe = true;
  expect_error(dummy(moe, DType::kF32, 0), StatusCode::kRefused,
               "'config.json' describes a LlamaForCausalLM, whose parameters this build cannot load: it runs "
               "the Llama "
               "family");
}

// ---- estimates
// ---------------------------------------------------------------------------------------------------

TEST(EstimateWeightsTest, FilesGiveWhatTheirHeadersSay) {
  for (const char* name : {"tiny/f32", "tiny/bf16-tied", "tiny/f16-biased", "tiny/tiny-Q4_1.gguf"}) {
    const std::string path = golden_path(name);
    const auto model = load_model_config(path);
    const auto weights = load(path);
    ASSERT_TRUE(weights.is_ok()) << weights.status().message();
    const auto one = estimate_weights_bytes(path, *model, LoadFormat::kAuto, DType::kF32, 1);
    ASSERT_TRUE(one.is_ok()) << one.status().message();
    EXPECT_EQ(*one, weights->total_bytes) << name;
    EXPECT_EQ(estimate_weights_bytes(path, *model, LoadFormat::kAuto, DType::kF32, 2).value(),
              (*one + 1) / 2);
  }
}

TEST(EstimateWeightsTest, AConfigurationWithoutWeightsIsEstimatedFromItsShapes) {
  Checkpoint checkpoint;
  const std::string dir = checkpoint.write();
  std::filesystem::remove(checkpoint.file());
  const auto model = load_model_config(dir);
  ASSERT_TRUE(model.is_ok());
  EXPECT_EQ(estimate_weights_bytes(dir, *model, LoadFormat::kAuto, DType::kBF16, 1).value(),
            2 * model->num_parameters());
}

TEST(EstimateWeightsTest, ABrokenFileIsAnError) {
  Checkpoint checkpoint;
  const std::string dir = checkpoint.write();
  const auto model = load_model_config(dir);
  std::filesystem::resize_file(checkpoint.file(), 20);
  EXPECT_FALSE(estimate_weights_bytes(dir, *model, LoadFormat::kAuto, DType::kBF16, 1).is_ok());
}

}  // namespace
}  // namespace vllm::testing
