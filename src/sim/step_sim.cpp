#include "sim/step_sim.h"

#include <cmath>
#include <optional>

#include "base/file.h"
#include "formats/json.h"
#include "formats/sim_csv.h"
#include "formats/step_log.h"
#include "metrics/comparison.h"
#include "metrics/latency.h"
#include "metrics/load_report.h"
#include "sim/sim_log.h"
#include "sim/sim_output.h"
#include "sim/step_sim_setup.h"

namespace vllm {
namespace {

// Heartbeats, at the ends of simulated intervals, and the step log.
class Reporter {
 public:
  Reporter(const StepSimSetup& setup, double interval_s) : setup_(setup), interval_s_(interval_s) {}

  Status open_steps(const std::string& path) {
    if (path.empty()) return Status::ok();
    VLLM_ASSIGN_OR_RETURN(StepLogWriter writer, StepLogWriter::create(path));
    steps_.emplace(std::move(writer));
    return Status::ok();
  }

  void step(TimeNs now_ns, const CoreCounters& counters, const StepRecord& record) {
    beat_until(now_ns);
    seen_ = counters;
    if (steps_ && status_.is_ok()) status_ = steps_->append(record);
  }

  Status finish(TimeNs end_ns) {
    beat_until(end_ns);
    if (steps_ && status_.is_ok()) status_ = steps_->finish();
    return status_;
  }
  const std::vector<std::pair<double, double>>& throughput() const { return throughput_; }

 private:
  void beat_until(TimeNs now_ns) {
    while (status_.is_ok() && ns_to_s(now_ns) >= static_cast<double>(beats_ + 1) * interval_s_) {
      Heartbeat beat;
      beat.end_s = static_cast<double>(++beats_) * interval_s_;
      beat.prompt_tokens_per_s = static_cast<double>(seen_.prompt_tokens - last_.prompt_tokens) / interval_s_;
      beat.generation_tokens_per_s =
          static_cast<double>(seen_.generation_tokens - last_.generation_tokens) / interval_s_;
      last_ = seen_;
      // The bytes of a block are not known here: blocks stand for them, which gives the right share.
      HeartbeatInstance instance;
      instance.running = seen_.running;
      instance.waiting = seen_.waiting;
      instance.used_bytes = seen_.used_blocks;
      instance.total_bytes = std::max<int64_t>(1, setup_.config.scheduler.num_blocks - 1);
      instance.prefix_caching = setup_.config.scheduler.options.enable_prefix_caching;
      instance.hit_tokens = seen_.prompt_tokens_cached;
      instance.requested_tokens = seen_.prompt_tokens;
      HeartbeatNode node;
      node.cpu_total_bytes = 1;
      node.instances.push_back(instance);
      beat.nodes.push_back(node);
      throughput_.emplace_back(beat.prompt_tokens_per_s, beat.generation_tokens_per_s);
      status_ = print_log(sim_log_heartbeat(beat));
    }
  }

  const StepSimSetup& setup_;
  const double interval_s_;
  std::optional<StepLogWriter> steps_;
  CoreCounters seen_, last_;
  int64_t beats_ = 0;
  std::vector<std::pair<double, double>> throughput_;
  Status status_;
};

Status write_csv(const std::string& path, const StepSimSetup& setup, const StepRunResult& run) {
  VLLM_ASSIGN_OR_RETURN(SimCsvWriter writer, SimCsvWriter::create(path));
  for (const size_t i : run.finished) {
    const StepRunTimes& times = run.requests[i];
    const StepRunRequest& request = setup.requests[i];
    SimRow row;
    row.request_id = static_cast<int64_t>(i);
    row.model = setup.model;
    row.input_toks = static_cast<int64_t>(request.prompt.size());
    row.output_toks = request.output_toks;
    row.arrival_ns = request.arrival_ns;
    row.end_time_ns = times.last_token_ns;
    row.latency_ns = times.last_token_ns - request.arrival_ns;
    row.queuing_delay_ns = times.scheduled_ns - request.arrival_ns;
    row.ttft_ns = times.first_token_ns - request.arrival_ns;
    if (request.output_toks > 1) row.tpot_ns = (row.latency_ns - row.ttft_ns) / (request.output_toks - 1);
    row.itl_ns = times.itl_ns;
    VLLM_RETURN_IF_ERROR(writer.write(row));
  }
  return writer.finish();
}

SimResults results_of(const StepSimSetup& setup, const StepRunResult& run) {
  SimResults results;
  results.total_requests = static_cast<int64_t>(run.finished.size());
  InstanceResults instance;
  for (const size_t i : run.finished) {
    const StepRunTimes& times = run.requests[i];
    const StepRunRequest& request = setup.requests[i];
    results.total_clocks_ns = std::max(results.total_clocks_ns, times.last_token_ns);
    results.input_tokens += static_cast<int64_t>(request.prompt.size());
    instance.ttft_ns.push_back(times.first_token_ns - request.arrival_ns);
    instance.tpot_ns.push_back(request.output_toks > 1
                                   ? (times.last_token_ns - times.first_token_ns) / (request.output_toks - 1)
                                   : 0);
    instance.itl_ns.insert(instance.itl_ns.end(), times.itl_ns.begin(), times.itl_ns.end());
  }
  results.generated_tokens = run.counters.generation_tokens;
  results.prompt_tokens = run.counters.prompt_tokens;
  results.preemptions = run.counters.preemptions;
  results.prefix_caching = setup.config.scheduler.options.enable_prefix_caching;
  results.requested_prompt_tokens = run.counters.prompt_tokens;
  results.hit_prompt_tokens = run.counters.prompt_tokens_cached;
  results.instances.push_back(std::move(instance));
  return results;
}

// vLLM's names of the load report.
Json report_json(const ParsedOptions& parsed, const StepSimSetup& setup, const StepRunResult& run) {
  std::vector<double> ttft, tpot, itl, latency;
  LoadReport report;
  report.endpoint_type = "simulator";
  report.backend = "vllm-sim";
  report.model_id = setup.model;
  report.num_prompts = static_cast<int64_t>(setup.requests.size());
  TokensBySecond seconds;
  std::vector<std::pair<TimeNs, TimeNs>> lives;
  TimeNs first_ns = INT64_MAX, last_ns = 0;
  for (const size_t i : run.finished) {
    const StepRunTimes& times = run.requests[i];
    const StepRunRequest& request = setup.requests[i];
    const RequestLatency l = request_latency(ns_to_s(request.arrival_ns), ns_to_s(times.first_token_ns),
                                             ns_to_s(times.last_token_ns), request.output_toks);
    ttft.push_back(l.ttft_ms);
    if (l.tpot_ms) tpot.push_back(*l.tpot_ms);
    latency.push_back(l.latency_ms);
    TimeNs at_ns = times.first_token_ns;
    seconds.add(at_ns);
    for (const int64_t gap : times.itl_ns) {
      itl.push_back(ns_to_ms(gap));
      seconds.add(at_ns += gap);
    }
    lives.emplace_back(request.arrival_ns, times.last_token_ns);
    report.input_tokens += static_cast<int64_t>(request.prompt.size());
    report.output_tokens += request.output_toks;
    first_ns = std::min(first_ns, request.arrival_ns);
    last_ns = std::max(last_ns, times.last_token_ns);
  }
  report.completed = static_cast<int64_t>(run.finished.size());
  if (report.completed > 0) report.duration_s = ns_to_s(last_ns - first_ns);
  report.max_concurrent_requests = peak_concurrency(lives);
  if (parsed.options.sim.itl) report.max_output_tokens_per_s = seconds.peak();
  report.ttft_ms = summarise(std::move(ttft));
  report.tpot_ms = summarise(std::move(tpot));
  report.itl_ms = summarise(std::move(itl));
  report.e2el_ms = summarise(std::move(latency));
  Json json = load_report_json(report);
  json["twin"] = {{"step_bundle", parsed.options.step_sim.step_bundle},
                  {"seed", parsed.options.runtime.seed},
                  {"host_scale", setup.bundle.host_scale},
                  {"device_scale", setup.bundle.device_scale},
                  {"steps", run.counters.steps},
                  {"preemptions", run.counters.preemptions},
                  {"cached_tokens", run.counters.prompt_tokens_cached}};
  return json;
}

// Sums over seeds of every statistic, from both beginnings.
struct SeedTable {
  std::vector<RunStatistics> arrival, queued;

  void add(const StepSimSetup& setup, const StepRunResult& run) {
    arrival.push_back(run_statistics(run, setup.requests, false));
    queued.push_back(run_statistics(run, setup.requests, true));
  }

  std::vector<std::string> lines(int64_t first_seed) const {
    std::vector<std::string> lines;
    lines.push_back(fmt::format(
        "{} seeds from {} on, ms; from arrival (anchor pickup) and from the queue (anchor queued)",
        arrival.size(), first_seed));
    lines.push_back(fmt::format("{:<16} {:>12} {:>10} {:>7}   {:>12} {:>10} {:>7}", "Statistic", "Mean", "SD",
                                "SD%", "Mean", "SD", "SD%"));
    for (size_t i = 0; i < kNumRunStatistics; ++i) {
      lines.push_back(
          fmt::format("{:<16} {}   {}", run_statistic_name(i), cells(arrival, i), cells(queued, i)));
    }
    return lines;
  }

 private:
  static std::string cells(const std::vector<RunStatistics>& runs, size_t i) {
    std::vector<double> values;
    for (const RunStatistics& run : runs) values.push_back(run[i]);
    const Spread s = spread(values);
    return fmt::format("{:>12.3f} {:>10.3f} {:>6.1f}%", s.mean, s.sd, s.sd_pct);
  }
};

std::string start_text(const ParsedOptions& parsed, const StepSimSetup& setup, const std::string& run_id) {
  const SchedulerConfig& scheduler = setup.config.scheduler;
  KvInitLine line;
  line.blocks = scheduler.num_blocks;
  line.tokens = setup.kv_tokens;
  std::vector<std::string> notes = setup.notes;
  const SchedulerOptions& o = scheduler.options;
  notes.push_back(fmt::format(
      "Step bundle: {}; host x {:.4f}, device x {:.4f}; max_num_seqs {}, max_num_batched_tokens {}, depth {}",
      parsed.options.step_sim.step_bundle, setup.bundle.host_scale, setup.bundle.device_scale, o.max_num_seqs,
      o.max_num_batched_tokens, o.scheduling_depth));
  return sim_log_header(parsed, run_id) + sim_log_start({line}, notes);
}

}  // namespace

Status simulate_with_step_bundle(const ParsedOptions& parsed, Clock& wall,
                                 const std::atomic<bool>& interrupt) {
  const TimeNs started_ns = wall.now_ns();
  const SimOptions& options = parsed.options.sim;
  const std::string run_id = sim_run_id(parsed);
  VLLM_ASSIGN_OR_RETURN(StepSimSetup setup, make_step_sim_setup(parsed));
  Reporter reporter(setup, options.log_interval_s);
  VLLM_RETURN_IF_ERROR(reporter.open_steps(with_run_id(options.steps, run_id)));
  VLLM_RETURN_IF_ERROR(print_log(start_text(parsed, setup, run_id)));

  const auto run_with = [&](const StepRunConfig& config, const StepRunWatcher& watcher) {
    auto run = run_steps(setup.bundle, config, setup.requests, watcher, &interrupt);
    return run ? std::move(run) : Result<StepRunResult>(run.status().with_context(setup.workload.path));
  };
  StepRunConfig config = setup.config;
  config.keep_itl = options.itl;
  VLLM_ASSIGN_OR_RETURN(
      const StepRunResult first,
      run_with(config, [&](TimeNs now_ns, const CoreCounters& counters, const StepRecord& step) {
        reporter.step(now_ns, counters, step);
      }));
  VLLM_RETURN_IF_ERROR(reporter.finish(first.end_ns));
  SeedTable table;
  table.add(setup, first);
  config.keep_itl = false;
  for (int more = 1; more < parsed.options.step_sim.seeds; ++more) {
    ++config.seed;
    VLLM_ASSIGN_OR_RETURN(const StepRunResult run, run_with(config, {}));
    table.add(setup, run);
  }

  SimResults results = results_of(setup, first);
  results.log_interval_s = options.log_interval_s;
  results.throughput = reporter.throughput();
  results.output_path = with_run_id(options.output, run_id);
  if (!results.output_path.empty()) VLLM_RETURN_IF_ERROR(write_csv(results.output_path, setup, first));
  if (!options.output_json.empty()) {
    VLLM_RETURN_IF_ERROR(write_file_atomically(with_run_id(options.output_json, run_id),
                                               json_text(report_json(parsed, setup, first))));
  }
  if (parsed.options.step_sim.seeds > 1) results.notes = table.lines(parsed.options.runtime.seed);
  results.wall_ns = wall.now_ns() - started_ns;
  return print_log(sim_log_results(std::move(results)));
}

}  // namespace vllm
