#include "sim/simulate.h"

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "formats/json.h"
#include "formats/step_log.h"
#include "sim/chrome_trace.h"
#include "sim/cluster_sim.h"
#include "sim/sim_log.h"
#include "sim/sim_output.h"
#include "sim/sim_report.h"
#include "sim/sim_setup.h"
#include "sim/step_sim.h"

namespace vllm {
namespace {

constexpr TimeNs kProgressAfterNs = 2 * kNsPerSecond, kProgressEveryNs = kNsPerSecond;
constexpr int64_t kRoundsBetweenLooks = 4096;

// "steps.bin", or "steps.1.bin" for instance 1 of several.
std::string instance_path(const std::string& path, size_t instance, size_t instances) {
  if (instances == 1) return path;
  const size_t slash = path.find_last_of('/');
  const size_t dot = path.find_last_of('.');
  const bool has_dot = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  const std::string stem = has_dot ? path.substr(0, dot) : path;
  return fmt::format("{}.{}{}", stem, instance, has_dot ? path.substr(dot) : "");
}

// One line on stderr, written over itself, for runs that take a while.
class Progress {
 public:
  Progress(Clock& wall, const RequestLedger& ledger)
      : wall_(wall), ledger_(ledger), started_ns_(wall.now_ns()), next_ns_(started_ns_ + kProgressAfterNs) {}

  void look(TimeNs simulated_ns) {
    if (++rounds_ % kRoundsBetweenLooks != 0) return;
    const TimeNs now_ns = wall_.now_ns();
    if (now_ns < next_ns_) return;
    next_ns_ = now_ns + kProgressEveryNs;
    show(simulated_ns, '\r');
    shown_ = true;
  }
  void finish(TimeNs simulated_ns) {
    if (shown_) show(simulated_ns, '\n');
  }

 private:
  void show(TimeNs simulated_ns, char end) {
    const double factor =
        static_cast<double>(simulated_ns) / static_cast<double>(wall_.now_ns() - started_ns_);
    const std::string line =
        fmt::format("simulated {:.1f} s, {} of {} requests, {:.0f} times real time    {}",
                    ns_to_s(simulated_ns), ledger_.finished, ledger_.requests->size(), factor, end);
    std::fwrite(line.data(), 1, line.size(), stderr);
  }

  Clock& wall_;
  const RequestLedger& ledger_;
  const TimeNs started_ns_;
  TimeNs next_ns_;
  int64_t rounds_ = 0;
  bool shown_ = false;
};

// The files that grow while the simulation runs.
struct Recorders {
  std::vector<StepLogWriter> steps;
  std::optional<ChromeTrace> trace;
};

Status open_recorders(const SimOptions& options, SimSetup& setup, Recorders& out) {
  const auto& instances = setup.cluster.instances;
  if (!options.steps.empty()) {
    for (size_t i = 0; i < instances.size(); ++i) {
      VLLM_ASSIGN_OR_RETURN(StepLogWriter writer,
                            StepLogWriter::create(instance_path(options.steps, i, instances.size())));
      out.steps.push_back(std::move(writer));
    }
    for (size_t i = 0; i < instances.size(); ++i) setup.config.members[i].instance.steps = &out.steps[i];
  }
  if (options.trace.empty()) return Status::ok();
  VLLM_ASSIGN_OR_RETURN(ChromeTrace trace, ChromeTrace::create(options.trace));
  out.trace.emplace(std::move(trace));
  std::vector<std::pair<int, int>> lane_of_npu;
  for (const InstanceSpec& spec : instances) {
    out.trace->name_instance(
        spec.id, fmt::format("instance {} ({}, tp {}, pp {})", spec.id, spec.model->name, spec.tp, spec.pp));
    for (int stage = 0; stage < spec.pp; ++stage) {
      out.trace->name_stage(spec.id, stage);
      for (int rank = 0; rank < spec.tp; ++rank) lane_of_npu.emplace_back(spec.id, rank == 0 ? stage : -1);
    }
  }
  setup.config.on_npu_step = [&out, lane_of_npu](int npu, int64_t number, TimeNs start_ns, TimeNs end_ns) {
    const auto [instance, stage] = lane_of_npu[static_cast<size_t>(npu)];
    if (stage >= 0 && number >= 0) out.trace->add_step(instance, stage, number, start_ns, end_ns);
  };
  return Status::ok();
}

Status finish_recorders(Recorders& recorders) {
  for (StepLogWriter& writer : recorders.steps) VLLM_RETURN_IF_ERROR(writer.finish());
  return recorders.trace ? recorders.trace->finish() : Status::ok();
}

std::vector<KvInitLine> kv_lines(const SimSetup& setup) {
  std::vector<KvInitLine> lines;
  for (size_t i = 0; i < setup.memory.size(); ++i) {
    const InstanceMemory& memory = setup.memory[i];
    KvInitLine& line = lines.emplace_back();
    line.instance = static_cast<int>(i);
    line.blocks = memory.blocks;
    line.tokens = memory.tokens;
    line.gib_per_rank = static_cast<double>(memory.blocks * memory.block_bytes) / 1073741824.0;
    line.util = memory.util;
  }
  return lines;
}

}  // namespace

Status simulate(const ParsedOptions& parsed, Clock& wall, const std::atomic<bool>& interrupt) {
  if (!parsed.options.step_sim.step_bundle.empty()) {
    return simulate_with_step_bundle(parsed, wall, interrupt);
  }
  const TimeNs started_ns = wall.now_ns();
  const SimOptions& options = parsed.options.sim;
  const std::string run_id = sim_run_id(parsed);
  VLLM_ASSIGN_OR_RETURN(const std::unique_ptr<SimSetup> setup, make_sim_setup(parsed));
  Recorders recorders;
  VLLM_RETURN_IF_ERROR(open_recorders(options, *setup, recorders));
  VLLM_RETURN_IF_ERROR(
      print_log(sim_log_header(parsed, run_id) + sim_log_start(kv_lines(*setup), setup->notes)));

  Progress progress(wall, setup->ledger);
  std::vector<std::pair<double, double>> throughput;
  ClusterSim* running = nullptr;
  Status log_status;
  setup->config.on_heartbeat = [&](TimeNs end_ns) {
    const Heartbeat beat = take_heartbeat(*setup, *running, end_ns, options.log_interval_s);
    throughput.emplace_back(beat.prompt_tokens_per_s, beat.generation_tokens_per_s);
    if (log_status.is_ok()) log_status = print_log(sim_log_heartbeat(beat));
  };
  setup->config.on_round = [&](TimeNs now_ns) { progress.look(now_ns); };
  setup->config.stop = &interrupt;
  ClusterSim sim(setup->config);
  running = &sim;
  VLLM_RETURN_IF_ERROR(sim.run());
  VLLM_RETURN_IF_ERROR(log_status);
  progress.finish(sim.end_ns());

  SimResults results = sim_results(*setup, sim);
  // The reference's log has no such lines, so in compat mode they stand beside it.
  if (options.mode == SimMode::kCompat) {
    for (const std::string& note : std::exchange(results.notes, {})) log_warning("{}", note);
  }
  results.log_interval_s = options.log_interval_s;
  results.throughput = std::move(throughput);
  results.output_path = with_run_id(options.output, run_id);
  if (!results.output_path.empty()) VLLM_RETURN_IF_ERROR(write_sim_csv(results.output_path, *setup, sim));
  if (!options.output_json.empty()) {
    VLLM_RETURN_IF_ERROR(write_file_atomically(with_run_id(options.output_json, run_id),
                                               sim_report_json(parsed, *setup, sim).dump(2) + "\n"));
  }
  VLLM_RETURN_IF_ERROR(finish_recorders(recorders));
  results.wall_ns = wall.now_ns() - started_ns;
  return print_log(sim_log_results(std::move(results)));
}

}  // namespace vllm
