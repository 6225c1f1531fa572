#pragma once

// The simulated cluster, resolved: the cluster file, the model files it names, and the command line's values
// where the file says nothing (an instance's own value, then the command line's, then the default).
// Everything that a later stage needs is a number here; nothing reads JSON afterwards. What this build does
// not simulate is refused by name, what the file may not say is refused in native mode and listed as ignored
// in compat mode. Plain values.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/options.h"
#include "formats/json_fwd.h"
#include "sim/architecture.h"
#include "sim/memory_model.h"

namespace vllm {

struct CpuMemory {
  double size_gb = 0;    // 2^30 bytes
  double bandwidth = 0;  // bytes per ns, as in the file
  double latency_ns = 0;
};

struct NpuMemory {
  double size_gb = 0;
  double bandwidth = 0;  // bytes per ns
  double latency_ns = 0;
};

// What an instance's scheduler and pool run with.
struct InstanceSettings {
  int64_t max_num_seqs = 128;
  int64_t max_num_batched_tokens = 2048;  // at most the model's max_position_embeddings
  int64_t long_prefill_token_threshold = 0;
  int64_t block_size = 16;
  bool enable_chunked_prefill = true;
  bool enable_prefix_caching = true;
  bool reserve_full_isl = true;
  // Compat: without it a mixture of experts is simulated with one layer (section 12, 11), unless a block rule
  // of the placement is in effect, which turns replication off for good.
  bool enable_block_copy = true;
  double mem_util = 0.9;
};

struct InstanceSpec {
  int id = 0;    // over the whole cluster, in the order of the file
  int node = 0;  // index
  int index_in_node = 0;
  std::string where;  // "cluster.json: nodes[0].instances[1]", for errors
  std::shared_ptr<const ModelDims> model;
  std::shared_ptr<const Architecture> architecture;
  std::string hardware;
  int tp = 1, pp = 1;
  // Expert parallelism: `ep` is the degree of the whole group, `local_ep` the ranks of this instance (ep /
  // members in a DP group of a mixture of experts, else ep). 1 for a dense model.
  int ep = 1, local_ep = 1;
  int dp_group = -1;  // index into ClusterSpec::dp_groups; -1: none
  int first_npu = 0;  // number of its first NPU; stage s, rank r is first_npu + s * tp + r
  int num_npus() const { return tp * pp; }
  NpuMemory npu_memory;
  InstanceSettings settings;
  std::string dtype, kv_dtype;  // resolved: "bfloat16"; kv_dtype "auto" or "fp8"
  WeightTypes types;            // bytes of both
  std::string variant;          // folder of its profile bundle: "bf16", "bf16-kvfp8"
  std::string bundle_dir;       // <profiles-root>/<hardware>/<model>/<variant>
  bool has_block_rules = false;
  // Layers of each pipeline stage; the remainder goes to the stages before the last.
  std::vector<int64_t> stage_layers;
};

struct DpGroup {
  std::string name;
  std::vector<int> members;  // instance ids, ascending
};

struct NodeSpec {
  CpuMemory cpu;
  std::vector<int> instances;
};

// The network: dimensions innermost first with a bandwidth and a latency each (sim/network.h works with it).
struct LinkDimension {
  int size = 1;
  double bandwidth_gib = 0;  // GiB per second
  double latency_ns = 0;
};

struct ClusterSpec {
  std::string path;
  std::vector<NodeSpec> nodes;
  std::vector<InstanceSpec> instances;
  std::vector<DpGroup> dp_groups;
  std::vector<LinkDimension> links;
  int num_npus = 0;
  // What the reference's back end gets: whole numbers, node 0's memory for all nodes (compat); native uses
  // each node's own.
  int64_t cpu_bandwidth = 0;  // bytes per ns
  int64_t cpu_latency_ns = 0;
  int64_t reduce_bandwidth = 0;  // local_bw: of the first instance of the last node, bytes per ns
  // "nodes[0].instances[0].colour": keys that nobody reads (compat mode only; native refuses them).
  std::vector<std::string> ignored_keys;
};

// Reads --cluster-config and what it names below --configs-root. The errors are one sentence that names file
// and field.
Result<ClusterSpec> load_cluster(const ParsedOptions& parsed);
// The same from a document; `path` names it in errors. For tests and fuzzing.
Result<ClusterSpec> cluster_from_json(const Json& json, const std::string& path, const ParsedOptions& parsed);

// Stage sizes of `layers` over `pp` stages: layers / pp each, one more for the stages before the last.
std::vector<int64_t> pipeline_stage_layers(int64_t layers, int pp);

}  // namespace vllm
