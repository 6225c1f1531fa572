// Reading of a recorded run with its step log, and what must fit together in it.

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "bench/schedule_comparison.h"
#include "formats/json.h"

namespace vllm {
namespace {

TimeNs to_ns(double seconds) { return static_cast<TimeNs>(std::llround(seconds * 1e9)); }

// Our own recordings carry the plan's groups; the others have none, which means full attention throughout.
Result<std::vector<KvGroup>> read_groups(const Json& meta, const std::string& path) {
  std::vector<KvGroup> groups;
  if (!meta.is_object() || !meta.contains("kv_plan") || !meta["kv_plan"].is_object()) return groups;
  const Json& plan = meta["kv_plan"];
  if (!plan.contains("groups") || !plan["groups"].is_array()) return groups;
  for (const Json& entry : plan["groups"]) {
    KvGroup group;
    const bool readable = entry.is_object() && entry.contains("kind") && entry["kind"].is_string();
    const std::string kind = readable ? entry["kind"].get<std::string>() : std::string();
    if (kind == layer_kind_name(LayerKind::kSliding)) {
      if (!entry.contains("window") || !entry["window"].is_number_integer() ||
          entry["window"].get<int64_t>() < 1) {
        return bad_input("{}: kv_plan.groups has a sliding group without a window of at least 1", path);
      }
      group.kind = LayerKind::kSliding;
      group.window = entry["window"].get<int64_t>();
    } else if (kind == layer_kind_name(LayerKind::kRecurrent)) {
      group.kind = LayerKind::kRecurrent;
    } else if (kind != layer_kind_name(LayerKind::kFull) && kind != layer_kind_name(LayerKind::kMla)) {
      return bad_input("{}: kv_plan.groups has the kind '{}'; accepted are full, sliding, mla and recurrent",
                       path, kind);
    }
    groups.push_back(group);
  }
  return groups;
}

// How a request ended that has fewer tokens than the workload asks for: by a token of its own when it ended
// with its last token, from outside when it ended later.
void classify_early_end(const RequestRecord& record, RecordedRequest& request) {
  if (record.finished_ts_s && (!record.last_token_ts_s || *record.finished_ts_s > *record.last_token_ts_s)) {
    request.aborted_ns = to_ns(*record.finished_ts_s);
  } else if (record.output_toks > 0) {
    request.stopped_early = true;
  }
}

Result<RecordedRequest> make_request(const RequestRecord& record, const Workload& workload,
                                     const std::string& path) {
  const auto row = request_row(record.request_id);
  if (!row) {
    return bad_input(
        "{}: the request id '{}' does not name a row; accepted is <name>-<row> or <name>-<row>-<more>", path,
        record.request_id);
  }
  if (*row >= static_cast<int64_t>(workload.requests.size())) {
    return bad_input("{}: request '{}' is row {}, but {} has {} rows", path, record.request_id, *row,
                     workload.path, workload.requests.size());
  }
  const WorkloadRequest& wanted = workload.requests[static_cast<size_t>(*row)];
  if (wanted.input_toks != record.input_toks || wanted.output_toks < record.output_toks) {
    return bad_input(
        "{}: request '{}' has {} input and {} output tokens, line {} of {} has {} and {}: another workload "
        "was "
        "recorded",
        path, record.request_id, record.input_toks, record.output_toks, wanted.line, workload.path,
        wanted.input_toks, wanted.output_toks);
  }
  RecordedRequest request;
  request.index = *row;
  request.queued_ns = to_ns(record.queued_ts_s.value_or(0));
  request.arrival_ns = to_ns(record.arrival_time_s.value_or(record.queued_ts_s.value_or(0)));
  request.output_tokens = record.output_toks;
  request.cached_tokens = record.cached_toks;
  if (record.output_toks < wanted.output_toks) classify_early_end(record, request);
  return request;
}

Status read_requests(RecordedRun& run) {
  const std::string path = join_path(run.dir, "requests.jsonl");
  VLLM_ASSIGN_OR_RETURN(const std::vector<RequestRecord> records, read_requests_jsonl(path));
  std::set<int64_t> seen;
  for (const RequestRecord& record : records) {
    if (!record.queued_ts_s) continue;  // never reached the scheduler
    VLLM_ASSIGN_OR_RETURN(RecordedRequest request, make_request(record, run.workload, path));
    if (!seen.insert(request.index).second) {
      return bad_input("{}: row {} of the workload occurs twice", path, request.index);
    }
    run.requests.push_back(request);
  }
  if (run.requests.empty()) return bad_input("{}: no request of it was queued", path);
  std::stable_sort(run.requests.begin(), run.requests.end(),
                   [](const auto& a, const auto& b) { return a.queued_ns < b.queued_ns; });
  return Status::ok();
}

Status read_steps(RecordedRun& run) {
  VLLM_ASSIGN_OR_RETURN(const std::string path, find_step_log(run.dir));
  VLLM_ASSIGN_OR_RETURN(run.steps, read_step_log(path));
  if (run.steps.empty()) return bad_input("{}: it has no steps", path);
  std::set<int64_t> known;
  for (const RecordedRequest& request : run.requests) known.insert(request.index);
  const auto rows_of = [&](const StepRecord& step, const std::string& id,
                           std::vector<int64_t>& rows) -> Status {
    const auto row = request_row(id);
    if (!row || known.count(*row) == 0) {
      return bad_input("{}: step {} names request '{}', which requests.jsonl does not have", path, step.step,
                       id);
    }
    rows.push_back(*row);
    return Status::ok();
  };
  for (const StepRecord& step : run.steps) {
    std::vector<int64_t>& entries = run.entry_rows.emplace_back();
    std::vector<int64_t>& preempted = run.preempted_rows.emplace_back();
    for (const StepRecord::Entry& entry : step.entries) {
      VLLM_RETURN_IF_ERROR(rows_of(step, entry.request_id, entries));
    }
    for (const std::string& id : step.preempted) VLLM_RETURN_IF_ERROR(rows_of(step, id, preempted));
  }
  return Status::ok();
}

}  // namespace

int observed_depth(const std::vector<StepRecord>& steps) {
  for (size_t k = 1; k < steps.size(); ++k) {
    if (steps[k].t_sched_ns < steps[k - 1].t_out_ns) return 2;
  }
  return 1;
}

Result<RecordedRun> read_recorded_run(const std::string& dir, const std::string& dataset) {
  RecordedRun run;
  run.dir = dir;
  if (!is_directory(dir)) return bad_input("--bench-dir {}: there is no such folder", dir);
  const std::string meta_path = join_path(dir, "meta.json");
  VLLM_ASSIGN_OR_RETURN(const Json meta, read_json_file(meta_path));
  VLLM_ASSIGN_OR_RETURN(run.limits, recorded_limits(meta, meta_path));
  VLLM_ASSIGN_OR_RETURN(run.groups, read_groups(meta, meta_path));
  WorkloadReadOptions options;
  options.need_token_ids = true;
  VLLM_ASSIGN_OR_RETURN(run.workload, read_workload(dataset, options));
  VLLM_RETURN_IF_ERROR(read_requests(run));
  VLLM_RETURN_IF_ERROR(read_steps(run));
  return run;
}

}  // namespace vllm
