// What this build refuses by name. Later releases delete lines here.

#include "config/options.h"

namespace vllm {
namespace {

Status check_ranks(const Options& o) {
  const ParallelOptions& p = o.parallel;
  const bool planned_only = o.runtime.print_plan != PrintPlan::kNo || o.program == Program::kSim;
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

}  // namespace

Status check_supported(const ParsedOptions& parsed) {
  VLLM_RETURN_IF_ERROR(check_ranks(parsed.options));
  VLLM_RETURN_IF_ERROR(check_device(parsed.options));
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
             "subcommands run and check-schedule";
    case Program::kBenchValidate:
      return "validate is not built yet (it comes with the simulator)";
    case Program::kSim:
      return "simulating is not built yet; --print-plan works";
    case Program::kProfile:
      return "profiling is not built yet; --print-plan works";
    case Program::kBenchRun:
    case Program::kBenchCheckSchedule:
    case Program::kWorkload:
      break;
  }
  return std::nullopt;
}

}  // namespace vllm
