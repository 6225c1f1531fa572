#include "sim/sim_report.h"

#include <algorithm>

#include "formats/json.h"
#include "formats/sim_csv.h"
#include "metrics/latency.h"
#include "metrics/load_report.h"

namespace vllm {
namespace {

SimRow row_of(const SimSetup& setup, int instance, size_t index) {
  const WorkloadRequest& request = setup.workload.requests[index];
  const RequestOutcome& out = setup.ledger.outcomes[index];
  SimRow row;
  row.instance_id = instance;
  row.request_id = static_cast<int64_t>(index);
  row.model = setup.cluster.instances[static_cast<size_t>(instance)].model->name;
  row.input_toks = request.input_toks;
  row.output_toks = request.output_toks;
  row.arrival_ns = request.arrival_ns;
  row.end_time_ns = out.end_ns;
  row.latency_ns = out.end_ns - request.arrival_ns;
  row.queuing_delay_ns = out.queuing_ns;
  row.ttft_ns = out.ttft_ns;
  row.tpot_ns = request.output_toks > 1 ? (row.latency_ns - row.ttft_ns) / (request.output_toks - 1) : 0;
  row.itl_ns = out.itl_ns;
  return row;
}

// Instances in order, in each the order of the ends.
template <typename Visit>
void for_each_row(const SimSetup& setup, const ClusterSim& sim, const Visit& visit) {
  for (size_t i = 0; i < sim.instances().size(); ++i) {
    for (const size_t index : sim.instances()[i]->finished())
      visit(i, row_of(setup, static_cast<int>(i), index));
  }
}

}  // namespace

Status write_sim_csv(const std::string& path, const SimSetup& setup, const ClusterSim& sim) {
  VLLM_ASSIGN_OR_RETURN(SimCsvWriter writer, SimCsvWriter::create(path));
  Status status;
  for_each_row(setup, sim, [&](size_t, const SimRow& row) {
    if (status.is_ok()) status = writer.write(row);
  });
  VLLM_RETURN_IF_ERROR(status);
  return writer.finish();
}

Heartbeat take_heartbeat(SimSetup& setup, const ClusterSim& sim, TimeNs end_ns, double interval_s) {
  Heartbeat beat;
  beat.end_s = static_cast<double>(end_ns) / 1e9;
  beat.prompt_tokens_per_s = static_cast<double>(setup.ledger.interval_prompt_tokens) / interval_s;
  beat.generation_tokens_per_s = static_cast<double>(setup.ledger.interval_generated_tokens) / interval_s;
  setup.ledger.interval_prompt_tokens = setup.ledger.interval_generated_tokens = 0;
  for (size_t n = 0; n < setup.cluster.nodes.size(); ++n) {
    const NodeSpec& node = setup.cluster.nodes[n];
    HeartbeatNode& shown = beat.nodes.emplace_back();
    shown.id = static_cast<int>(n);
    shown.cpu_total_bytes = static_cast<int64_t>(node.cpu.size_gb * 1073741824.0);
    for (const int id : node.instances) {
      const InstanceSpec& spec = setup.cluster.instances[static_cast<size_t>(id)];
      const InstanceMemory& memory = setup.memory[static_cast<size_t>(id)];
      Scheduler& scheduler = sim.instances()[static_cast<size_t>(id)]->core().scheduler();
      const BlockPool& pool = scheduler.pool();
      HeartbeatInstance& instance = shown.instances.emplace_back();
      instance.id = id;
      instance.running = scheduler.num_running();
      instance.waiting = scheduler.num_waiting();
      instance.npus = spec.num_npus();
      const int64_t held = pool.num_usable() - pool.num_free() + pool.num_cached();
      instance.used_bytes = memory.weight_bytes + held * memory.block_bytes;
      instance.total_bytes = memory.total_bytes;
      instance.prefix_caching = spec.settings.enable_prefix_caching;
      instance.hit_tokens = scheduler.stats().prefix_hits;
      instance.requested_tokens = scheduler.stats().prefix_queries;
    }
  }
  return beat;
}

SimResults sim_results(const SimSetup& setup, const ClusterSim& sim) {
  SimResults results;
  const RequestLedger& ledger = setup.ledger;
  results.total_requests = ledger.finished;
  results.total_clocks_ns = sim.end_ns();
  for (const WorkloadRequest& request : setup.workload.requests) results.input_tokens += request.input_toks;
  results.generated_tokens = ledger.generated_tokens;
  results.prompt_tokens = ledger.prompt_tokens;
  results.preemptions = ledger.preemptions;
  results.recomputed_tokens = ledger.recomputed_tokens;
  results.prefix_caching = false;
  for (size_t i = 0; i < sim.instances().size(); ++i) {
    SimInstance& instance = *sim.instances()[i];
    const SchedulerStats& stats = instance.core().scheduler().stats();
    results.requested_prompt_tokens += stats.prefix_queries;
    results.hit_prompt_tokens += stats.prefix_hits;
    results.prefix_caching |= setup.cluster.instances[i].settings.enable_prefix_caching;
    InstanceResults& out = results.instances.emplace_back();
    out.id = static_cast<int>(i);
    if (!ledger.keep_itl && instance.itl_counts().count() > 0) {
      out.itl_mean_ms = instance.itl_counts().mean_ns() * 1e-6;
      out.itl_median_ms = instance.itl_counts().percentile_ns(50) * 1e-6;
      out.itl_p99_ms = instance.itl_counts().percentile_ns(99) * 1e-6;
    }
  }
  for_each_row(setup, sim, [&](size_t i, const SimRow& row) {
    InstanceResults& out = results.instances[i];
    out.ttft_ns.push_back(row.ttft_ns);
    out.tpot_ns.push_back(row.tpot_ns);
    out.itl_ns.insert(out.itl_ns.end(), row.itl_ns.begin(), row.itl_ns.end());
  });
  for (const auto& model : setup.models) {
    for (const RangeReport& r : model->out_of_range()) {
      results.notes.push_back(fmt::format(
          "Outside of the profile: {} of {} queries of {} ({}), {} {} to {}, profiled {} to {}", r.outside,
          r.queries, r.layer, r.table, r.axis, r.seen_min, r.seen_max, r.profiled_min, r.profiled_max));
    }
  }
  return results;
}

Json sim_report_json(const ParsedOptions& parsed, const SimSetup& setup, const ClusterSim& sim) {
  const RequestLedger& ledger = setup.ledger;
  std::vector<double> ttft, tpot, itl, e2el;
  const char* mode = parsed.options.sim.mode == SimMode::kCompat ? "compat" : "native";
  LoadReport report;
  report.endpoint_type = "simulator";
  report.backend = std::string("vllm-sim ") + mode;
  report.model_id = setup.cluster.instances.front().model->name;
  TokensBySecond seconds;
  std::vector<std::pair<TimeNs, TimeNs>> lives;
  TimeNs first_ns = INT64_MAX, last_ns = 0;
  int64_t cached = 0;
  for_each_row(setup, sim, [&](size_t, const SimRow& row) {
    const RequestOutcome& out = ledger.outcomes[static_cast<size_t>(row.request_id)];
    first_ns = std::min(first_ns, row.arrival_ns);
    last_ns = std::max(last_ns, row.end_time_ns);
    report.input_tokens += row.input_toks;
    cached += out.cached_tokens;
    const RequestLatency latency =
        request_latency(0, ns_to_s(row.ttft_ns), ns_to_s(row.latency_ns), row.output_toks);
    ttft.push_back(latency.ttft_ms);
    e2el.push_back(latency.latency_ms);
    if (latency.tpot_ms) tpot.push_back(*latency.tpot_ms);
    TimeNs at = out.first_token_ns;
    seconds.add(at);
    for (const int64_t gap : row.itl_ns) {
      itl.push_back(ns_to_ms(gap));
      seconds.add(at += gap);
    }
    lives.emplace_back(row.arrival_ns, row.end_time_ns);
  });
  report.num_prompts = static_cast<int64_t>(setup.workload.requests.size());
  report.completed = ledger.finished;
  report.output_tokens = ledger.generated_tokens;
  if (ledger.finished > 0) report.duration_s = ns_to_s(last_ns - first_ns);
  if (ledger.keep_itl) report.max_output_tokens_per_s = seconds.peak();
  report.max_concurrent_requests = peak_concurrency(lives);
  report.ttft_ms = summarise(std::move(ttft));
  report.tpot_ms = summarise(std::move(tpot));
  report.itl_ms = summarise(std::move(itl));
  report.e2el_ms = summarise(std::move(e2el));
  Json out = load_report_json(report);
  Json twin;
  twin["mode"] = mode;
  twin["cluster_config"] = setup.cluster.path;
  twin["dataset"] = parsed.options.sim.dataset;
  twin["total_clocks_ns"] = sim.end_ns();
  twin["cached_tokens"] = cached;
  twin["preemptions"] = ledger.preemptions;
  twin["recomputed_tokens"] = ledger.recomputed_tokens;
  twin["host_overhead_us"] = parsed.options.sim.host_overhead_us;
  twin["pickup_delay_us"] = parsed.options.sim.pickup_delay_us;
  for (size_t i = 0; i < sim.instances().size(); ++i) {
    Json instance;
    instance["steps"] = sim.instances()[i]->steps();
    instance["requests"] = sim.instances()[i]->finished().size();
    instance["blocks"] = setup.memory[i].blocks;
    instance["decided_by"] = setup.memory[i].decided_by;
    twin["instances"].push_back(std::move(instance));
  }
  out["twin"] = std::move(twin);
  return out;
}

}  // namespace vllm
