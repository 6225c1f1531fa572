#include "bench/run.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/memory_facts.h"
#include "bench/engine_target.h"
#include "bench/environment.h"
#include "bench/load_summary.h"
#include "bench/meta.h"
#include "bench/output_dir.h"
#include "bench/plots.h"
#include "bench/recorder.h"
#include "bench/replay.h"
#include "bench/replay_input.h"
#include "bench/replay_progress.h"
#include "bench/run_files.h"
#include "bench/warmup.h"
#include "engine/preparation.h"
#include "formats/json.h"

namespace vllm {
namespace {

// From "go" to the first instant at which a request can be due: both threads are up by then.
constexpr TimeNs kLeadTime = 20 * kNsPerMs;
constexpr TimeNs kPoll = 20 * kNsPerMs;
// An abort takes effect between two steps, and a step of a slow machine may take long.
constexpr TimeNs kAbortPatience = 10 * kNsPerSecond;

constexpr unsigned long kTimerSlack =
    1000;  // nanoseconds that the kernel may add to a sleep; 50,000 otherwise

constexpr const char* kInterrupted = "interrupted (Ctrl-C or SIGTERM)";

// Made while there is memory for it.
const Status& out_of_memory() {
  static const Status status = failed("out of memory during the replay");
  return status;
}

// For the issuing thread: it works for microseconds a request, and on cores that compute all the time it
// would otherwise wait for its turn. Where real-time priority is not allowed it stays as it is. False then.
bool prefer_this_thread() {
  prctl(PR_SET_TIMERSLACK, kTimerSlack, 0, 0, 0);
  sched_param parameters{};
  parameters.sched_priority = 1;
  return pthread_setschedparam(pthread_self(), SCHED_RR, &parameters) == 0;
}

// Requests that can never fit, before anything is loaded. With an absolute knob the plan is known exactly by
// now; otherwise the pool is measured later, and only what no pool could hold is refused here.
Status check_fit_before_start(const Options& options, const ModelConfig& model, const ReplayInput& input) {
  VLLM_ASSIGN_OR_RETURN(PlanResult planned, plan_without_engine(options));
  VLLM_RETURN_IF_ERROR(plan_error(planned));
  KvPlan& plan = planned.plan;
  if (!has_absolute_knob(options)) {
    plan.max_model_len = options.model.max_model_len.value_or(model.max_position_embeddings);
    plan.usable_blocks = std::numeric_limits<int64_t>::max() / 4;
    plan.blocks = plan.usable_blocks + 1;
  }
  return check_calls_fit(input, plan, options.scheduler.max_num_batched_tokens);
}

// One run from its engine to its files. Lives on one thread; the issuing thread is its own.
class Run {
 public:
  Run(const ParsedOptions& parsed, Clock& clock, const std::atomic<bool>& interrupted, OutputDir dir,
      ReplayInput input)
      : parsed_(parsed),
        options_(parsed.options),
        clock_(clock),
        interrupted_(interrupted),
        dir_(std::move(dir)),
        input_(std::move(input)) {}

  Status execute();

 private:
  Status start_engine();
  Status resolve_only();
  Status record();  // from the first submission on
  Status replay();
  void wait_for_ends(const std::atomic<bool>& issuer_failed);
  Status verify() const;
  Status finish();
  Status give_up(const Status& why);
  RunOutcome outcome() const;
  void draw(const LoadSummary& summary) const;

  const ParsedOptions& parsed_;
  const Options& options_;
  Clock& clock_;
  const std::atomic<bool>& interrupted_;
  OutputDir dir_;
  ReplayInput input_;
  RunFacts facts_;
  std::unique_ptr<SystemUnderTest> target_;
  std::optional<StepLogWriter> step_log_;
  std::unique_ptr<Recorder> recorder_;
  TimeNs start_ns_ = 0, finished_epoch_ns_ = 0;
};

Status Run::start_engine() {
  VLLM_ASSIGN_OR_RETURN(target_, start_engine_target(options_, clock_));
  facts_.parsed = &parsed_;
  facts_.dataset_path = input_.path;
  facts_.dataset_sha256 = input_.sha256;
  facts_.num_requests = static_cast<int64_t>(input_.calls.size());
  facts_.sessions_skipped = input_.sessions_skipped;
  facts_.sessions_replayed = input_.sessions_replayed;
  facts_.target = target_->name();
  facts_.engine = target_->facts();
  facts_.hardware = hardware_json();
  facts_.load_average_at_start = load_average_json();
  facts_.started_epoch_ns = clock_.epoch_ns();
  if (facts_.engine == nullptr) return Status::ok();
  return check_calls_fit(input_, facts_.engine->plan, options_.scheduler.max_num_batched_tokens);
}

RunOutcome Run::outcome() const {
  RunOutcome out;
  out.finished_epoch_ns = finished_epoch_ns_;
  out.counters = target_->counters();
  out.steps = recorder_ != nullptr ? recorder_->steps() : 0;
  out.memory = target_->memory();
  out.process_peak_bytes = read_process_memory().peak_rss_bytes;
  out.load_average_at_end = load_average_json();
  return out;
}

Status Run::resolve_only() {
  finished_epoch_ns_ = clock_.epoch_ns();
  target_->stop();
  VLLM_RETURN_IF_ERROR(dir_.write("meta.json", json_text(meta_json(facts_, outcome()))));
  fmt::print("Resolved only, no request was issued: {}\n", dir_.file("meta.json"));
  return Status::ok();
}

Status Run::execute() {
  VLLM_RETURN_IF_ERROR(start_engine());
  if (interrupted_.load()) return aborted("interrupted while the engine started; nothing was recorded");
  if (options_.bench_run.resolve_only) return resolve_only();

  const int64_t vocab_size = facts_.engine != nullptr ? facts_.engine->model.vocab_size : 0;
  const WarmupPlan warmup = plan_warmup(input_, options_.bench_run.warmup);
  if (warmup.count > 0) {
    log_info("warm-up: {} prompts of {} tokens, {} tokens out", warmup.count, warmup.prompt_tokens,
             warmup.output_tokens);
    VLLM_RETURN_IF_ERROR(run_warmup(*target_, clock_,
                                    warmup_prompts(warmup, input_, vocab_size, options_.runtime.seed),
                                    warmup.output_tokens, interrupted_));
  }
  facts_.started_epoch_ns = clock_.epoch_ns();
  const Status started = write_start_files(dir_, facts_);
  // A full disk; any other error means that the folder is another run's by now.
  if (started.code() == StatusCode::kIo) return give_up(started);
  VLLM_RETURN_IF_ERROR(started);
  Status status = out_of_memory();
  try {
    status = record();
  } catch (const std::bad_alloc&) {
    // It keeps the reason that was made before: nothing is allocated here.
  }
  return status.is_ok() ? status : give_up(status);
}

Status Run::record() {
  const BenchRunOptions& bench = options_.bench_run;
  Recorder::Settings settings;
  settings.tick_ns = std::max<TimeNs>(1, std::llround(bench.tick_seconds * 1e9));
  settings.speed = bench.speed;
  if (bench.record_steps) {
    VLLM_ASSIGN_OR_RETURN(StepLogWriter writer, StepLogWriter::create(dir_.file(kStepLogName)));
    step_log_.emplace(std::move(writer));
    settings.step_log = &*step_log_;
  }
  recorder_ = std::make_unique<Recorder>(input_, *target_, clock_, settings);
  target_->observe(recorder_.get());
  VLLM_RETURN_IF_ERROR(replay());
  VLLM_RETURN_IF_ERROR(verify());
  return finish();
}

Status Run::replay() {
  log_info("replay: {} requests{}", input_.calls.size(),
           options_.bench_run.speed != 1.0 ? fmt::format(", arrivals at --speed {}", options_.bench_run.speed)
                                           : "");
  start_ns_ = clock_.now_ns() + kLeadTime;
  recorder_->begin(start_ns_);
  std::atomic<bool> stop = false, issuer_failed = false, real_time = false;
  std::thread issuer;
  try {
    issuer = std::thread([&] {
      if (prefer_this_thread()) real_time = true;
      try {
        const Status status =
            issue_on_schedule(recorder_->queue(), clock_, stop,
                              [&](size_t index, TimeNs due_ns) { return recorder_->issue(index, due_ns); });
        // The recorder keeps the reason.
        if (!status.is_ok()) issuer_failed = true;
      } catch (const std::bad_alloc&) {
        recorder_->fail(out_of_memory());
        issuer_failed = true;
      }
    });
  } catch (const std::system_error& error) {
    return failed("the issuing thread cannot be started ({})", error.what());
  }
  pthread_setname_np(issuer.native_handle(), "vllm-issue");
  try {
    wait_for_ends(issuer_failed);
  } catch (const std::bad_alloc&) {
    recorder_->fail(out_of_memory());
  }
  stop = true;
  issuer.join();
  if (real_time) facts_.issue_thread_priority = "real-time";
  if (!recorder_->all_ended()) {
    // Nothing more is issued; what lives is ended, so that aborted.json knows what was finished.
    target_->abort_all();
    const TimeNs patience_end_ns = clock_.now_ns() + kAbortPatience;
    while (recorder_->num_ended() < recorder_->num_issued() && clock_.now_ns() < patience_end_ns) {
      clock_.sleep_until_ns(clock_.now_ns() + kPoll);
    }
  }
  finished_epoch_ns_ = clock_.epoch_ns();
  target_->stop();
  VLLM_RETURN_IF_ERROR(recorder_->failure());
  VLLM_RETURN_IF_ERROR(target_->health());
  if (!recorder_->all_ended() || recorder_->num_finished() < recorder_->num_ended()) {
    return interrupted_.load() ? aborted("{}", kInterrupted)
                               : failed("requests ended without all of their tokens");
  }
  return Status::ok();
}

// Until every call has ended, or something says that the rest is not worth waiting for.
void Run::wait_for_ends(const std::atomic<bool>& issuer_failed) {
  ReplayProgress progress(isatty(STDERR_FILENO) == 1, start_ns_);
  ProgressState state;
  state.total = static_cast<int64_t>(input_.calls.size());
  state.last_due_ns = start_ns_;
  for (const ReplayCall& call : input_.calls) {
    state.total_output_tokens += call.output_toks;
    const double offset_ns = static_cast<double>(call.arrival_ns) / options_.bench_run.speed;
    state.last_due_ns = std::max(state.last_due_ns, start_ns_ + static_cast<TimeNs>(offset_ns));
  }
  while (!recorder_->all_ended() && !interrupted_.load() && !issuer_failed.load() &&
         recorder_->failure().is_ok() && target_->health().is_ok()) {
    clock_.sleep_until_ns(clock_.now_ns() + kPoll);
    const CoreCounters counters = target_->counters();
    state.done = recorder_->num_finished();
    state.output_tokens = recorder_->output_tokens();
    state.running = counters.running;
    state.waiting = counters.waiting;
    fmt::print(stderr, "{}", progress.update(state, clock_.now_ns()));
  }
  fmt::print(stderr, "{}", progress.finish());
  fflush(stderr);
}

// What a reader may rely on, checked rather than assumed.
Status Run::verify() const {
  VLLM_RETURN_IF_ERROR(check_time_order(recorder_->traces()));
  int64_t input_tokens = 0, output_tokens = 0;
  for (const ReplayCall& call : input_.calls) {
    input_tokens += call.input_toks;
    output_tokens += call.output_toks;
  }
  const CoreCounters counters = target_->counters();
  if (counters.prompt_tokens != input_tokens || counters.generation_tokens != output_tokens) {
    return failed("the engine counted {} prompt and {} generated tokens where the dataset has {} and {}",
                  counters.prompt_tokens, counters.generation_tokens, input_tokens, output_tokens);
  }
  return Status::ok();
}

void Run::draw(const LoadSummary& summary) const {
  RunFigures figures;
  const std::string& model = options_.model.model;
  figures.title = fmt::format("{}, {} requests, {}", model.substr(model.find_last_of('/') + 1),
                              summary.completed, cpu_model_name());
  figures.tick_s = options_.bench_run.tick_seconds;
  figures.timeseries = recorder_->timeseries();
  for (const CallTrace& trace : recorder_->traces()) {
    const RequestLatency latency = request_latency(0.0, ns_to_s(trace.times.first_token_ns - trace.due_ns),
                                                   ns_to_s(trace.times.last_token_ns - trace.due_ns),
                                                   static_cast<int64_t>(trace.token_ns.size()));
    figures.ttft_ms.push_back(latency.ttft_ms);
    figures.e2el_ms.push_back(latency.latency_ms);
    if (latency.tpot_ms) figures.tpot_ms.push_back(*latency.tpot_ms);
  }
  const Status drawn = draw_run_figures(figures, dir_);
  if (!drawn.is_ok()) log_warning("no plots: {}", drawn.message());
}

Status Run::finish() {
  const BenchRunOptions& bench = options_.bench_run;
  RunOutcome out = outcome();
  VLLM_RETURN_IF_ERROR(
      write_recording(dir_, *recorder_, bench.record_itl, step_log_ ? &*step_log_ : nullptr));
  const LoadSummary summary = summarise_load(input_, recorder_->traces());
  out.summary = &summary;
  if (!bench.no_plots) draw(summary);
  VLLM_RETURN_IF_ERROR(write_meta(dir_, meta_json(facts_, out)));

  ReportFooter footer;
  footer.plan = facts_.engine != nullptr ? &facts_.engine->plan : nullptr;
  footer.process_peak_bytes = out.process_peak_bytes;
  footer.memory = out.memory;
  footer.diagnostic = diagnostic_reason(options_);
  footer.output_dir = dir_.path();
  fmt::print("{}", load_report(summary, footer));
  return Status::ok();
}

Status Run::give_up(const Status& why) {
  if (target_ != nullptr) target_->stop();
  step_log_.reset();
  const Status written = write_aborted(dir_, facts_, recorder_.get(), why.message(), clock_.epoch_ns());
  if (!written.is_ok()) {
    log_error("aborted.json cannot be written, the one from the start stands ({})", written.message());
  } else {
    log_error("the run is aborted; {} says what was finished", dir_.file("aborted.json"));
  }
  return why;
}

}  // namespace

Status bench_run(const ParsedOptions& parsed, Clock& clock, const std::atomic<bool>& interrupted) {
  const Options& options = parsed.options;
  VLLM_RETURN_IF_ERROR(check_supported(parsed));
  VLLM_ASSIGN_OR_RETURN(OutputDir dir, OutputDir::open(options.bench_run.output_dir));
  // The model's configuration first: it says which token ids exist.
  VLLM_ASSIGN_OR_RETURN(const EnginePreparation preparation, prepare_engine(options));
  EngineSettings settings;
  settings.null_executor = options.bench_run.null_executor;
  VLLM_RETURN_IF_ERROR(check_runnable(preparation, settings));
  VLLM_ASSIGN_OR_RETURN(ReplayInput input,
                        load_replay_input(options.bench_run, preparation.model.vocab_size));
  VLLM_RETURN_IF_ERROR(check_fit_before_start(options, preparation.model, input));
  return Run(parsed, clock, interrupted, std::move(dir), std::move(input)).execute();
}

}  // namespace vllm
