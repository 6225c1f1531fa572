// Cluster files, model files and architectures: what they resolve to, who wins, and every refusal.

#include "sim/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "formats/json.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::shared_path;

constexpr const char* kModel = R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 10,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256,
  "max_position_embeddings": 1024, "torch_dtype": "float16"})";
constexpr const char* kMoe = R"({"model_type": "moe", "hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 4096,
  "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32})";
constexpr const char* kArchitecture = R"(
sequence:
  prologue: [embedding]
  pre_attn: [layernorm, qkv_proj, attention]
  post_attn: [o_proj]
  mlp_dense: [down_proj]
  mlp_moe: [moe]
  head: [lm_head]
catalog:
  dense: {embedding: {vllm: E}, layernorm: {vllm: N, tp_stable: true}, qkv_proj: {}, o_proj: , down_proj: {}}
  per_sequence: {lm_head: {}}
  attention: {attention: {}}
  moe: {moe: {}}
)";

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest() {
    for (const char* folder : {"model", "architecture", "cluster"}) EXPECT_TRUE(make_directory(folder));
    testing::write_text(dir_ / "model/dense.json", kModel);
    testing::write_text(dir_ / "model/moe.json", kMoe);
    testing::write_text(dir_ / "architecture/llama.yaml", kArchitecture);
    testing::write_text(dir_ / "architecture/moe.yaml", kArchitecture);
  }

  bool make_directory(const char* name) { return ::mkdir((dir_ / name).c_str(), 0700) == 0; }

  ParsedOptions options(std::vector<std::string> args) const {
    args.insert(args.end(), {"--configs-root", dir_.path(), "--profiles-root", "profiles"});
    auto parsed = parse_options(Program::kSim, args);
    EXPECT_TRUE(parsed.is_ok()) << parsed.status().message();
    return std::move(parsed).value();
  }

  // `instances` are the members of the list; `more` stands in the top object.
  static std::string cluster(const std::string& instances, const std::string& more = "",
                             const std::string& node = "") {
    return R"({"num_nodes": 1, "link_bw": 16, "link_latency": 20000, "nodes": [{"cpu_mem": {"mem_size": 512, "mem_bw": )"
           R"(256.9, "mem_latency": 3.5}, )" +
           node + R"("instances": [)" + instances + "]}]" + more + "}";
  }
  static std::string instance(const std::string& more = "", const std::string& model = "dense",
                              const std::string& npu = "") {
    return R"({"model_name": ")" + model +
           R"(", "hardware": "CARD", "npu_mem": {"mem_size": 96, "mem_bw": 1597)" + npu +
           R"(}, "pd_type": null)" + more + "}";
  }

  Result<ClusterSpec> load(const std::string& text, const std::vector<std::string>& args = {}) const {
    const auto json = parse_json(text, "cluster.json");
    EXPECT_TRUE(json.is_ok()) << json.status().message();
    return cluster_from_json(*json, "cluster.json", options(args));
  }
  ClusterSpec good(const std::string& text, const std::vector<std::string>& args = {}) const {
    auto spec = load(text, args);
    EXPECT_TRUE(spec.is_ok()) << spec.status().message();
    return spec ? std::move(spec).value() : ClusterSpec{};
  }
  std::string error(const std::string& text, const std::vector<std::string>& args = {}) const {
    const auto spec = load(text, args);
    if (spec) return "accepted";
    EXPECT_EQ(exit_code(spec.status()), 2);
    return spec.status().message();
  }

  testing::TempDir dir_;
};

TEST_F(ClusterTest, OneInstance) {
  const ClusterSpec spec = good(cluster(instance()));
  ASSERT_EQ(spec.instances.size(), 1u);
  const InstanceSpec& i = spec.instances[0];
  EXPECT_EQ(i.tp, 1);
  EXPECT_EQ(i.pp, 1);
  EXPECT_EQ(i.ep, 1);
  EXPECT_EQ(i.dp_group, -1);
  EXPECT_EQ(i.dtype, "float16");  // the model's torch_dtype
  EXPECT_EQ(i.kv_dtype, "auto");
  EXPECT_EQ(i.bundle_dir, "profiles/CARD/dense/fp16");
  EXPECT_EQ(i.model->head_dim, 16);
  EXPECT_EQ(i.model->moe_intermediate, 128);
  EXPECT_EQ(i.settings.max_num_batched_tokens, 1024);  // no more than the model's positions
  EXPECT_EQ(i.settings.max_num_seqs, 128);
  EXPECT_EQ(i.settings.mem_util, 0.9);
  EXPECT_THAT(i.stage_layers, ElementsAre(10));
  EXPECT_EQ(spec.num_npus, 1);
  EXPECT_EQ(spec.cpu_bandwidth, 256);  // truncated
  EXPECT_EQ(spec.cpu_latency_ns, 3);
  EXPECT_EQ(spec.reduce_bandwidth, 1597);
  ASSERT_EQ(spec.links.size(), 1u);
  EXPECT_EQ(spec.links[0].latency_ns, 20000);
}

TEST_F(ClusterTest, InstanceBeatsCommandLineBeatsDefault) {
  const std::string own =
      R"(, "max_num_seqs": 3, "max_num_batched_tokens": 64, "long_prefill_token_threshold": 7, "block_size": 8,
        "dtype": "bfloat16", "kv_cache_dtype": "fp8", "enable_chunked_prefill": false, "enable_prefix_caching": false,
        "reserve_full_isl": false, "enable_block_copy": false)";
  const std::vector<std::string> line = {"--max-num-seqs",
                                         "9",
                                         "--block-size",
                                         "32",
                                         "--dtype",
                                         "float32",
                                         "--mode",
                                         "compat",
                                         "--npu-memory-utilization",
                                         "0.7",
                                         "--long-prefill-token-threshold",
                                         "11"};
  const ClusterSpec spec =
      good(cluster(instance(own, "dense", R"(, "mem_util": 0.5)") + "," + instance()), line);
  const InstanceSettings& a = spec.instances[0].settings;
  EXPECT_EQ(a.max_num_seqs, 3);
  EXPECT_EQ(a.max_num_batched_tokens, 64);
  EXPECT_EQ(a.long_prefill_token_threshold, 7);
  EXPECT_EQ(a.block_size, 8);
  EXPECT_EQ(a.mem_util, 0.5);
  EXPECT_FALSE(a.enable_chunked_prefill || a.enable_prefix_caching || a.reserve_full_isl ||
               a.enable_block_copy);
  EXPECT_EQ(spec.instances[0].variant, "bf16-kvfp8");
  EXPECT_EQ(spec.instances[0].types.kv_bytes, 1);
  const InstanceSettings& b = spec.instances[1].settings;
  EXPECT_EQ(b.max_num_seqs, 9);
  EXPECT_EQ(b.block_size, 32);
  EXPECT_EQ(b.long_prefill_token_threshold, 11);
  EXPECT_EQ(b.mem_util, 0.7);
  EXPECT_EQ(spec.instances[1].variant, "fp32");
  EXPECT_EQ(spec.instances[1].types.weight_bytes, 4);
}

TEST_F(ClusterTest, NativeUtilisationIsTheEnginesOption) {
  EXPECT_EQ(good(cluster(instance()), {"--gpu-memory-utilization", "0.6"}).instances[0].settings.mem_util,
            0.6);
  EXPECT_EQ(good(cluster(instance()), {"--npu-memory-utilization", "0.6"}).instances[0].settings.mem_util,
            0.6);
}

TEST_F(ClusterTest, TypesNameTheVariant) {
  const auto variant = [&](const std::vector<std::string>& args, const std::string& model = "dense") {
    return good(cluster(instance("", model)), args).instances[0].variant;
  };
  EXPECT_EQ(variant({}), "fp16");
  EXPECT_EQ(variant({}, "moe"), "bf16");  // no torch_dtype
  EXPECT_EQ(variant({"--dtype", "fp8"}), "fp8");
  EXPECT_EQ(variant({"--dtype", "int8", "--kv-cache-dtype", "fp8"}), "int8-kvfp8");
  EXPECT_EQ(variant({"--dtype", "bfloat16", "--kv-cache-dtype", "bfloat16"}), "bf16");
  EXPECT_EQ(variant({"--dtype", "bfloat16", "--kv-cache-dtype", "float16"}), "bf16-kvfp16");
}

TEST_F(ClusterTest, Degrees) {
  const auto degrees = [&](const std::string& more) {
    const ClusterSpec spec = good(cluster(instance(more)));
    return spec.instances.empty() ? std::pair(0, 0) : std::pair(spec.instances[0].tp, spec.instances[0].pp);
  };
  EXPECT_EQ(degrees(R"(, "num_npus": 4)"), std::pair(4, 1));
  EXPECT_EQ(degrees(R"(, "tp_size": 2)"), std::pair(2, 1));
  EXPECT_EQ(degrees(R"(, "num_npus": 8, "tp_size": 2)"), std::pair(2, 4));
  EXPECT_EQ(degrees(R"(, "num_npus": 8, "pp_size": 2)"), std::pair(4, 2));
  EXPECT_EQ(degrees(R"(, "tp_size": 2, "pp_size": 3)"), std::pair(2, 3));
  EXPECT_THAT(error(cluster(instance(R"(, "num_npus": 5, "tp_size": 2)"))), HasSubstr("num_npus' is 5"));
  EXPECT_THAT(error(cluster(instance(R"(, "num_npus": 1, "tp_size": 2)"))), HasSubstr("num_npus' is 1"));
  EXPECT_THAT(error(cluster(instance(R"(, "pp_size": 11)"))),
              HasSubstr("pp_size' is 11, but dense has 10 layers"));
}

TEST_F(ClusterTest, StagesPutTheRemainderBeforeTheLast) {
  EXPECT_THAT(pipeline_stage_layers(10, 4), ElementsAre(2, 3, 3, 2));
  EXPECT_THAT(pipeline_stage_layers(7, 4), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(pipeline_stage_layers(8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(pipeline_stage_layers(3, 1), ElementsAre(3));
}

TEST_F(ClusterTest, NpusAreNumberedThrough) {
  const ClusterSpec spec = good(cluster(instance(R"(, "tp_size": 2)") + "," + instance(R"(, "tp_size": 2)")));
  EXPECT_EQ(spec.instances[1].first_npu, 2);
  EXPECT_EQ(spec.num_npus, 4);
  ASSERT_EQ(spec.links.size(), 2u);
  EXPECT_EQ(spec.links[0].size, 2);
  EXPECT_EQ(spec.links[1].size, 2);
}

TEST_F(ClusterTest, ExpertsAndGroups) {
  const auto spec_of = [&](const std::string& more) {
    return good(cluster(instance(more, "moe") + "," + instance(more, "moe")));
  };
  EXPECT_EQ(good(cluster(instance(R"(, "tp_size": 2)", "moe"))).instances[0].ep, 2);  // as tp
  const ClusterSpec a = spec_of(R"(, "ep_size": 2, "dp_group": "A")");
  EXPECT_EQ(a.instances[1].ep, 2);
  EXPECT_EQ(a.instances[1].local_ep, 1);
  ASSERT_EQ(a.dp_groups.size(), 1u);
  EXPECT_THAT(a.dp_groups[0].members, ElementsAre(0, 1));
  const ClusterSpec b = spec_of(R"(, "tp_size": 2, "ep_size": 4, "dp_group": "A")");
  EXPECT_EQ(b.instances[0].local_ep, 2);
  EXPECT_EQ(b.links.size(), 2u);

  const auto two = [&](const std::string& x, const std::string& y) {
    return error(cluster(instance(x, "moe") + "," + instance(y, "moe")));
  };
  EXPECT_THAT(error(cluster(instance(R"(, "ep_size": 3)", "moe"))),
              HasSubstr("does not divide the 8 experts"));
  EXPECT_THAT(error(cluster(instance(R"(, "ep_size": 2)", "moe"))), HasSubstr("more than tp_size 1"));
  EXPECT_THAT(two(R"(, "ep_size": 1, "dp_group": "A")", R"(, "ep_size": 1, "dp_group": "A")"),
              HasSubstr("do not divide"));
  EXPECT_THAT(two(R"(, "ep_size": 4, "dp_group": "A")", R"(, "ep_size": 4, "dp_group": "A")"),
              HasSubstr("would hold 2 ranks, more than tp_size 1"));
  EXPECT_THAT(two(R"(, "ep_size": 2, "dp_group": "A")", R"(, "tp_size": 2, "ep_size": 2, "dp_group": "A")"),
              HasSubstr("members differ"));
  EXPECT_THAT(
      error(cluster(instance(R"(, "dp_group": "A")") + "," + instance(R"(, "dp_group": "A")", "moe"))),
      HasSubstr("model_name is 'moe'"));
}

// They share one topology, which has no place for them otherwise.
TEST_F(ClusterTest, InstancesMustFitOneNetwork) {
  EXPECT_THAT(error(cluster(instance(R"(, "tp_size": 2)") + "," + instance())),
              HasSubstr("tp_size is 1, but other instances have 2"));
  const std::string member = instance(R"(, "dp_group": "A")");
  EXPECT_EQ(error(cluster(member + "," + member + "," + instance())), "accepted");
  EXPECT_THAT(error(cluster(member + "," + instance() + "," + member)), HasSubstr("do not stand together"));
  EXPECT_THAT(error(cluster(instance() + "," + member + "," + member)), HasSubstr("do not stand together"));
  const std::string other = instance(R"(, "dp_group": "B")");
  EXPECT_EQ(error(cluster(member + "," + member + "," + other + "," + other)), "accepted");
  EXPECT_THAT(error(cluster(member + "," + member + "," + other)),
              HasSubstr("accepted are groups of one size"));
}

TEST_F(ClusterTest, LinksOfEachDimension) {
  std::string text = cluster(instance(R"(, "tp_size": 2)") + "," + instance(R"(, "tp_size": 2)"));
  const auto with = [&](const std::string& bandwidth) {
    std::string out = text;
    return out.replace(out.find("\"link_bw\": 16"), 13, "\"link_bw\": " + bandwidth);
  };
  EXPECT_EQ(good(with("[16, 2]")).links[1].bandwidth_gib, 2);
  EXPECT_THAT(error(with("[16]")),
              HasSubstr("'link_bw' has 1 entries, but this cluster's network has 2 dimensions"));
  EXPECT_THAT(error(with("[16, -1]")), HasSubstr("'link_bw' holds what is no number"));
  EXPECT_THAT(error(with("0")), HasSubstr("'link_bw' is 0"));
  EXPECT_THAT(error(with("null")), HasSubstr("'link_bw' is missing"));
}

TEST_F(ClusterTest, FeaturesThatAreNotHereAreRefusedByName) {
  EXPECT_THAT(error(cluster(instance(R"(, "pd_type": "prefill")"))),
              HasSubstr("prefill/decode split is not built yet"));
  EXPECT_THAT(error(cluster(instance(), R"(, "cxl_mem": {"mem_size": 1})")),
              HasSubstr("'cxl_mem' is CXL memory"));
  EXPECT_THAT(error(cluster(instance(), "", R"("power": {"base_node_power": 60}, )")),
              HasSubstr("power' is power modelling"));
  EXPECT_THAT(error(cluster(instance(R"(, "placement": {"default": {"weights": "cpu"}})"))),
              HasSubstr("placement off the NPU"));
  EXPECT_THAT(error(cluster(instance(R"(, "placement": {"layers": {"lm_head": {"weights": "cxl:0"}}})"))),
              HasSubstr("placement.layers.lm_head.weights' is 'cxl:0'"));
  for (const char* key :
       {"enable_local_offloading", "enable_attn_offloading", "enable_sub_batch_interleaving"}) {
    EXPECT_THAT(error(cluster(instance(fmt::format(", \"{}\": true", key)))), HasSubstr(key));
    EXPECT_EQ(error(cluster(instance(fmt::format(", \"{}\": false", key)))), "accepted");
  }
}

TEST_F(ClusterTest, PlacementOnTheNpuIsTaken) {
  const std::string rules =
      R"(, "placement": {"default": {"weights": "npu", "kv_loc": "npu", "kv_evict_loc": "cpu"},
        "blocks": [{"blocks": "0-3, 5,9", "weights": "npu"}], "layers": {"lm_head": {"weights": "npu"}}})";
  EXPECT_TRUE(good(cluster(instance(rules))).instances[0].has_block_rules);
  EXPECT_FALSE(good(cluster(instance())).instances[0].has_block_rules);
  for (const char* bad : {"0-10", "", "3-1", "a", "1-", "-1", "1,,2"}) {
    EXPECT_THAT(
        error(cluster(instance(fmt::format(R"(, "placement": {{"blocks": [{{"blocks": "{}"}}]}})", bad)))),
        HasSubstr("placement.blocks[0].blocks'"))
        << bad;
  }
}

TEST_F(ClusterTest, UnknownKeysAreRefusedOrListed) {
  const std::string text = cluster(instance(R"(, "colour": 1)"), R"(, "shape": {"a": 1})");
  EXPECT_THAT(error(text), HasSubstr("'nodes[0].instances[0].colour' is not a key of a cluster file"));
  EXPECT_THAT(good(text, {"--mode", "compat"}).ignored_keys,
              ElementsAre("nodes[0].instances[0].colour", "shape"));
  EXPECT_THAT(error(cluster(instance(R"(, "ep_size": 2)"))), HasSubstr("has no experts"));
  EXPECT_THAT(good(cluster(instance(R"(, "ep_size": 2)")), {"--mode", "compat"}).ignored_keys,
              ElementsAre("nodes[0].instances[0].ep_size"));
}

TEST_F(ClusterTest, ErrorsNameFileAndField) {
  const struct {
    std::string text, says;
  } cases[] = {
      {"[]", "cluster.json: is not a JSON object"},
      {"{}", "'num_nodes' is missing"},
      {R"({"num_nodes": 2, "nodes": [1]})", "'num_nodes' is 2, but 'nodes' has 1 entries"},
      {R"({"num_nodes": 1, "nodes": [1]})", "'nodes[0]' is 1; accepted is an object"},
      {cluster(""), "nodes[0].instances' is not a list with at least one"},
      {cluster("7"), "nodes[0].instances[0]' is 7"},
      {cluster(instance(), "", R"("num_instances": 2, )"), "'nodes[0].num_instances' is 2"},
      {cluster(instance(R"(, "max_num_seqs": 0)")), "max_num_seqs' is 0"},
      {cluster(instance(R"(, "max_num_batched_tokens": 0)")), "max_num_batched_tokens' is 0"},
      {cluster(instance(R"(, "block_size": 1.5)")), "block_size' is 1.5"},
      {cluster(instance(R"(, "tp_size": "2")")), "tp_size' is \"2\"; accepted is a whole number"},
      {cluster(instance(R"(, "enable_chunked_prefill": 1)")),
       "enable_chunked_prefill' is 1; accepted is true or false"},
      {cluster(instance(R"(, "dtype": "int4")")), "dtype' is 'int4'"},
      {cluster(instance(R"(, "kv_cache_dtype": "int8")")), "kv_cache_dtype' is 'int8'"},
      {cluster(instance(R"(, "pd_type": "both")")), "pd_type' is 'both'; accepted is null"},
      {cluster(instance("", "dense", R"(, "mem_util": 0)")), "npu_mem.mem_util' is 0"},
      {cluster(instance("", "dense", R"(, "mem_util": 1.1)")), "npu_mem.mem_util' is 1.1"},
      {cluster(instance("", "nobody")), "model_name' is 'nobody', which is not known"},
      {cluster(instance("", "")), "model_name' is missing or empty"},
      {R"({"num_nodes": 1, "link_bw": 16, "link_latency": 0, "nodes": [{"cpu_mem": {"mem_size": 1, "mem_bw": 0.5},
          "instances": [1]}]})",
       "'nodes[0].cpu_mem.mem_bw' is 0.5"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(error(c.text), HasSubstr(c.says));
    EXPECT_THAT(error(c.text), ::testing::StartsWith("cluster.json: "));
  }
  std::string no_role = instance();
  no_role.replace(no_role.find(R"(, "pd_type": null)"), 17, "");
  EXPECT_THAT(error(cluster(no_role)), HasSubstr("pd_type' is missing"));
}

TEST_F(ClusterTest, ModelFilesAreChecked) {
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = kModel;
    text.replace(text.find(from), from.size(), to);
    testing::write_text(dir_ / "model/bad.json", text);
    return error(cluster(instance("", "bad")));
  };
  EXPECT_THAT(with("\"hidden_size\": 64,", ""), HasSubstr("\"hidden_size\" is missing"));
  EXPECT_THAT(with("\"hidden_size\": 64", "\"hidden_size\": -1"), HasSubstr("\"hidden_size\" is -1"));
  EXPECT_THAT(with("\"max_position_embeddings\": 1024,", ""),
              HasSubstr("\"max_position_embeddings\" is missing"));
  EXPECT_THAT(with("\"model_type\": \"llama\",", ""), HasSubstr("\"model_type\" is missing"));
  EXPECT_THAT(with("\"llama\"", "\"other\""), HasSubstr("architecture/other.yaml: no such file"));
  EXPECT_THAT(with("\"float16\"", "\"int3\""), HasSubstr("'torch_dtype' is 'int3'"));
  EXPECT_THAT(
      with("\"vocab_size\": 256", "\"num_experts\": 4, \"num_experts_per_tok\": 5, \"vocab_size\": 256"),
      HasSubstr("more than the 4 experts"));
}

TEST_F(ClusterTest, ModelOptionReplacesTheModelFile) {
  testing::write_text(dir_ / "mine.json", kMoe);
  EXPECT_TRUE(
      good(cluster(instance("", "any/name")), {"--model", dir_ / "mine.json"}).instances[0].model->is_moe());
  EXPECT_THAT(error(cluster(instance()), {"--model", "x.gguf"}),
              HasSubstr("accepted for a simulation is a config.json"));
}

TEST_F(ClusterTest, ArchitectureErrors) {
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = kArchitecture;
    text.replace(text.find(from), from.size(), to);
    const auto a = parse_architecture(text, "a.yaml");
    return a ? std::string("accepted") : a.status().message();
  };
  EXPECT_EQ(with("embedding", "embedding"), "accepted");
  EXPECT_THAT(with("[embedding]", "[embeding]"),
              HasSubstr("layer 'embeding' of 'sequence.prologue' is not in the catalog"));
  EXPECT_THAT(with("[embedding]", "[]"), HasSubstr("at least one layer each"));
  EXPECT_THAT(with("[embedding]", "embedding"), HasSubstr("'sequence.prologue' is not a list"));
  EXPECT_THAT(with("[embedding]", "[[a]]"), HasSubstr("holds what is not a layer name"));
  EXPECT_THAT(with("[embedding]", "[moe]"), HasSubstr("accepted is mlp_moe"));
  EXPECT_THAT(with("tp_stable: true", "tp_stable: 7"),
              HasSubstr("layernorm.tp_stable' is neither true nor false"));
  EXPECT_THAT(with("{moe: {}}", "{lm_head: {}}"), HasSubstr("is twice in the catalog"));
  EXPECT_THAT(with("sequence:", "sequences:"), HasSubstr("has no map 'sequence'"));
  EXPECT_THAT(with("catalog:", "katalog:"), HasSubstr("has no map 'catalog'"));
  EXPECT_THAT(with("[embedding]", "[embedding"), HasSubstr("is not YAML"));
  EXPECT_THAT(parse_architecture("- 1", "a.yaml").status().message(), HasSubstr("is not a map"));
}

// Every cluster of the reference project is either taken or refused for what is not built.
TEST_F(ClusterTest, ReferenceFiles) {
  const auto root = shared_path("reference/configs");
  if (!root) GTEST_SKIP() << "reference data are absent";
  const std::pair<const char*, const char*> files[] = {
      {"single_node_single_instance", ""},
      {"single_node_multi_instance", ""},
      {"single_node_dp_instance", ""},
      {"single_node_pp_instance", ""},
      {"single_node_tp_pp_instance", ""},
      {"single_node_memory_instance", ""},
      {"single_node_moe_single_instance", ""},
      {"single_node_moe_dp_ep_instance", ""},
      {"dual_node_multi_instance", ""},
      {"single_node_pd_instance", "prefill/decode split"},
      {"single_node_heterogeneous", "prefill/decode split"},
      {"single_node_cxl_instance", "placement off the NPU"},
      {"single_node_pim_instance", "processing-in-memory"},
      {"single_node_power_instance", "power modelling"},
  };
  for (const auto& [name, refusal] : files) {
    for (const char* mode : {"native", "compat"}) {
      const std::string path = *root + "/cluster/" + name + ".json";
      const auto parsed =
          parse_options(Program::kSim, {"--mode", mode, "--configs-root", *root, "--cluster-config", path});
      ASSERT_TRUE(parsed.is_ok());
      const auto spec = load_cluster(*parsed);
      if (*refusal == '\0') {
        EXPECT_TRUE(spec.is_ok()) << spec.status().message();
      } else {
        ASSERT_FALSE(spec.is_ok()) << name;
        EXPECT_THAT(spec.status().message(), HasSubstr(refusal));
      }
    }
  }
}

}  // namespace
}  // namespace vllm
