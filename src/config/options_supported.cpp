// What this build refuses by name. Later releases delete lines here.

#include <tuple>
#include <utility>

#include "config/options.h"

namespace vllm {
namespace {

Status check_ranks(const Options& o) {
  const ParallelOptions& p = o.parallel;
  const bool planned_only = o.runtime.print_plan != PrintPlan::kNo;
  const bool simulating = o.program == Program::kSim && !planned_only;
  for (const auto& [name, value, field] :
       {std::tuple{"tensor-parallel-size", p.tensor_parallel_size, "tp_size"},
        std::tuple{"data-parallel-size", p.data_parallel_size, "dp_group"}}) {
    if (!simulating || value == 1) continue;
    return refused(
        "--{} {}: the cluster file says how the simulated instances are parallel ({}); accepted is 1, or "
        "more with "
        "--print-plan",
        name, value, field);
  }
  if (p.tensor_parallel_size > 1 && !planned_only) {
    return refused(
        "--tensor-parallel-size {}: this build runs one rank; accepted is 1, or more with --print-plan",
        p.tensor_parallel_size);
  }
  if (p.data_parallel_size > 1 && !planned_only) {
    return refused(
        "--data-parallel-size {}: this build runs one engine; accepted is 1, or more with --print-plan",
        p.data_parallel_size);
  }
  if (p.enable_expert_parallel && simulating) {
    return refused("--enable-expert-parallel: the cluster file says it (ep_size); leave the option out");
  }
  if (p.enable_expert_parallel) {
    return refused("--enable-expert-parallel: expert parallelism is not built yet; leave the option out");
  }
  return Status::ok();
}

Status check_device(const Options& o) {
  if (o.runtime.device != DeviceKind::kCuda) return Status::ok();
  const bool elsewhere = o.kv.device_memory && o.runtime.print_plan != PrintPlan::kNo;
  if (elsewhere || o.program == Program::kSim) return Status::ok();
  return refused(
      "--device cuda: this build has no CUDA backend; accepted is auto or cpu, or cuda with --print-plan and "
      "--device-memory");
}

Status check_bench_run(const ParsedOptions& parsed) {
  const BenchRunOptions& b = parsed.options.bench_run;
  if (b.record_gate_stats) {
    return refused(
        "--record-gate-stats: no mixture-of-experts model can run in this build, and a dense one has no "
        "gate; leave "
        "the option out");
  }
  for (const char* name : {"base-url", "api-key", "max-connections"}) {
    if (!parsed.set(name)) continue;
    return refused(
        "--{}: replaying over HTTP is not built yet; leave it out to replay through our own engine", name);
  }
  return Status::ok();
}

// The reference simulator's options whose feature is not here.
Status check_sim_features(const SimOptions& s) {
  const std::pair<bool, const char*> features[] = {
      {s.prefix_storage == PrefixStorage::kCpu,
       "--prefix-storage CPU: a second tier of the prefix cache is not built yet; accepted is None"},
      {s.prefix_storage == PrefixStorage::kCxl,
       "--prefix-storage CXL: a second tier of the prefix cache is not built yet; accepted is None"},
      {s.enable_prefix_sharing,
       "--enable-prefix-sharing: a second tier of the prefix cache is not built yet; leave the option out"},
      {s.enable_local_offloading,
       "--enable-local-offloading: weight offloading is not built yet; leave the option out"},
      {s.enable_attn_offloading,
       "--enable-attn-offloading: processing-in-memory is not built yet; leave the option out"},
      {s.enable_sub_batch_interleaving,
       "--enable-sub-batch-interleaving: interleaving halves of a batch is not built yet; leave the option "
       "out"},
      {s.skip_prefill, "--skip-prefill: starting behind the prompt is not built yet; leave the option out"},
      {s.network_backend == NetworkBackend::kNs3,
       "--network-backend ns3: a packet simulator is not built yet; accepted is analytical"},
      {s.request_routing == RequestRouting::kCustom,
       "--request-routing-policy CUSTOM: routing of one's own is not built yet; accepted is LOAD, RR or "
       "RAND"},
      {s.expert_routing == ExpertRouting::kCustom,
       "--expert-routing-policy CUSTOM: routing of one's own is not built yet; accepted is BALANCED, RR or "
       "RAND"},
  };
  for (const auto& [wanted, why] : features) {
    if (wanted) return refused("{}", why);
  }
  return Status::ok();
}

// Compat mode is another program's arithmetic: what that program does not have cannot change it.
Status check_compat(const ParsedOptions& parsed) {
  for (const char* name :
       {"num-blocks", "kv-cache-memory", "gpu-memory-utilization", "device-memory", "max-model-len",
        "match-capacity", "host-overhead-us", "pickup-delay-us", "keep-faults"}) {
    if (!parsed.set(name)) continue;
    return refused(
        "--{}: the reference simulator has no such thing, and --mode compat is its arithmetic; leave it out, "
        "or take "
        "--mode native",
        name);
  }
  const SchedulerOptions& s = parsed.options.scheduler;
  if (s.policy != SchedulingPolicy::kFcfs) {
    return refused("--scheduling-policy priority: accepted with --mode compat is fcfs");
  }
  if (s.watermark != 0) return refused("--watermark {}: accepted with --mode compat is 0", s.watermark);
  if (s.scheduling_depth != 1) {
    return refused("--scheduling-depth {}: accepted with --mode compat is 1", s.scheduling_depth);
  }
  return Status::ok();
}

Status check_sim(const ParsedOptions& parsed) {
  if (parsed.options.program != Program::kSim) return Status::ok();
  VLLM_RETURN_IF_ERROR(check_sim_features(parsed.options.sim));
  return parsed.options.sim.mode == SimMode::kCompat ? check_compat(parsed) : Status::ok();
}

// One job of the profiler is built.
Status check_profile(const Options& o) {
  if (o.program != Program::kProfile || o.runtime.print_plan != PrintPlan::kNo) return Status::ok();
  if (!o.profile.from_steps.empty()) return Status::ok();
  return refused(
      "measuring a device layer by layer is not built yet; --from-steps fits a step bundle to recordings, "
      "and "
      "--print-plan works");
}

}  // namespace

Status check_supported(const ParsedOptions& parsed) {
  VLLM_RETURN_IF_ERROR(check_ranks(parsed.options));
  VLLM_RETURN_IF_ERROR(check_device(parsed.options));
  VLLM_RETURN_IF_ERROR(check_sim(parsed));
  VLLM_RETURN_IF_ERROR(check_profile(parsed.options));
  return check_bench_run(parsed);
}

std::optional<std::string> not_built_yet(Program program) {
  switch (program) {
    case Program::kServer:
      return "serving is not built yet (HTTP comes with a later release); --print-plan works";
    case Program::kCli:
      return "generating text is not built yet (tokenizers come with a later release); --print-plan works";
    case Program::kBenchLoad:
      return "the load mode (vllm-bench without a subcommand) is not built yet; --print-plan works, and so "
             "do the "
             "subcommands run, check-schedule and validate";
    case Program::kBenchRun:
    case Program::kBenchCheckSchedule:
    case Program::kBenchValidate:
    case Program::kSim:
    case Program::kProfile:
    case Program::kWorkload:
      break;
  }
  return std::nullopt;
}

}  // namespace vllm
