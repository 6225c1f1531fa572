#include "bench/replay_input.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace vllm {
namespace {

constexpr auto kMaxArrivalNs = static_cast<double>(kMaxWorkloadTimeNs);

ReplayCall make_call(WorkloadRequest& row) {
  ReplayCall call;
  call.line = row.line;
  call.prompt = std::move(row.input_tok_ids);
  call.input_toks = row.input_toks;
  call.output_toks = row.output_toks;
  call.arrival_ns = row.arrival_ns;
  return call;
}

Status check_session(const WorkloadSession& session, const std::string& path, int64_t vocab_size) {
  for (const auto& call : session.calls) {
    const auto& ids = call.request.input_tok_ids;
    if (ids.empty()) {
      return bad_input("{}:{}: a call of session '{}' has no input_tok_ids, which a replay needs", path,
                       session.line, session.session_id);
    }
    const auto bad =
        std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id < 0 || id >= vocab_size; });
    if (bad != ids.end()) {
      return bad_input("{}:{}: token id {} of session '{}' is outside the model's vocabulary of {}", path,
                       session.line, *bad, session.session_id, vocab_size);
    }
  }
  return Status::ok();
}

void add_session(WorkloadSession& session, ReplayInput& input) {
  for (size_t i = 0; i < session.calls.size(); ++i) {
    ReplayCall call = make_call(session.calls[i].request);
    call.line = session.line;
    call.arrival_ns = session.arrival_ns;
    call.released = i > 0;
    call.tool_duration_ns = session.calls[i].tool_duration_ns;
    if (i + 1 < session.calls.size()) call.next = input.calls.size() + 1;
    input.calls.push_back(std::move(call));
  }
}

// Flat rows and sessions in the order of the file; a session counts as one row.
Status add_rows(Workload& workload, const BenchRunOptions& options, int64_t vocab_size, ReplayInput& input) {
  const bool replay_sessions = options.on_session == SessionPolicy::kReplay;
  size_t flat = 0, session = 0;
  const auto full = [&] {
    return options.num_reqs > 0 && input.flat_rows + input.sessions_replayed >= options.num_reqs;
  };
  while (!full() && (flat < workload.requests.size() || session < workload.sessions.size())) {
    const bool take_flat =
        session == workload.sessions.size() ||
        (flat < workload.requests.size() && workload.requests[flat].line < workload.sessions[session].line);
    if (take_flat) {
      input.calls.push_back(make_call(workload.requests[flat++]));
      ++input.flat_rows;
      continue;
    }
    WorkloadSession& row = workload.sessions[session++];
    if (!replay_sessions) {
      ++input.sessions_skipped;
      continue;
    }
    VLLM_RETURN_IF_ERROR(check_session(row, workload.path, vocab_size));
    add_session(row, input);
    ++input.sessions_replayed;
  }
  return Status::ok();
}

// A small --speed moves arrivals to where no clock can count them.
Status check_arrivals(const ReplayInput& input, double speed) {
  for (const ReplayCall& call : input.calls) {
    if (call.released || static_cast<double>(call.arrival_ns) / speed <= kMaxArrivalNs) continue;
    return usage_error(
        "--speed {}: moves the arrival of {} ns in {}:{} beyond 2^61 ns; accepted here is a speed of at "
        "least "
        "{:.3g}",
        speed, call.arrival_ns, input.path, call.line, static_cast<double>(call.arrival_ns) / kMaxArrivalNs);
  }
  return Status::ok();
}

}  // namespace

Result<ReplayInput> load_replay_input(const BenchRunOptions& options, int64_t vocab_size) {
  WorkloadReadOptions read;
  // Only a file of flat rows can be cut while it is read; with sessions the cut depends on the order of the
  // rows.
  read.max_rows = options.on_session == SessionPolicy::kSkip ? options.num_reqs : 0;
  read.need_token_ids = true;
  read.vocab_size = vocab_size;
  VLLM_ASSIGN_OR_RETURN(Workload workload, read_workload(options.dataset, read));

  ReplayInput input;
  input.path = options.dataset;
  input.sha256 = workload.sha256;
  VLLM_RETURN_IF_ERROR(add_rows(workload, options, vocab_size, input));
  if (input.calls.empty()) {
    return bad_input(
        "{}: all {} rows are sessions, and --on-session skip leaves nothing to replay; give "
        "--on-session replay or a file with flat rows",
        options.dataset, input.sessions_skipped);
  }
  VLLM_RETURN_IF_ERROR(check_arrivals(input, options.speed));
  if (input.sessions_skipped > 0) {
    log_warning("{}: {} session rows are skipped; --on-session replay runs them", options.dataset,
                input.sessions_skipped);
  }
  return input;
}

Status check_calls_fit(const ReplayInput& input, const KvPlan& plan, int64_t max_num_batched_tokens) {
  int64_t unfit = 0;
  int64_t first_line = 0;
  Status first;
  for (const ReplayCall& call : input.calls) {
    Status status = check_request_fits(plan, call.input_toks, call.output_toks, max_num_batched_tokens);
    if (status.is_ok()) continue;
    if (unfit++ == 0) {
      first = std::move(status);
      first_line = call.line;
    }
  }
  if (unfit == 0) return Status::ok();
  return refused("{}: {} of {} requests can never fit; first: line {}: {}", input.path, unfit,
                 input.calls.size(), first_line, first.message());
}

}  // namespace vllm
