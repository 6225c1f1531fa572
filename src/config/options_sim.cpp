// The options of vllm-sim's own. Names, defaults and meaning of what the reference simulator takes too are
// its own; what is not built is refused by name (options_supported.cpp).

#include "base/file.h"
#include "config/option_table.h"

namespace vllm {
namespace {

const ProgramSet& sim() {
  static const ProgramSet kSet = {Program::kSim};
  return kSet;
}

// Names a file of {run_id} too, so nothing that a path could be led astray with.
Status check_run_id(std::string_view text) {
  const bool good =
      !text.empty() && text != "." && text != ".." &&
      text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") ==
          std::string_view::npos;
  if (good) return Status::ok();
  return usage_error("'{}' is not a name; accepted is letters, digits, '_', '.' and '-'", text);
}

void declare_inputs(OptionTable& t, SimOptions& s) {
  t.group("Simulation");
  t.choice("mode", s.mode, Choices<SimMode>{{"native", SimMode::kNative}, {"compat", SimMode::kCompat}},
           sim(),
           "native is exact in its events and mends the known faults; compat gives what the reference "
           "simulator gives, to the nanosecond, its faults included.");
  t.text("cluster-config", s.cluster_config, "FILE", "the path of a cluster file (JSON)", sim(),
         "The cluster: nodes, instances, memories and links (docs/profiles.md).")
      .note("cluster/single_node_single_instance.json below --configs-root");
  t.text("configs-root", s.configs_root, "DIR", "the path of a folder", sim(),
         "Where the folders cluster, model and architecture lie.");
  t.text("profiles-root", s.profiles_root, "DIR", "the path of a folder", sim(),
         "Where profile bundles lie: <hardware>/<model>/<variant>/tp<N>.");
  t.text("dataset", s.dataset, "FILE", "the path of a workload file (JSON lines)", sim(),
         "The workload, plain or .gz: one request a line with input_toks, output_toks and arrival_time_ns. "
         "Token "
         "ids are needed for prefix hits only.")
      .note("16 requests of 64 input and 64 output tokens for each instance");
  t.integer("num-reqs", s.num_reqs, {0}, sim(), "Simulate only the first N lines of the dataset. 0: all.");
  t.text(
      "match-capacity", s.match_capacity, "DIR", "the folder of a recording", sim(),
      "Take the number of KV blocks of each engine from this recording instead of planning it. Native mode "
      "only.");
  t.number("host-overhead-us", s.host_overhead_us, {.min = 0, .max = 1e9}, sim(),
           "Microseconds that the host adds to each step and that no profile holds. Native mode only.");
  t.number("pickup-delay-us", s.pickup_delay_us, {.min = 0, .max = 1e9}, sim(),
           "Microseconds from a request's arrival until the scheduler sees it. Native mode only.");
  t.text("keep-faults", s.keep_faults, "LIST", "names with commas between them", sim(),
         "Faults of the reference simulator that native mode keeps, to see what each of them costs: polls, "
         "pool, "
         "vocabulary, padding, skew-key, skew-cap, experts, queuing, routing (docs/simulator.md).")
      .note("none");
}

void declare_outputs(OptionTable& t, SimOptions& s) {
  t.group("Simulation output");
  t.text("output", s.output, "FILE", "the path of a file to write", sim(),
         "One line for each request (CSV). {run_id} in it is replaced by --run-id.")
      .note("none");
  t.text("output-json", s.output_json, "FILE", "the path of a file to write", sim(),
         "The report of the run as JSON, with the keys of vllm-bench's report.")
      .note("none");
  t.text("steps", s.steps, "FILE", "the path of a file to write", sim(),
         "One record for each step, as vllm-bench run --record-steps writes.")
      .note("none");
  t.text("trace", s.trace, "FILE", "the path of a file to write", sim(),
         "The steps of each instance and stage as a Chrome trace, for Perfetto.")
      .note("none");
  t.negatable("itl", s.itl, sim(),
              "Keep the time between tokens of each request. Without it the column ITL is empty and a run of "
              "millions of requests takes little memory.");
  t.number("log-interval", s.log_interval_s, {.min = 0, .max = 1e9, .above_min = true}, sim(),
           "Simulated seconds between two heartbeats of the log.");
  OptionDeclaration& run_id = t.text("run-id", s.run_id, "NAME", "letters, digits, '_', '.' and '-'", sim(),
                                     "Name of the run in the log and in --output.");
  run_id.note("made from the other options");
  run_id.assign = [&field = s.run_id](std::string_view text) {
    const Status status = check_run_id(text);
    if (status) field = std::string(text);
    return status;
  };
  t.text("inputs-root", s.inputs_root, "DIR", "a path", sim(),
         "Where the reference simulator keeps intermediate files. There are none here: it is printed in the "
         "log and "
         "changes nothing.")
      .note("astra-sim/inputs/runs/<run-id>");
  t.negatable("cleanup-inputs", s.cleanup_inputs, sim(),
              "Remove those files. Accepted for compatibility; it changes nothing.");
}

void declare_model(OptionTable& t, SimOptions& s) {
  t.group("Simulated model");
  t.choice_or_auto(
      "dtype", s.dtype,
      Choices<SimDType>{{"bfloat16", SimDType::kBFloat16},
                        {"float16", SimDType::kFloat16},
                        {"float32", SimDType::kFloat32},
                        {"fp8", SimDType::kFp8},
                        {"int8", SimDType::kInt8}},
      sim(),
      "Type of the weights: it selects the bundle's variant and the bytes of weights and messages. auto is "
      "the model's torch_dtype, without one bfloat16.");
  t.number_or_auto(
       "npu-memory-utilization", s.npu_memory_utilization, {.min = 0, .max = 1, .above_min = true}, sim(),
       "Fraction of an NPU's memory for weights and KV blocks. Compat mode sizes the pool with it; in native "
       "mode it is another name of --gpu-memory-utilization.")
      .note("0.9 in compat mode");
  t.negatable("enable-block-copy", s.enable_block_copy, sim(),
              "Build one layer and repeat it. Compat mode without it simulates a single layer of a mixture "
              "of experts, "
              "as the reference does; native mode gives the same times either way.");
}

void declare_routing(OptionTable& t, SimOptions& s) {
  t.group("Routing");
  t.choice("request-routing-policy", s.request_routing,
           Choices<RequestRouting>{{"LOAD", RequestRouting::kLoad},
                                   {"RR", RequestRouting::kRoundRobin},
                                   {"RAND", RequestRouting::kRandom},
                                   {"CUSTOM", RequestRouting::kCustom}},
           sim(),
           "Which instance a request goes to: LOAD, the least loaded; RR, in turn; RAND, at random. CUSTOM "
           "is not in "
           "this build.");
  t.choice("expert-routing-policy", s.expert_routing,
           Choices<ExpertRouting>{{"BALANCED", ExpertRouting::kBalanced},
                                  {"RR", ExpertRouting::kRoundRobin},
                                  {"RAND", ExpertRouting::kRandom},
                                  {"CUSTOM", ExpertRouting::kCustom}},
           sim(),
           "Which experts tokens choose: BALANCED, evenly; RR, in turn; RAND, at random. CUSTOM is not in "
           "this build.");
}

void declare_not_built(OptionTable& t, SimOptions& s) {
  t.group("Simulated features that are not in this build");
  t.choice("prefix-storage", s.prefix_storage,
           Choices<PrefixStorage>{
               {"None", PrefixStorage::kNone}, {"CPU", PrefixStorage::kCpu}, {"CXL", PrefixStorage::kCxl}},
           sim(), "A second tier of the prefix cache. Only None is in this build.");
  t.flag("enable-prefix-sharing", s.enable_prefix_sharing, sim(),
         "Share the second tier between instances. Not in this build.");
  t.flag("enable-local-offloading", s.enable_local_offloading, sim(),
         "Charge the reading of weights from the NPU's memory as loads. Not in this build.");
  t.flag("enable-attn-offloading", s.enable_attn_offloading, sim(),
         "Decode attention in processing-in-memory devices. Not in this build.");
  t.flag("enable-sub-batch-interleaving", s.enable_sub_batch_interleaving, sim(),
         "Overlap two halves of a batch. Not in this build.");
  t.flag("skip-prefill", s.skip_prefill, sim(), "Requests start behind their prompt. Not in this build.");
  t.choice(
      "network-backend", s.network_backend,
      Choices<NetworkBackend>{{"analytical", NetworkBackend::kAnalytical}, {"ns3", NetworkBackend::kNs3}},
      sim(), "How messages take time. Only analytical is in this build.");
}

}  // namespace

void OptionTable::declare_sim(Options& options) {
  declare_inputs(*this, options.sim);
  declare_outputs(*this, options.sim);
  declare_model(*this, options.sim);
  declare_routing(*this, options.sim);
  declare_not_built(*this, options.sim);
}

std::string cluster_config_path(const SimOptions& options) {
  if (!options.cluster_config.empty()) return options.cluster_config;
  return join_path(options.configs_root, "cluster/single_node_single_instance.json");
}

const char* sim_dtype_name(SimDType dtype) {
  switch (dtype) {
    case SimDType::kBFloat16:
      return "bfloat16";
    case SimDType::kFloat16:
      return "float16";
    case SimDType::kFloat32:
      return "float32";
    case SimDType::kFp8:
      return "fp8";
    case SimDType::kInt8:
      return "int8";
  }
  return "?";
}

const char* sim_dtype_short(SimDType dtype) {
  switch (dtype) {
    case SimDType::kBFloat16:
      return "bf16";
    case SimDType::kFloat16:
      return "fp16";
    case SimDType::kFloat32:
      return "fp32";
    case SimDType::kFp8:
      return "fp8";
    case SimDType::kInt8:
      return "int8";
  }
  return "?";
}

int64_t sim_dtype_bytes(SimDType dtype) {
  switch (dtype) {
    case SimDType::kBFloat16:
    case SimDType::kFloat16:
      return 2;
    case SimDType::kFloat32:
      return 4;
    case SimDType::kFp8:
    case SimDType::kInt8:
      return 1;
  }
  return 2;
}

}  // namespace vllm
