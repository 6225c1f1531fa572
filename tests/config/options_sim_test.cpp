// The options of vllm-sim: names and defaults of the reference simulator's, and what is refused by name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/options.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

ParsedOptions parse(const Args& args) {
  auto parsed = parse_options(Program::kSim, args);
  EXPECT_TRUE(parsed.is_ok()) << (parsed ? "" : parsed.status().message());
  return parsed ? *parsed : ParsedOptions{};
}

// Of parsing or of what this build has; "" when all is well.
std::string refusal(const Args& args) {
  const auto parsed = parse_options(Program::kSim, args);
  const Status status = parsed ? check_supported(*parsed) : parsed.status();
  if (status) return "";
  EXPECT_EQ(exit_code(status), 2);
  return status.message();
}

std::string default_of(const std::string& name) {
  for (const ResolvedOption& r : parse({}).resolved) {
    if (r.name == name) return r.value;
  }
  return "absent";
}

TEST(SimOptionsTest, TheReferenceSimulatorsFlagsHaveItsDefaults) {
  const std::pair<const char*, const char*> defaults[] = {
      {"cluster-config", ""},  // note: below --configs-root
      {"max-num-seqs", "128"},
      {"max-num-batched-tokens", "2048"},
      {"long-prefill-token-threshold", "0"},
      {"dtype", "auto"},
      {"kv-cache-dtype", "auto"},
      {"request-routing-policy", "LOAD"},
      {"expert-routing-policy", "BALANCED"},
      {"enable-block-copy", "true"},
      {"enable-prefix-caching", "true"},
      {"enable-chunked-prefill", "true"},
      {"enable-prefix-sharing", "false"},
      {"prefix-storage", "None"},
      {"enable-local-offloading", "false"},
      {"enable-attn-offloading", "false"},
      {"enable-sub-batch-interleaving", "false"},
      {"reserve-full-isl", "true"},
      {"npu-memory-utilization", "auto"},  // 0.9 in compat mode
      {"block-size", "16"},
      {"dataset", ""},
      {"output", ""},
      {"run-id", ""},
      {"inputs-root", ""},
      {"cleanup-inputs", "true"},
      {"skip-prefill", "false"},
      {"num-reqs", "0"},
      {"log-interval", "1"},
      {"log-level", "WARNING"},
      {"network-backend", "analytical"},
  };
  EXPECT_EQ(std::size(defaults), 29u);
  for (const auto& [name, value] : defaults) EXPECT_EQ(default_of(name), value) << name;
}

TEST(SimOptionsTest, NeedsNothing) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(parse({}).options.sim.mode, SimMode::kNative);
  EXPECT_EQ(parse({"--mode", "compat"}).options.sim.mode, SimMode::kCompat);
  EXPECT_FALSE(parse({"--no-itl"}).options.sim.itl);
}

TEST(SimOptionsTest, PlansNeedAModel) {
  EXPECT_THAT(refusal({"--print-plan"}), HasSubstr("--model is missing"));
  EXPECT_EQ(refusal({"--print-plan", "--model", "m", "--dtype", "float16"}), "");
  EXPECT_EQ(parse({"--print-plan", "--model", "m", "--dtype", "float16"}).options.model.dtype, DType::kF16);
  EXPECT_THAT(refusal({"--print-plan", "--model", "m", "--dtype", "fp8"}), HasSubstr("--dtype 'fp8'"));
}

TEST(SimOptionsTest, TakesTypesThatNoEngineComputesIn) {
  EXPECT_EQ(parse({"--dtype", "fp8"}).options.sim.dtype, SimDType::kFp8);
  EXPECT_EQ(parse({"--dtype", "int8"}).options.sim.dtype, SimDType::kInt8);
  EXPECT_FALSE(parse({"--dtype", "auto"}).options.sim.dtype);
}

TEST(SimOptionsTest, UtilisationIsOneOptionInNativeMode) {
  EXPECT_EQ(parse({"--npu-memory-utilization", "0.8"}).options.kv.gpu_memory_utilization, 0.8);
  EXPECT_FALSE(
      parse({"--npu-memory-utilization", "0.8", "--mode", "compat"}).options.kv.gpu_memory_utilization);
  EXPECT_EQ(refusal({"--npu-memory-utilization", "0.8", "--gpu-memory-utilization", "0.8"}), "");
  EXPECT_THAT(refusal({"--npu-memory-utilization", "0.8", "--gpu-memory-utilization", "0.7"}),
              HasSubstr("contradict each other"));
}

TEST(SimOptionsTest, ZeroIsRefusedInBothModes) {
  for (const char* mode : {"native", "compat"}) {
    for (const char* name : {"--max-num-seqs", "--max-num-batched-tokens", "--block-size", "--log-interval",
                             "--npu-memory-utilization"}) {
      EXPECT_THAT(refusal({"--mode", mode, name, "0"}), HasSubstr(name));
    }
  }
}

TEST(SimOptionsTest, FeaturesThatAreNotHereAreRefusedByName) {
  const std::pair<Args, const char*> cases[] = {
      {{"--prefix-storage", "CPU"}, "--prefix-storage CPU"},
      {{"--prefix-storage", "CXL"}, "--prefix-storage CXL"},
      {{"--enable-prefix-sharing"}, "--enable-prefix-sharing"},
      {{"--enable-local-offloading"}, "--enable-local-offloading"},
      {{"--enable-attn-offloading"}, "--enable-attn-offloading"},
      {{"--enable-sub-batch-interleaving"}, "--enable-sub-batch-interleaving"},
      {{"--skip-prefill"}, "--skip-prefill"},
      {{"--network-backend", "ns3"}, "--network-backend ns3"},
      {{"--request-routing-policy", "CUSTOM"}, "--request-routing-policy CUSTOM"},
      {{"--expert-routing-policy", "CUSTOM"}, "--expert-routing-policy CUSTOM"},
      {{"--tensor-parallel-size", "2"}, "--tensor-parallel-size 2: the cluster file"},
      {{"--data-parallel-size", "2"}, "--data-parallel-size 2: the cluster file"},
      {{"--enable-expert-parallel"}, "--enable-expert-parallel: the cluster file"},
      {{"--run-id", "a/b"}, "accepted is letters, digits"},
      {{"--run-id", ".."}, "accepted is letters, digits"},
  };
  for (const auto& [args, says] : cases) EXPECT_THAT(refusal(args), HasSubstr(says));
}

TEST(SimOptionsTest, CompatModeRefusesWhatItsModelDoesNotHave) {
  const std::pair<Args, const char*> cases[] = {
      {{"--num-blocks", "100"}, "--num-blocks"},
      {{"--kv-cache-memory", "1GiB"}, "--kv-cache-memory"},
      {{"--gpu-memory-utilization", "0.8"}, "--gpu-memory-utilization"},
      {{"--device-memory", "80GiB"}, "--device-memory"},
      {{"--max-model-len", "100"}, "--max-model-len"},
      {{"--match-capacity", "d"}, "--match-capacity"},
      {{"--host-overhead-us", "1"}, "--host-overhead-us"},
      {{"--pickup-delay-us", "1"}, "--pickup-delay-us"},
      {{"--scheduling-policy", "priority"}, "--scheduling-policy priority"},
      {{"--watermark", "0.1"}, "--watermark 0.1"},
      {{"--scheduling-depth", "2"}, "--scheduling-depth 2"},
  };
  for (const auto& [args, says] : cases) {
    EXPECT_EQ(refusal(args), "");
    Args compat = args;
    compat.insert(compat.end(), {"--mode", "compat"});
    EXPECT_THAT(refusal(compat), HasSubstr(says));
  }
}

}  // namespace
}  // namespace vllm
