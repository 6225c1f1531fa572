#include <filesystem>
#include <fstream>

#include "formats/json.h"
#include "fuzz_file.h"
#include "sim/cluster.h"
#include "sim/network.h"

namespace {

using namespace vllm;

constexpr const char* kModel =
    R"({"model_type": "m", "hidden_size": 64, "num_hidden_layers": 10, "num_attention_heads": 4,
  "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 1024, "num_experts": 8, "num_experts_per_tok": 2})";
constexpr const char* kArchitecture =
    "sequence: {prologue: [e], pre_attn: [a], mlp_moe: [x], head: [e]}\n"
    "catalog: {dense: {e: }, attention: {a: }, moe: {x: }}\n";

// A folder with the one model that the fuzzer's cluster files may name.
const std::string& configs_root() {
  static const std::string kRoot = [] {
    std::string name = (std::filesystem::temp_directory_path() / "cluster-fuzz-XXXXXX").string();
    fuzzing::require(mkdtemp(name.data()) != nullptr);
    std::filesystem::create_directories(name + "/model");
    std::filesystem::create_directories(name + "/architecture");
    std::ofstream(name + "/model/m.json") << kModel;
    std::ofstream(name + "/architecture/m.yaml") << kArchitecture;
    return name;
  }();
  return kRoot;
}

}  // namespace

// A cluster file of anybody, in both modes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!json) return 0;
  for (const char* mode : {"native", "compat"}) {
    const auto parsed = parse_options(Program::kSim, {"--mode", mode, "--configs-root", configs_root()});
    fuzzing::require(parsed.is_ok());
    const auto spec = cluster_from_json(*json, "fuzz", *parsed);
    if (!spec) continue;
    fuzzing::require(!spec->instances.empty() && !spec->links.empty() && spec->cpu_bandwidth >= 1);
    const Network network(spec->links, spec->reduce_bandwidth);
    for (const InstanceSpec& i : spec->instances) {
      fuzzing::require(i.tp >= 1 && i.pp >= 1 && i.local_ep >= 1 && i.settings.block_size >= 1);
      (void)compat_memory(i);
      (void)collective_ns(network, CollectiveKind::kAllReduce, 1000, tp_dimensions());
      (void)collective_ns(network, CollectiveKind::kAllGather, 1000, ep_dimensions(i, *spec));
    }
  }
  return 0;
}
