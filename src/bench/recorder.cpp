#include "bench/recorder.h"

#include <cmath>
#include <utility>

namespace vllm {

Recorder::Recorder(ReplayInput& input, SystemUnderTest& target, Clock& clock, const Settings& settings)
    : input_(input),
      target_(target),
      clock_(clock),
      settings_(settings),
      traces_(input.calls.size()),
      ticker_(settings.tick_ns) {}

void Recorder::begin(TimeNs start_ns) {
  ticker_.set_start_ns(start_ns);
  for (size_t i = 0; i < input_.calls.size(); ++i) {
    const ReplayCall& call = input_.calls[i];
    if (call.released) continue;
    const double offset_ns = static_cast<double>(call.arrival_ns) / settings_.speed;
    queue_.push(start_ns + static_cast<TimeNs>(std::llround(offset_ns)), i);
    if (call.next != kNoCall) queue_.open_chain();
  }
}

Status Recorder::issue(size_t index, TimeNs due_ns) {
  ReplayCall& call = input_.calls[index];
  CallTrace& trace = traces_[index];
  trace.token_ns.reserve(static_cast<size_t>(call.output_toks));
  TargetRequest request;
  request.index = index;
  request.name = fmt::format("bench-{}", index);
  request.prompt = std::move(call.prompt);
  request.output_tokens = call.output_toks;
  trace.due_ns = due_ns;
  trace.issued = true;
  trace.issued_epoch_ns = clock_.epoch_ns();
  trace.issued_ns = clock_.now_ns();
  // Counted before it is handed over: its end may come before issue returns.
  num_issued_.fetch_add(1, std::memory_order_acq_rel);
  Status status = target_.issue(std::move(request));
  if (status.is_ok()) return status;
  num_issued_.fetch_sub(1, std::memory_order_acq_rel);
  trace.issued = false;
  status = status.with_context(fmt::format("request bench-{} (line {})", index, call.line));
  fail(status);
  return status;
}

void Recorder::on_token(size_t index, TimeNs ready_ns) {
  traces_[index].token_ns.push_back(ready_ns);
  output_tokens_.fetch_add(1, std::memory_order_relaxed);
}

void Recorder::on_end(size_t index, const TargetEnd& end) {
  const ReplayCall& call = input_.calls[index];
  CallTrace& trace = traces_[index];
  trace.times = end.times;
  trace.ended = true;
  if (!end.status.is_ok()) {
    fail(end.status.with_context(fmt::format("request bench-{} (line {})", index, call.line)));
  } else if (end.reason != EndReason::kAborted && end.tokens != call.output_toks) {
    fail(failed("request bench-{} (line {}): ended with {} tokens of the {} that were asked for", index,
                call.line, end.tokens, call.output_toks));
  } else if (end.reason != EndReason::kAborted) {
    trace.finished = true;
    num_finished_.fetch_add(1, std::memory_order_acq_rel);
  }
  if (call.next != kNoCall) {
    // The chain goes on only when this call gave what was asked; a failed run stops anyway.
    if (trace.finished) queue_.push(end.times.finished_ns + call.tool_duration_ns, call.next);
    const bool last_link = !trace.finished || input_.calls[call.next].next == kNoCall;
    if (last_link) queue_.close_chain();
  }
  num_ended_.fetch_add(1, std::memory_order_acq_rel);
}

void Recorder::on_step(const CoreCounters& after, const StepRecord& record) {
  ++steps_;
  ticker_.sample(0, record.t_out_ns, after);
  if (settings_.step_log == nullptr) return;
  Status status = settings_.step_log->append(record);
  if (status.is_ok()) return;
  fail(std::move(status));
  settings_.step_log = nullptr;
}

void Recorder::fail(Status status) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_.is_ok()) failure_ = std::move(status);
}

Status Recorder::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

RequestRecord make_request_record(const ReplayInput& input, const CallTrace& trace, size_t index,
                                  bool with_itl) {
  const auto stamp = [](TimeNs t) { return t > 0 ? std::optional<double>(ns_to_s(t)) : std::nullopt; };
  RequestRecord record;
  record.request_id = fmt::format("bench-{}", index);
  record.input_toks = input.calls[index].input_toks;
  record.output_toks = static_cast<int64_t>(trace.token_ns.size());
  record.arrival_time_s = stamp(trace.issued_epoch_ns);
  record.queued_ts_s = stamp(trace.times.queued_ns);
  record.scheduled_ts_s = stamp(trace.times.scheduled_ns);
  record.first_token_ts_s = stamp(trace.times.first_token_ns);
  record.last_token_ts_s = stamp(trace.times.last_token_ns);
  record.issued_ts_s = stamp(trace.issued_ns);
  record.finished_ts_s = stamp(trace.times.finished_ns);
  if (trace.issued) record.send_lag_s = ns_to_s(trace.issued_ns - trace.due_ns);
  record.num_preemptions = trace.times.num_preemptions;
  record.cached_toks = trace.times.cached_tokens;
  if (with_itl) {
    for (size_t i = 1; i < trace.token_ns.size(); ++i) {
      record.itl_s.push_back(ns_to_s(trace.token_ns[i] - trace.token_ns[i - 1]));
    }
  }
  return record;
}

Status check_time_order(const std::vector<CallTrace>& traces) {
  for (size_t i = 0; i < traces.size(); ++i) {
    const CallTrace& t = traces[i];
    const std::pair<const char*, TimeNs> stamps[] = {{"due", t.due_ns},
                                                     {"issued", t.issued_ns},
                                                     {"queued", t.times.queued_ns},
                                                     {"scheduled", t.times.scheduled_ns},
                                                     {"first token", t.times.first_token_ns},
                                                     {"last token", t.times.last_token_ns},
                                                     {"finished", t.times.finished_ns}};
    for (size_t k = 1; k < std::size(stamps); ++k) {
      if (stamps[k].second >= stamps[k - 1].second) continue;
      return failed(
          "request bench-{}: its '{}' stamp is {} ns before its '{}' stamp; the recording cannot be trusted",
          i, stamps[k].first, stamps[k - 1].second - stamps[k].second, stamps[k - 1].first);
    }
  }
  return Status::ok();
}

}  // namespace vllm
