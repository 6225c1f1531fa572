#pragma once

// Every option of every program, once. A program's options are what `visit_options` shows it: name, aliases,
// type, default, help, range, group and the programs that take it (options.cpp). Parsing, --help, --config
// (YAML), meta.json's resolved_config and the option table of docs/options.md all walk that one visitor.
// "auto" is an empty optional, never a magic number.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "formats/dtype.h"

namespace vllm {

enum class Program {
  kServer,
  kCli,
  kBenchRun,
  kBenchLoad,
  kBenchValidate,
  kBenchCheckSchedule,
  kSim,
  kProfile,
  kWorkload,
};
const char* program_name(Program program);  // "vllm-server", "vllm-bench run", ...

enum class LoadFormat { kAuto, kDummy };
enum class SchedulingPolicy { kFcfs, kPriority };
enum class DeviceKind { kAuto, kCpu, kCuda };
enum class PrintPlan { kNo, kText, kJson };
enum class SessionPolicy { kSkip, kReplay };
enum class KvCacheDType { kBFloat16, kFloat16, kFloat32, kFp8 };

struct DeviceMemoryOption {
  int64_t bytes = 0;
  bool integrated = false;
};

struct ModelOptions {
  std::string model;
  LoadFormat load_format = LoadFormat::kAuto;
  bool skip_tokenizer_init = false;
  std::optional<DType> dtype;            // auto
  std::optional<int64_t> max_model_len;  // auto: the model's own, reduced to what fits
};

struct ParallelOptions {
  int tensor_parallel_size = 1;
  int data_parallel_size = 1;
  bool enable_expert_parallel = false;
  bool disable_custom_all_reduce = false;
};

struct KvOptions {
  std::optional<int64_t> num_blocks;
  std::optional<int64_t> kv_cache_memory_bytes;
  std::optional<double> gpu_memory_utilization;
  int block_size = 16;
  std::optional<KvCacheDType> kv_cache_dtype;       // auto: the resolved dtype; for a GGUF bfloat16
  std::optional<DeviceMemoryOption> device_memory;  // plan for a device that is not here
};

struct SchedulerOptions {
  int max_num_seqs = 128;
  int max_num_batched_tokens = 2048;
  int long_prefill_token_threshold = 0;  // 0: off
  bool enable_chunked_prefill = true;
  bool enable_prefix_caching = true;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  bool reserve_full_isl = true;
  double watermark = 0.0;
  int scheduling_depth = 1;
};

struct RuntimeOptions {
  DeviceKind device = DeviceKind::kAuto;
  std::optional<int> threads;  // auto: the cores that this process may use
  bool pin_threads = false;
  bool enforce_eager = false;  // accepted for compatibility; there are no graphs on a CPU
  int64_t seed = 42;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  PrintPlan print_plan = PrintPlan::kNo;
};

struct BenchRunOptions {
  std::string dataset, output_dir;
  int64_t num_reqs = 0;
  double tick_seconds = 1.0;
  bool record_gate_stats = false, resolve_only = false, record_steps = false, record_itl = false;
  bool no_plots = false;
  int warmup = 2;
  double speed = 1.0;
  SessionPolicy on_session = SessionPolicy::kSkip;
  std::string base_url, api_key;  // HTTP in place of an engine; the load mode takes them too
  int max_connections = 0;        // 0: no limit
  // The null executor in place of a model's forward: answers at once, to measure our own overhead.
  bool null_executor = false;
};

struct CheckScheduleOptions {
  std::string bench_dir, dataset;
  std::optional<int> scheduling_depth;  // auto: as the recording says
  int max_deviations = 5;
};

struct WorkloadOptions {
  std::string output;
  int64_t num_reqs = 64;
  double rate = 4.0;  // mean arrivals a second; infinity: all at once
  double burstiness = 1.0;
  int input_len_min = 32, input_len_max = 256;
  int output_len_min = 16, output_len_max = 128;
  std::string length_distribution = "lognormal";  // fixed, uniform, lognormal
  int64_t vocab_size = 0;                         // 0: from --model
  double prefix_share = 0.0;  // fraction of requests that begin with one of a few shared prefixes
  int prefix_len = 64, num_prefixes = 4;
  double first_arrival_s = 0.0;
};

// vllm-bench without a subcommand.
struct LoadOptions {
  std::string dataset_path;  // empty: random prompts of input_len tokens
  int64_t num_prompts = 1000;
  int input_len = 1024, output_len = 128;
  std::optional<int> concurrency;  // auto: no limit
  std::optional<int64_t> seed;     // auto: fresh for each run, and saved with it
  double temperature = 0.0;
  double request_rate = std::numeric_limits<double>::infinity();
  double burstiness = 1.0;
  bool ignore_eos = false;
  int num_warmups = 0;
  std::vector<std::string> goodput;  // "ttft:500", in milliseconds
  std::vector<double> percentiles = {50, 90, 95, 99};
  std::string output_json;
};

enum class ArrivalAnchor { kPickup, kQueued };

struct ValidateOptions {
  std::vector<std::string> bench_dirs;  // more than one: the noise floor between them is reported
  std::string sim_csv, sim_log;
  std::string output_subdir = "validation";
  std::string prefix;
  std::string title = "vLLM vs LLMServingSim";
  std::string workloads_root;  // empty: a dataset is looked up only as the log names it
  ArrivalAnchor arrival_anchor = ArrivalAnchor::kPickup;
  bool force = false;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string served_model_name;  // empty: as --model says
  std::string api_key;            // empty: no key is asked for
};

// How the simulator behaves: event-exact, or as the reference simulator to the nanosecond.
enum class SimMode { kNative, kCompat };
enum class RequestRouting { kLoad, kRoundRobin, kRandom, kCustom };
enum class ExpertRouting { kBalanced, kRoundRobin, kRandom, kCustom };
enum class PrefixStorage { kNone, kCpu, kCxl };
enum class NetworkBackend { kAnalytical, kNs3 };
// What weights and K and V are stored as, where it is a profile that must know (fp8 and int8 have no DType
// here).
enum class SimDType { kBFloat16, kFloat16, kFloat32, kFp8, kInt8 };
const char* sim_dtype_name(SimDType dtype);   // "bfloat16"
const char* sim_dtype_short(SimDType dtype);  // "bf16": in the name of a bundle's variant
int64_t sim_dtype_bytes(SimDType dtype);

struct SimOptions {
  SimMode mode = SimMode::kNative;
  std::string cluster_config;  // empty: <configs-root>/cluster/single_node_single_instance.json
  std::string configs_root = "configs", profiles_root = "profiles";
  std::string dataset;  // empty: 16 requests of 64 and 64 tokens for each instance
  std::string output;   // sim.csv; {run_id} in it is replaced; empty: none
  std::string output_json, steps, trace, match_capacity;
  bool itl = true;
  int64_t num_reqs = 0;           // 0: all
  std::optional<SimDType> dtype;  // auto: the model's torch_dtype, else bfloat16
  RequestRouting request_routing = RequestRouting::kLoad;
  ExpertRouting expert_routing = ExpertRouting::kBalanced;
  bool enable_block_copy = true;
  std::optional<double> npu_memory_utilization;  // compat: 0.9 when not given
  double log_interval_s = 1.0;
  std::string run_id, inputs_root;  // empty: made from the options
  bool cleanup_inputs = true;
  // Native mode only: what the profile does not hold.
  double host_overhead_us = 0, pickup_delay_us = 0;
  std::string keep_faults;  // names of sim/policies.h, with commas between them
  // Not built yet; refused by name.
  PrefixStorage prefix_storage = PrefixStorage::kNone;
  bool enable_prefix_sharing = false, enable_local_offloading = false, enable_attn_offloading = false;
  bool enable_sub_batch_interleaving = false, skip_prefill = false;
  NetworkBackend network_backend = NetworkBackend::kAnalytical;
};
// --cluster-config, or its default below --configs-root.
std::string cluster_config_path(const SimOptions& options);

// vllm-sim with a step bundle in place of a cluster and profiles.
struct StepSimOptions {
  std::string step_bundle;
  std::string host_scale_from;
  double speed = 1.0;
  int seeds = 1;
};

// vllm-profile's jobs; the one that is built is --from-steps.
struct ProfileOptions {
  std::vector<std::string> from_steps, clean;
  std::string output;
};

struct Options {
  Program program = Program::kServer;
  ModelOptions model;
  ParallelOptions parallel;
  KvOptions kv;
  SchedulerOptions scheduler;
  RuntimeOptions runtime;
  BenchRunOptions bench_run;
  CheckScheduleOptions check_schedule;
  WorkloadOptions workload;
  LoadOptions load;
  ValidateOptions validate;
  ServerOptions server;
  SimOptions sim;
  StepSimOptions step_sim;
  ProfileOptions profile;
  std::string config_file;
};

// Where a value came from.
enum class OptionSource { kDefault, kConfigFile, kCommandLine };

struct ResolvedOption {
  std::string name;   // "max-num-seqs"
  std::string group;  // "Scheduler"
  std::string
      value;  // as one would write it; "auto" for an empty optional; "***" for a secret that was given
  OptionSource source = OptionSource::kDefault;
};

struct ParsedOptions {
  Options options;
  std::vector<ResolvedOption> resolved;  // every option that the program takes, in the order of --help
  bool help = false;                     // --help was given: print help_text(program) and exit 0
  bool version = false;
  bool set(const std::string& name) const;  // given on the command line or in the file
};

// `args` without the program's and the subcommand's name. Errors (exit 2) name option, value and what is
// accepted; an unknown option is refused with the nearest name. Required options are waived for --help and
// --version; for
// --print-plan, and for a program that is not built yet, all but the --model that a plan needs.
Result<ParsedOptions> parse_options(Program program, const std::vector<std::string>& args);

// What this build cannot do, refused by name and never ignored. Call it after parsing; later releases delete
// lines in options_supported.cpp.
Status check_supported(const ParsedOptions& parsed);
// One sentence for a program whose job is not built yet (its --print-plan and --help work); nullopt when it
// is.
std::optional<std::string> not_built_yet(Program program);

std::string help_text(Program program);
// The text of docs/options.md: every option, its default and the programs that take it.
std::string options_markdown();

}  // namespace vllm
