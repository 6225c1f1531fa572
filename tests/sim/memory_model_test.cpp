// Blocks and weight bytes: the check values of section 6, and the native plan against the engine's own.

#include "sim/memory_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "sim/cluster.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

ModelDims dims(int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads, int64_t intermediate,
               int64_t vocab) {
  ModelDims m;
  m.name = "model";
  m.layers = layers;
  m.hidden = hidden;
  m.heads = heads;
  m.kv_heads = kv_heads;
  m.head_dim = 128;
  m.intermediate = m.moe_intermediate = intermediate;
  m.vocab = vocab;
  m.max_positions = 131072;
  return m;
}

ModelDims llama_8b() { return dims(32, 4096, 32, 8, 14336, 128256); }
ModelDims qwen_32b() { return dims(64, 5120, 64, 8, 25600, 151936); }
ModelDims qwen_30b_a3b() {
  ModelDims m = dims(48, 2048, 32, 4, 6144, 151936);
  m.moe_intermediate = 768;
  m.experts = 128;
  m.experts_per_token = 8;
  return m;
}

InstanceSpec instance(const ModelDims& model, double size_gb, double util, int tp = 1, int ep = 1,
                      int pp = 1) {
  InstanceSpec i;
  i.where = "cluster.json: nodes[0].instances[0]";
  i.model = std::make_shared<const ModelDims>(model);
  i.tp = tp;
  i.pp = pp;
  i.ep = ep;
  i.dtype = "bfloat16";
  i.kv_dtype = "auto";
  i.npu_memory = {size_gb, 1597, 0};
  i.settings.mem_util = util;
  i.stage_layers = pipeline_stage_layers(model.layers, pp);
  return i;
}

int64_t blocks(const InstanceSpec& i) {
  const auto memory = compat_memory(i);
  EXPECT_TRUE(memory.is_ok()) << memory.status().message();
  return memory ? memory->blocks : -1;
}

TEST(MemoryModelTest, CheckValues) {
  EXPECT_EQ(blocks(instance(llama_8b(), 96, 0.9)), 36578);
  EXPECT_EQ(blocks(instance(llama_8b(), 24, 0.833919)), 2588);
  EXPECT_EQ(blocks(instance(qwen_32b(), 96, 0.9, 2)), 28614);
  EXPECT_EQ(blocks(instance(qwen_30b_a3b(), 96, 0.9, 1, 2)), 38590);
}

TEST(MemoryModelTest, TokensAndBytes) {
  const auto memory = compat_memory(instance(llama_8b(), 96, 0.9));
  ASSERT_TRUE(memory.is_ok());
  EXPECT_EQ(memory->tokens, 585248);
  EXPECT_EQ(memory->kv_bytes_per_token, 131072);
  EXPECT_NEAR(static_cast<double>(memory->blocks * memory->block_bytes) / (1 << 30), 71.44, 0.005);
}

TEST(MemoryModelTest, TypesAndStagesChangeTheBytes) {
  InstanceSpec i = instance(llama_8b(), 96, 0.9);
  const int64_t weights = compat_weight_bytes(i);
  i.types = {2, 1};  // fp8 keys and values
  EXPECT_EQ(compat_memory(i)->kv_bytes_per_token, 65536);
  i.types = {1, 1};
  EXPECT_EQ(compat_weight_bytes(i), weights / 2);
  // Every stage is charged embedding and head; keys and values are divided by all NPUs.
  const InstanceSpec staged = instance(llama_8b(), 96, 0.9, 1, 1, 4);
  EXPECT_EQ(compat_memory(staged)->kv_bytes_per_token, 32768);
  const int64_t ends = 2 * 128256 * int64_t{4096} * 2 + 4096 * 2;
  EXPECT_EQ(compat_weight_bytes(staged), ends + (weights - ends) / 4);
}

TEST(MemoryModelTest, LayerBytesByName) {
  const WeightTypes types;
  const ModelDims m = llama_8b();
  EXPECT_EQ(layer_weight_bytes("embedding", m, 2, 1, types), 64128 * int64_t{4096} * 2);
  EXPECT_EQ(layer_weight_bytes("lm_head", m, 1, 1, types), 128256 * int64_t{4096} * 2);
  EXPECT_EQ(layer_weight_bytes("layernorm", m, 2, 1, types), 8192);
  EXPECT_EQ(layer_weight_bytes("final_layernorm", m, 2, 1, types), 8192);
  EXPECT_EQ(layer_weight_bytes("qkv_proj", m, 2, 1, types), 4096 * int64_t{3072} * 2);
  EXPECT_EQ(layer_weight_bytes("qk_norm", m, 2, 1, types), 512);
  EXPECT_EQ(layer_weight_bytes("o_proj", m, 2, 1, types), 2048 * int64_t{4096} * 2);
  EXPECT_EQ(layer_weight_bytes("gate_up_proj", m, 2, 1, types), 4096 * int64_t{14336} * 2);
  EXPECT_EQ(layer_weight_bytes("down_proj", m, 2, 1, types), 7168 * int64_t{4096} * 2);
  for (const char* none : {"rotary_emb", "attention", "act_fn", "sampler", "anything"}) {
    EXPECT_EQ(layer_weight_bytes(none, m, 1, 1, types), 0) << none;
  }
  const ModelDims e = qwen_30b_a3b();
  EXPECT_EQ(layer_weight_bytes("o_proj", e, 1, 2, types),
            4096 * int64_t{2048} * 2);  // ep divides experts alone
  EXPECT_EQ(layer_weight_bytes("moe", e, 1, 2, types),
            (2048 * int64_t{128} + 64 * 3 * int64_t{2048} * 768) * 2);
}

TEST(MemoryModelTest, AClusterThatDoesNotFitItsMemoryIsRefused) {
  const auto memory = compat_memory(instance(llama_8b(), 16, 0.9));
  ASSERT_FALSE(memory.is_ok());
  EXPECT_EQ(exit_code(memory.status()), 2);
  EXPECT_THAT(memory.status().message(), HasSubstr("nodes[0].instances[0]: 'npu_mem.mem_size' 16 GB"));
}

constexpr const char* kLlamaJson = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})";

// What --print-plan says of the same device is what native mode simulates with.
TEST(MemoryModelTest, NativePlanIsTheEngines) {
  const testing::TempDir dir;
  testing::write_text(dir / "config.json", kLlamaJson);
  for (const std::vector<std::string>& knobs : {std::vector<std::string>{"--gpu-memory-utilization", "0.9"},
                                                {"--num-blocks", "1000", "--max-model-len", "4096"},
                                                {"--kv-cache-memory", "20GiB"}}) {
    std::vector<std::string> args = {"--model", dir / "config.json", "--device-memory", "96GiB",
                                     "--print-plan"};
    args.insert(args.end(), knobs.begin(), knobs.end());
    const auto parsed = parse_options(Program::kSim, args);
    ASSERT_TRUE(parsed.is_ok()) << parsed.status().message();
    const auto plan = plan_without_engine(parsed->options);
    ASSERT_TRUE(plan.is_ok() && plan->status.is_ok());

    ModelDims model = llama_8b();
    model.path = dir / "config.json";
    const auto memory = native_memory(instance(model, 96, 0.9), parsed->options);
    ASSERT_TRUE(memory.is_ok()) << memory.status().message();
    EXPECT_EQ(memory->blocks, plan->plan.usable_blocks) << knobs[0];
    EXPECT_EQ(memory->max_model_len, plan->plan.max_model_len) << knobs[0];
    EXPECT_EQ(memory->weight_bytes, plan->plan.weights_bytes) << knobs[0];
    EXPECT_EQ(memory->decided_by, plan->plan.decided_by);
  }
}

TEST(MemoryModelTest, NativeNeedsRoomToo) {
  const testing::TempDir dir;
  testing::write_text(dir / "config.json", kLlamaJson);
  ModelDims model = llama_8b();
  model.path = dir / "config.json";
  const auto parsed = parse_options(Program::kSim, {});
  const auto memory = native_memory(instance(model, 12, 0.9), parsed->options);
  ASSERT_FALSE(memory.is_ok());
  EXPECT_EQ(exit_code(memory.status()), 2);
  EXPECT_THAT(memory.status().message(), HasSubstr("nodes[0].instances[0]: "));
}

}  // namespace
}  // namespace vllm
