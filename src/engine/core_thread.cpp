#include "engine/core_thread.h"

#include <pthread.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

namespace vllm {
namespace {

// One wait of a caller who has a deadline, short enough for every duration type.
constexpr TimeNs kLongestWaitNs = 3600 * kNsPerSecond;

TimeNs deadline_after(TimeNs now_ns, TimeNs timeout_ns) {
  const TimeNs room = std::numeric_limits<TimeNs>::max() - now_ns;
  return now_ns + std::clamp<TimeNs>(timeout_ns, 0, room);
}

// Made while there is memory for it.
const Status& out_of_memory() {
  static const Status status = failed("out of memory in the engine's core thread");
  return status;
}

}  // namespace

CoreThread::CoreThread(CoreThreadConfig config, std::unique_ptr<Executor> executor, Clock& clock)
    : vocab_size_(config.vocab_size),
      eos_token_ids_(std::move(config.eos_token_ids)),
      max_queued_(config.max_queued),
      on_step_(std::move(config.on_step)),
      clock_(clock),
      executor_(std::move(executor)),
      loop_(
          std::make_unique<CoreLoop>(config.scheduler, *executor_, clock, static_cast<CoreObserver*>(this))) {
  publish_counters();
  static_cast<void>(out_of_memory());
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "vllm-core");
}

CoreThread::~CoreThread() {
  shutdown(0);
  // After a failure the executor may still hold plans, which lie in the loop.
  executor_.reset();
}

// ---- any thread

Status CoreThread::check_prompt(const EngineRequest& request) const {
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int32_t token = request.prompt[i];
    if (token < 0 || token >= vocab_size_) {
      return bad_input(
          "request {}: prompt token {} at position {} is outside the vocabulary; accepted are 0 to {}",
          request.name, token, i, vocab_size_ - 1);
    }
  }
  return Status::ok();
}

Result<RequestId> CoreThread::submit(EngineRequest request, EngineCallbacks callbacks) {
  Submission submission;
  submission.refusal = check_prompt(request);
  submission.request = std::move(request);
  submission.callbacks = std::move(callbacks);

  const std::lock_guard lock(mutex_);
  if (!death_.is_ok()) return death_.with_context("the engine stopped");
  if (closed_)
    return refused("request {}: the engine is shut down and takes no more requests", submission.request.name);
  if (static_cast<int64_t>(living_.size()) >= max_queued_) {
    return refused("request {}: {} requests are queued or running, the most that max_queued allows",
                   submission.request.name, living_.size());
  }
  const RequestId id = next_id_++;
  submission.id = id;
  living_.insert(id);
  inbox_.push_back(std::move(submission));
  if (core_waits_) wake_.notify_one();
  return id;
}

void CoreThread::abort(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (!living_.contains(id)) return;
  if (!inbox_.empty() && id >= inbox_.front().id) {
    inbox_[id - inbox_.front().id].aborted = true;
    return;  // the core is awake: a submission waits for it
  }
  aborts_.insert(id);
  if (core_waits_) wake_.notify_one();
}

void CoreThread::shutdown(TimeNs timeout_ns) {
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    const TimeNs deadline_ns = deadline_after(clock_.now_ns(), timeout_ns);
    while (!living_.empty() && !gone_) {
      const TimeNs left_ns = deadline_ns - clock_.now_ns();
      if (left_ns <= 0) break;
      changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left_ns, kLongestWaitNs)));
    }
    stop_ = true;
    wake_.notify_one();
  }
  const std::lock_guard join_lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

CoreCounters CoreThread::counters() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_;
}

bool CoreThread::reset_for_measurement() {
  const std::lock_guard one_at_a_time(reset_mutex_);
  std::unique_lock lock(mutex_);
  if (gone_ || stop_ || !living_.empty()) return false;
  reset_ = ResetState::kAsked;
  wake_.notify_one();
  changed_.wait(lock, [this] { return reset_ != ResetState::kAsked || gone_; });
  const bool done = reset_ == ResetState::kDone;
  reset_ = ResetState::kNone;
  return done;
}

Status CoreThread::health() const {
  const std::lock_guard lock(mutex_);
  return death_;
}

// ---- the core thread

void CoreThread::run() {
  try {
    serve();
    end_everything();
  } catch (const std::bad_alloc&) {
    // The loop may have stopped in the middle of a step: it is left alone from here on.
    end_without_loop(out_of_memory());
  }
  publish_counters();
  const std::lock_guard lock(mutex_);
  gone_ = true;
  changed_.notify_all();
}

void CoreThread::serve() {
  while (take_inbox()) {
    for (Submission& submission : taken_) add_taken(submission);
    taken_.clear();
    apply_aborts();
    const Result<bool> worked = loop_->turn();
    if (!worked.is_ok()) {
      mark_dead(worked.status());
      break;
    }
    // As vLLM takes its samples: after a step's outputs, not between planning and outputs.
    if (loop_->counters().steps != published_steps_) publish_counters();
  }
}

// Blocks while there is nothing to do. False: leave.
bool CoreThread::take_inbox() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (stop_) return false;
    if (!inbox_.empty() || !aborts_.empty() || !loop_->idle()) break;
    if (reset_ == ResetState::kAsked) {
      answer_reset();
      continue;
    }
    core_waits_ = true;
    wake_.wait(lock);
    core_waits_ = false;
  }
  taken_.swap(inbox_);
  taken_aborts_.assign(aborts_.begin(), aborts_.end());
  aborts_.clear();
  return true;
}

// With mutex_ held and the loop idle, so no request can slip in between.
void CoreThread::answer_reset() {
  const bool done = living_.empty() && loop_->reset_prefix_cache();
  if (done) {
    loop_->reset_counters();
    publish_counters();
  }
  reset_ = done ? ResetState::kDone : ResetState::kRefused;
  changed_.notify_all();
}

void CoreThread::add_taken(Submission& submission) {
  EngineRequest& request = submission.request;
  Status refusal = std::move(submission.refusal);
  if (refusal.is_ok() && !submission.aborted) {
    RequestInput input;
    input.id = submission.id;
    input.prompt = request.prompt;
    input.max_tokens = request.max_tokens;
    input.min_tokens = request.min_tokens;
    input.ignore_eos = request.ignore_eos;
    input.eos_token_ids = eos_token_ids_;
    input.stop_token_ids = request.stop_token_ids;
    input.priority = request.priority;
    input.arrival_ns = clock_.now_ns();
    input.cache_salt = std::move(request.cache_salt);
    // Known before it is added, so that nothing of it can arrive unheard.
    clients_[submission.id].callbacks = std::move(submission.callbacks);
    refusal = loop_->add(input, request.sampling, request.name);
    if (refusal.is_ok()) return;
    auto node = clients_.extract(submission.id);
    submission.callbacks = std::move(node.mapped().callbacks);
  }
  EngineResult result;
  result.status = refusal.is_ok() ? Status::ok() : refusal.with_context("request " + request.name);
  result.reason = EndReason::kAborted;
  result.times.finished_ns = clock_.now_ns();
  finish(submission.id, submission.callbacks, std::move(result));
  submission.callbacks = {};  // told
}

void CoreThread::apply_aborts() {
  for (const RequestId id : taken_aborts_) loop_->abort(id);
  taken_aborts_.clear();
}

void CoreThread::on_collected() {
  {
    const std::lock_guard lock(mutex_);
    if (aborts_.empty()) return;
    taken_aborts_.assign(aborts_.begin(), aborts_.end());
    aborts_.clear();
  }
  apply_aborts();
}

void CoreThread::on_token(RequestId id, int32_t token, TimeNs ready_ns) {
  Client& client = clients_.at(id);
  client.tokens.push_back(token);
  if (client.callbacks.on_token) client.callbacks.on_token(id, token, ready_ns);
}

void CoreThread::on_end(RequestId id, EndReason reason, const RequestTimes& times) {
  if (!loop_->failure().is_ok()) mark_dead(loop_->failure());
  auto node = clients_.extract(id);
  assert(!node.empty());
  EngineResult result;
  result.status = loop_->failure();
  result.reason = reason;
  result.tokens = std::move(node.mapped().tokens);
  result.times = times;
  finish(id, node.mapped().callbacks, std::move(result));
}

void CoreThread::on_step(const StepPlan& plan, const StepRecord& record) {
  publish_counters();
  on_step_(plan, record);
}

// Forgotten before it is told: a caller who hears of the last end may read counters, reset or submit at once.
void CoreThread::finish(RequestId id, EngineCallbacks& callbacks, EngineResult result) {
  if (clients_.empty()) publish_counters();
  {
    const std::lock_guard lock(mutex_);
    living_.erase(id);
    aborts_.erase(id);
    if (living_.empty()) changed_.notify_all();
  }
  if (callbacks.on_end) callbacks.on_end(id, std::move(result));
}

// On the way out: requests that the loop has, then those that it never saw, then what is still on the device.
void CoreThread::end_everything() {
  std::vector<RequestId> ids;
  for (const auto& [id, client] : clients_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const RequestId id : ids) loop_->abort(id);
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;  // from here on the inbox stays empty once it is
      taken_.swap(inbox_);
    }
    if (taken_.empty()) break;
    for (Submission& submission : taken_) {
      if (submission.refusal.is_ok()) submission.refusal = loop_->failure();
      submission.aborted = true;
      add_taken(submission);
    }
    taken_.clear();
  }
  // No request lives, so this ends after the steps in flight and one that tells the executor of the ends.
  while (true) {
    const Result<bool> worked = loop_->turn();
    if (!worked.is_ok() || !worked.value()) return;
  }
}

// Whoever waits for an end hears of it, whatever state the loop is in.
void CoreThread::end_without_loop(const Status& why) {
  mark_dead(why);
  const auto end = [&](RequestId id, EngineCallbacks& callbacks, std::vector<int32_t> tokens) {
    EngineResult result;
    result.status = why;
    result.reason = EndReason::kAborted;
    result.tokens = std::move(tokens);
    result.times.finished_ns = clock_.now_ns();
    try {
      finish(id, callbacks, std::move(result));
    } catch (const std::bad_alloc&) {
      return;  // the client's own; the next one is told all the same
    }
  };
  while (!clients_.empty()) {
    auto node = clients_.extract(clients_.begin());
    end(node.key(), node.mapped().callbacks, std::move(node.mapped().tokens));
  }
  for (Submission& submission : taken_) end(submission.id, submission.callbacks, {});
  taken_.clear();
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    taken_.swap(inbox_);
  }
  for (Submission& submission : taken_) end(submission.id, submission.callbacks, {});
  taken_.clear();
}

void CoreThread::publish_counters() {
  const CoreCounters& now = loop_->counters();
  published_steps_ = now.steps;
  const std::lock_guard lock(counters_mutex_);
  counters_ = now;
}

void CoreThread::mark_dead(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (death_.is_ok()) death_ = why;
}

}  // namespace vllm
