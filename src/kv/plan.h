#pragma once

// The KV plan: how many blocks there are and why. One pure function of (spec, options, facts); every program
// prints, allocates, logs and records this one value.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/options.h"
#include "formats/json_fwd.h"
#include "kv/spec.h"

namespace vllm {

// What is known of the device. Read by backend/device_memory.h, or made up from --device-memory.
struct MemoryFacts {
  std::string device = "cpu";     // "cpu", "cuda", "integrated"
  bool shared_with_host = false;  // integrated: one memory for host and device
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;     // at start, before this process took anything
  int64_t reserve_bytes = 0;  // kept free for others; the plan takes at least device_reserve_bytes()
  // Measured by the utilisation path; estimates when `measured` is false.
  int64_t weights_bytes = 0;
  int64_t workspace_bytes = 0;  // transient peak of the largest step, block tables included
  int64_t graph_bytes = 0;
  // What this process took besides its weights: max(0, free before - free after - weights_bytes).
  int64_t process_bytes = 0;
  bool measured = false;
};

// What is always kept free of a device's memory: 128 MiB on the CPU (heap and page tables that grow with
// requests), 256 MiB on a discrete GPU (libraries that allocate late), and for the neighbours on a device
// that shares its memory with the host the larger of 4 GiB and 10 % of the total.
int64_t device_reserve_bytes(const MemoryFacts& facts);

// A device that is not here, with nothing on it: --device-memory. Weights, workspace and graphs are still 0.
MemoryFacts hypothetical_memory_facts(const DeviceMemoryOption& option);

// Estimates for a GPU that is not here, on each rank: activations of the largest step, logits and sampler
// rows, block tables; graphs (0 with --enforce-eager). Made from shapes alone, so never `measured`.
int64_t estimate_gpu_workspace_bytes(const ModelConfig& model, const Options& options);
int64_t estimate_gpu_graph_bytes(const ModelConfig& model, const Options& options);

// Immutable once made.
struct KvPlan {
  std::string device;
  std::string decided_by;  // "num-blocks", "kv-cache-memory", "gpu-memory-utilization", "default"
  std::vector<std::string> overridden;  // weaker knobs that were set
  KvSpec spec;
  int64_t blocks = 0;           // null block included
  int64_t usable_blocks = 0;    // blocks - 1
  int64_t tokens = 0;           // that the pool holds, of sequences of max_model_len
  int64_t pool_bytes = 0;       // blocks * spec.bytes_per_block + recurrent_bytes
  int64_t recurrent_bytes = 0;  // state of max_num_seqs sequences
  int64_t weights_bytes = 0;
  // Null with an absolute knob, since they depend on the machine.
  std::optional<int64_t> workspace_bytes, graph_bytes, process_bytes, total_bytes, free_bytes;
  std::optional<int64_t>
      reserve_bytes;  // null only with an absolute knob on an integrated device that is here
  int64_t max_num_seqs = 0, max_num_batched_tokens = 0;
  int64_t max_model_len = 0;
  int64_t blocks_at_max_model_len = 0;  // of one sequence, over all groups
  int64_t longest_sequence = 0;         // that the pool holds, at most the model's own maximum
  double concurrency_at_max_model_len = 0;
  bool fits = false;
  bool measured = false;
  std::vector<std::string> notes;  // one line each, for people: reduced max_model_len, overridden knobs, caps
};

struct PlanResult {
  KvPlan plan;    // filled as far as it could be computed, also when it does not fit
  Status status;  // why it cannot be used; the message names the option to change and holds no table
};

// The model's own maximum comes from `model`. Pure.
PlanResult make_kv_plan(const ModelConfig& model, const Options& options, const MemoryFacts& facts);

std::string kv_plan_text(const KvPlan& plan);  // the aligned table
Json kv_plan_json(const KvPlan& plan);         // the keys of docs/kv-plan.md, in order

// Why a request of this length can never be served under this plan; ok when it can.
Status check_request_fits(const KvPlan& plan, int64_t prompt_tokens, int64_t max_tokens,
                          int64_t max_num_batched_tokens);

}  // namespace vllm
