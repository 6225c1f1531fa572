#include "sim/step_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "metrics/latency.h"
#include "sim/step_executor.h"

namespace vllm {
namespace {

class Collector final : public CoreObserver {
 public:
  Collector(StepRunResult& result, bool keep_itl, bool steps)
      : result_(result), keep_itl_(keep_itl), steps_(steps) {}

  void on_token(RequestId id, int32_t, TimeNs ready_ns) override {
    StepRunTimes& times = result_.requests[id];
    if (!has_token_[id]) {
      has_token_[id] = true;
      times.first_token_ns = ready_ns;
    } else if (keep_itl_) {
      times.itl_ns.push_back(ready_ns - times.last_token_ns);
    }
    times.last_token_ns = ready_ns;
  }
  void on_end(RequestId id, EndReason, const RequestTimes& times) override {
    StepRunTimes& own = result_.requests[id];
    own.queued_ns = times.queued_ns;
    own.scheduled_ns = times.scheduled_ns;
    own.preemptions = times.num_preemptions;
    own.cached_tokens = times.cached_tokens;
    result_.finished.push_back(id);
  }
  void on_step(const StepPlan&, const StepRecord& record) override {
    if (loop_ != nullptr && *watcher_) (*watcher_)(clock_->now_ns(), loop_->counters(), record);
  }
  bool wants_steps() const override { return steps_; }

  void watch(const StepRunWatcher& watcher, const CoreLoop& loop, const Clock& clock) {
    watcher_ = &watcher;
    loop_ = &loop;
    clock_ = &clock;
  }
  void resize(size_t requests) {
    result_.requests.resize(requests);
    has_token_.assign(requests, false);
  }

 private:
  StepRunResult& result_;
  const bool keep_itl_, steps_;
  std::vector<bool> has_token_;
  const StepRunWatcher* watcher_ = nullptr;
  const CoreLoop* loop_ = nullptr;
  const Clock* clock_ = nullptr;
};

}  // namespace

Result<StepRunResult> run_steps(const StepBundle& bundle, const StepRunConfig& config,
                                std::span<const StepRunRequest> requests, const StepRunWatcher& watcher,
                                const std::atomic<bool>* interrupt) {
  StepRunResult result;
  Collector collector(result, config.keep_itl, static_cast<bool>(watcher));
  collector.resize(requests.size());
  VirtualClock clock;
  const int depth = config.scheduler.options.scheduling_depth;
  StepExecutor executor(clock, StepMachine(bundle, config.graphs, config.host_factor, config.seed), depth);
  CoreLoop loop(config.scheduler, executor, clock, &collector);
  collector.watch(watcher, loop, clock);

  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].arrival_ns < requests[b].arrival_ns; });
  const auto front_ns = static_cast<TimeNs>(std::llround(bundle.host.front_ms * 1e6));
  const auto seen_ns = [&](size_t i) { return requests[order[i]].arrival_ns + front_ns; };
  const SamplingParams greedy;
  size_t next = 0;
  while (true) {
    if (interrupt != nullptr && interrupt->load(std::memory_order_relaxed)) {
      return aborted("the simulation was interrupted at {:.3f} simulated seconds", ns_to_s(clock.now_ns()));
    }
    // A full pipeline is waited for without a look at what arrived; that comes before the next plan.
    const bool looks = loop.num_in_flight() < depth;
    for (; looks && next < order.size() && seen_ns(next) <= clock.now_ns(); ++next) {
      const StepRunRequest& request = requests[order[next]];
      RequestInput input;
      input.id = order[next];
      input.prompt = request.prompt;
      input.max_tokens = input.min_tokens = request.output_toks;
      input.ignore_eos = true;
      input.arrival_ns = request.arrival_ns;
      const Status added =
          loop.add(input, greedy, watcher ? fmt::format("sim-{}", order[next]) : std::string());
      if (!added.is_ok()) return added.with_context(fmt::format("line {}", request.line));
    }
    VLLM_ASSIGN_OR_RETURN(const bool worked, loop.turn());
    if (worked) continue;
    if (next == order.size()) break;
    clock.advance_to_ns(seen_ns(next));
  }
  result.counters = loop.counters();
  result.end_ns = clock.now_ns();
  return result;
}

const char* run_statistic_name(size_t i) {
  static constexpr const char* kNames[kNumRunStatistics] = {
      "TTFT Mean",    "TTFT Median",    "TTFT P90",    "TTFT P95",    "TTFT P99",
      "TPOT Mean",    "TPOT Median",    "TPOT P90",    "TPOT P95",    "TPOT P99",
      "Latency Mean", "Latency Median", "Latency P90", "Latency P95", "Latency P99"};
  return kNames[i];
}

RunStatistics run_statistics(const StepRunResult& result, std::span<const StepRunRequest> requests,
                             bool from_queued) {
  std::array<std::vector<double>, 3> values;
  for (const size_t i : result.finished) {
    const StepRunTimes& times = result.requests[i];
    const TimeNs begin = from_queued ? times.queued_ns : requests[i].arrival_ns;
    const RequestLatency latency = request_latency(ns_to_s(begin), ns_to_s(times.first_token_ns),
                                                   ns_to_s(times.last_token_ns), requests[i].output_toks);
    values[0].push_back(latency.ttft_ms);
    if (latency.tpot_ms) values[1].push_back(*latency.tpot_ms);
    values[2].push_back(latency.latency_ms);
  }
  RunStatistics statistics{};
  for (size_t v = 0; v < values.size(); ++v) {
    const Summary s = summarise(std::move(values[v]));
    const double row[] = {s.mean, s.median, s.p90, s.p95, s.p99};
    std::copy(std::begin(row), std::end(row), statistics.begin() + static_cast<ptrdiff_t>(5 * v));
  }
  return statistics;
}

}  // namespace vllm
