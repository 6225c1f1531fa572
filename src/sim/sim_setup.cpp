#include "sim/sim_setup.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/file.h"
#include "formats/json.h"
#include "formats/profile_bundle.h"
#include "formats/recording.h"

namespace vllm {
namespace {

constexpr int64_t kBuiltInRequests = 16, kBuiltInTokens = 64;

Result<Json> read_meta(const std::string& dir) {
  const std::string path = join_path(dir, "meta.json");
  VLLM_ASSIGN_OR_RETURN(const std::string text, read_file(path, int64_t{64} << 20));
  return parse_json(text, path);
}

// The pool of each instance: by the options, or as many blocks as a recording had.
Status find_memory(const ParsedOptions& parsed, SimSetup& setup) {
  const SimOptions& sim = parsed.options.sim;
  std::vector<EngineCapacity> recorded;
  if (!sim.match_capacity.empty()) {
    VLLM_ASSIGN_OR_RETURN(const Json meta, read_meta(sim.match_capacity));
    const std::string path = join_path(sim.match_capacity, "meta.json");
    VLLM_ASSIGN_OR_RETURN(RecordedCapacity capacity, recorded_capacity(meta, path));
    recorded = std::move(capacity.engines);
    if (recorded.empty()) {
      return refused("--match-capacity {}: the recording does not say how many blocks each engine had ({})",
                     sim.match_capacity, capacity.unknown);
    }
    if (recorded.size() != 1 && recorded.size() != setup.cluster.instances.size()) {
      return refused("--match-capacity {}: the recording has {} engines, the cluster {} instances",
                     sim.match_capacity, recorded.size(), setup.cluster.instances.size());
    }
  }
  for (InstanceSpec& spec : setup.cluster.instances) {
    Result<InstanceMemory> memory = instance_memory(spec, parsed.options);
    if (!recorded.empty()) {
      const EngineCapacity& engine = recorded[recorded.size() == 1 ? 0 : static_cast<size_t>(spec.id)];
      if (!memory.is_ok()) memory = compat_memory(spec);
      VLLM_RETURN_IF_ERROR(memory.status());
      match_blocks(memory.value(), engine.num_blocks - 1, engine.block_size);
      memory.value().max_model_len = parsed.options.model.max_model_len.value_or(spec.model->max_positions);
      spec.settings.block_size = engine.block_size;
    }
    VLLM_RETURN_IF_ERROR(memory.status());
    setup.memory.push_back(memory.value());
  }
  return Status::ok();
}

Status load_profiles(const ParsedOptions& parsed, SimSetup& setup) {
  const SimOptions& sim = parsed.options.sim;
  std::map<std::pair<std::string, int>, std::pair<std::shared_ptr<LatencyModel>, std::vector<int64_t>>>
      loaded;
  for (const InstanceSpec& spec : setup.cluster.instances) {
    auto& [model, capture_sizes] = loaded[{spec.bundle_dir, spec.tp}];
    if (model == nullptr) {
      VLLM_ASSIGN_OR_RETURN(const ProfileBundle bundle,
                            read_profile_bundle(spec.bundle_dir, {spec.tp, spec.model->is_moe()}));
      const ProfiledInstance profiled{spec.hardware, spec.tp, spec.model->is_moe()};
      VLLM_ASSIGN_OR_RETURN(LatencyModel compiled, LatencyModel::compile(bundle, *spec.architecture, profiled,
                                                                         setup.policies.latency));
      model = std::make_shared<LatencyModel>(std::move(compiled));
      capture_sizes = bundle.meta.cudagraph_capture_sizes;
      setup.models.push_back(model);
    }
    StepBuilder::Config builder;
    builder.cluster = &setup.cluster;
    builder.instance = &spec;
    builder.latency = model;
    builder.expert_routing = sim.expert_routing;
    builder.policies = setup.policies;
    builder.host_overhead_ns = static_cast<TimeNs>(sim.host_overhead_us * kNsPerUs + 0.5);
    builder.capture_sizes = capture_sizes;
    setup.builders.push_back(std::make_unique<StepBuilder>(std::move(builder)));
  }
  return Status::ok();
}

SchedulerConfig scheduler_config(const ParsedOptions& parsed, const SimSetup& setup,
                                 const InstanceSpec& spec) {
  const InstanceSettings& s = spec.settings;
  SchedulerConfig config;
  config.options = parsed.options.scheduler;
  config.options.max_num_seqs = static_cast<int>(s.max_num_seqs);
  config.options.max_num_batched_tokens = static_cast<int>(s.max_num_batched_tokens);
  config.options.long_prefill_token_threshold = static_cast<int>(s.long_prefill_token_threshold);
  config.options.enable_chunked_prefill = s.enable_chunked_prefill;
  config.options.enable_prefix_caching = s.enable_prefix_caching;
  config.options.reserve_full_isl = s.reserve_full_isl;
  config.block_size = static_cast<int>(s.block_size);
  config.num_blocks = setup.memory[static_cast<size_t>(spec.id)].blocks;
  if (setup.policies.older_pool) {
    config.pool = {.null_block = false, .unhashed_to_front = false, .newest_owns_name = true};
    config.max_model_len = INT64_MAX;  // the reference knows no limit
  } else {
    ++config.num_blocks;  // the null block
    config.max_model_len = setup.memory[static_cast<size_t>(spec.id)].max_model_len;
  }
  if (spec.pp > 1 || spec.dp_group >= 0) {
    config.flight.max_plans = spec.pp;
    config.flight.known_tokens_only = true;
  }
  config.flight.token_at_any_entry = setup.policies.token_at_any_entry && config.flight.known_tokens_only;
  return config;
}

Status check_depth(const ParsedOptions& parsed, const ClusterSpec& cluster) {
  if (parsed.options.scheduler.scheduling_depth == 1) return Status::ok();
  for (const InstanceSpec& spec : cluster.instances) {
    if (spec.pp == 1 && spec.dp_group < 0) continue;
    return refused(
        "--scheduling-depth {}: {} has pipeline stages or belongs to a dp_group, and then accepted is 1",
        parsed.options.scheduler.scheduling_depth, spec.where);
  }
  return Status::ok();
}

void fill_config(const ParsedOptions& parsed, SimSetup& setup) {
  const SimOptions& sim = parsed.options.sim;
  const ClusterSpec& cluster = setup.cluster;
  ClusterSim::Config& config = setup.config;
  config.policies = setup.policies;
  config.machine.network = Network(cluster.links, cluster.reduce_bandwidth);
  config.machine.solve_rings = !setup.policies.acts_by_polls;
  const bool compat = parsed.options.sim.mode == SimMode::kCompat;
  for (const NodeSpec& node : cluster.nodes) {
    HostMemorySpeed speed;
    speed.bytes_per_ns = compat ? static_cast<double>(cluster.cpu_bandwidth) : node.cpu.bandwidth;
    speed.latency_ns = compat ? cluster.cpu_latency_ns : static_cast<TimeNs>(node.cpu.latency_ns + 0.5);
    config.machine.hosts.push_back(speed);
  }
  for (const InstanceSpec& spec : cluster.instances) {
    for (int npu = 0; npu < spec.num_npus(); ++npu) config.machine.host_of_npu.push_back(spec.node);
    ClusterSim::Member member;
    member.instance.id = spec.id;
    member.instance.scheduler = scheduler_config(parsed, setup, spec);
    member.instance.policies = setup.policies;
    member.instance.source = setup.builders[static_cast<size_t>(spec.id)].get();
    member.first_npu = spec.first_npu;
    member.num_npus = spec.num_npus();
    member.pp = spec.pp;
    member.dp_group = spec.dp_group;
    config.members.push_back(std::move(member));
  }
  config.num_dp_groups = static_cast<int>(cluster.dp_groups.size());
  config.routing = sim.request_routing;
  config.log_interval_ns = static_cast<TimeNs>(sim.log_interval_s * 1e9);
  config.pickup_delay_ns = static_cast<TimeNs>(sim.pickup_delay_us * kNsPerUs + 0.5);
  setup.ledger.requests = &setup.workload.requests;
  setup.ledger.outcomes.resize(setup.workload.requests.size());
  setup.ledger.keep_itl = sim.itl;
  config.ledger = &setup.ledger;
  config.clock = &setup.clock;
}

}  // namespace

Result<Workload> read_sim_workload(const SimOptions& options, bool needs_ids, size_t instances) {
  Workload workload;
  if (options.dataset.empty()) {
    for (int64_t i = 0; i < kBuiltInRequests * static_cast<int64_t>(instances); ++i) {
      WorkloadRequest request;
      request.line = i + 1;
      request.input_toks = request.output_toks = kBuiltInTokens;
      workload.requests.push_back(std::move(request));
    }
    return workload;
  }
  WorkloadReadOptions read;
  read.max_rows = options.num_reqs;
  read.keep_token_ids = needs_ids;
  VLLM_ASSIGN_OR_RETURN(workload, read_workload(options.dataset, read));
  if (!workload.sessions.empty()) {
    return refused("{}: line {}: sessions (sub_requests) are not simulated yet; accepted are flat rows",
                   options.dataset, workload.sessions.front().line);
  }
  for (size_t i = 1; i < workload.requests.size(); ++i) {
    const WorkloadRequest& request = workload.requests[i];
    if (request.arrival_ns >= workload.requests[i - 1].arrival_ns) continue;
    return bad_input(
        "{}: line {}: arrival_time_ns {} is before {} of the line above; arrivals must not run backwards",
        options.dataset, request.line, request.arrival_ns, workload.requests[i - 1].arrival_ns);
  }
  return workload;
}

Result<std::unique_ptr<SimSetup>> make_sim_setup(const ParsedOptions& parsed) {
  auto setup = std::make_unique<SimSetup>();
  const bool compat = parsed.options.sim.mode == SimMode::kCompat;
  setup->policies = compat ? SimPolicies::compat() : SimPolicies::native();
  VLLM_RETURN_IF_ERROR(keep_faults(parsed.options.sim.keep_faults, setup->policies));
  VLLM_ASSIGN_OR_RETURN(setup->cluster, load_cluster(parsed));
  VLLM_RETURN_IF_ERROR(check_depth(parsed, setup->cluster));
  const auto& instances = setup->cluster.instances;
  const bool caches = std::any_of(instances.begin(), instances.end(), [](const InstanceSpec& spec) {
    return spec.settings.enable_prefix_caching;
  });
  VLLM_ASSIGN_OR_RETURN(setup->workload, read_sim_workload(parsed.options.sim, caches, instances.size()));
  VLLM_RETURN_IF_ERROR(find_memory(parsed, *setup));
  VLLM_RETURN_IF_ERROR(load_profiles(parsed, *setup));
  fill_config(parsed, *setup);
  if (!setup->cluster.ignored_keys.empty()) {
    std::string keys;
    for (const std::string& key : setup->cluster.ignored_keys) keys += (keys.empty() ? "" : ", ") + key;
    setup->notes.push_back("Ignored keys of the cluster file: " + keys);
  }
  return setup;
}

}  // namespace vllm
