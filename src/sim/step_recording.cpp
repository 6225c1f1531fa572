#include "sim/step_recording.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/file.h"
#include "formats/json.h"

namespace vllm {
namespace {

constexpr double kNsPerMsD = 1e6;

// What one request was given between two preemptions.
struct Segment {
  struct Part {
    size_t step, entry;
    int64_t tokens;
  };
  std::vector<Part> parts;
};

struct RequestHistory {
  const RequestRecord* record = nullptr;
  std::vector<Segment> segments{Segment{}};
};

// The tokens that were computed when a segment began. Prefill goes up to the tokens that were known then, and
// what follows has one token a step.
int64_t first_computed(const Segment& segment, int64_t known_tokens) {
  size_t decode = segment.parts.size();
  while (decode > 0 && segment.parts[decode - 1].tokens == 1) --decode;
  int64_t prefill = 0;
  for (size_t i = 0; i < decode; ++i) prefill += segment.parts[i].tokens;
  // A prefill of a single token looks like a decode step.
  if (decode == 0 && !segment.parts.empty()) prefill = 1;
  return std::max<int64_t>(0, known_tokens - prefill);
}

void spread(const RequestHistory& history, std::vector<std::vector<int64_t>>& computed) {
  const RequestRecord& record = *history.record;
  int64_t generated = 0;
  for (size_t s = 0; s < history.segments.size(); ++s) {
    const Segment& segment = history.segments[s];
    const int64_t known = record.input_toks + generated;
    int64_t at = first_computed(segment, known);
    if (s == 0 && history.segments.size() == 1) {
      // Without preemption prompt + output - 1 - hits tokens are planned.
      int64_t planned = 0;
      for (const auto& part : segment.parts) planned += part.tokens;
      at = std::max<int64_t>(0, record.input_toks + record.output_toks - 1 - planned);
    }
    if (s == 0 && record.cached_toks) at = *record.cached_toks;
    for (const auto& part : segment.parts) {
      computed[part.step][part.entry] = at;
      at += part.tokens;
      if (at >= known) ++generated;
    }
  }
}

std::string text_of(const Json& meta, const char* key) {
  const auto found = meta.find(key);
  return found != meta.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void read_names(const Json& meta, StepRecording& recording) {
  recording.hardware = text_of(meta, "hardware");
  const auto hardware = meta.find("hardware");
  if (hardware != meta.end() && hardware->is_object()) recording.hardware = text_of(*hardware, "device_name");
  recording.engine = text_of(meta, "vllm_version");
}

Status read_steps(StepRecording& recording) {
  VLLM_ASSIGN_OR_RETURN(const std::string path, find_step_log(recording.dir));
  VLLM_ASSIGN_OR_RETURN(const std::vector<StepRecord> records, read_step_log(path));
  if (records.empty()) return bad_input("{}: it has no steps", path);
  VLLM_ASSIGN_OR_RETURN(const auto computed, computed_before(records, recording.requests, path));
  const TimeNs origin = records.front().t_sched_ns;
  TimeNs last = origin;
  for (size_t k = 0; k < records.size(); ++k) {
    const StepRecord& record = records[k];
    if (record.t_sched_ns < last || record.t_sched_end_ns < record.t_sched_ns ||
        (record.t_out_ns != 0 && record.t_out_ns < record.t_sched_end_ns)) {
      return bad_input(
          "{}: step {} is planned or ends before its time: t_sched, t_sched_end and t_out must not fall",
          path, record.step);
    }
    last = record.t_sched_ns;
    if (record.t_out_ns == 0) break;  // the recording ended before its outputs
    RecordedStep step;
    for (size_t i = 0; i < record.entries.size(); ++i) {
      step.shape.add_row(record.entries[i].num_tokens, computed[k][i]);
    }
    const auto ms = [origin](TimeNs t) { return static_cast<double>(t - origin) / kNsPerMsD; };
    step.start_ms = ms(record.t_sched_ns);
    step.planned_ms = ms(record.t_sched_end_ns);
    step.out_ms = ms(record.t_out_ns);
    recording.steps.push_back(step);
  }
  if (recording.steps.empty()) return bad_input("{}: no step's outputs came back", path);

  // Stamps of first and last tokens belong to the last outputs before them.
  const double origin_s = recording.origin_s = static_cast<double>(origin) / 1e9;
  for (const RequestRecord& request : recording.requests) {
    for (const auto& stamp : {request.first_token_ts_s, request.last_token_ts_s}) {
      if (!stamp) continue;
      const double at = (*stamp - origin_s) * 1e3;
      const auto next = std::upper_bound(recording.steps.begin(), recording.steps.end(), at + 1e-4,
                                         [](double t, const RecordedStep& s) { return t < s.out_ms; });
      if (next == recording.steps.begin()) continue;
      const auto step = static_cast<size_t>(next - recording.steps.begin()) - 1;
      recording.stamps.push_back({step, std::max(0.0, at - recording.steps[step].out_ms)});
    }
  }
  return Status::ok();
}

// The delay from arrival that most requests agree on: each was taken at its queued stamp, by the plan that
// began then, and missed the plan before. Arrivals are on another clock; the fastest pick-up joins the two.
double front_delay_ms(const StepRecording& recording) {
  constexpr double kSameMs = 0.2;  // between the queued stamp and the start of the plan
  if (recording.steps.empty()) return 0;
  double offset_s = INFINITY;
  for (const RequestRecord& r : recording.requests) {
    if (r.queued_ts_s && r.arrival_time_s) offset_s = std::min(offset_s, *r.queued_ts_s - *r.arrival_time_s);
  }
  // Where each request's interval begins (+1) and ends (-1).
  std::vector<std::pair<double, int>> edges;
  for (const RequestRecord& r : recording.requests) {
    if (!r.queued_ts_s || !r.arrival_time_s) continue;
    const double queued = (*r.queued_ts_s - recording.origin_s) * 1e3;
    const double arrival = (*r.arrival_time_s + offset_s - recording.origin_s) * 1e3;
    const auto after = std::lower_bound(recording.steps.begin(), recording.steps.end(), queued - kSameMs,
                                        [](const RecordedStep& step, double t) { return step.start_ms < t; });
    const double missed = after == recording.steps.begin() ? -INFINITY : std::prev(after)->start_ms;
    const double low = std::max(0.0, missed - arrival);
    if (queued - arrival < low) continue;
    edges.emplace_back(low, 1);
    edges.emplace_back(queued - arrival, -1);
  }
  std::sort(edges.begin(), edges.end(), [](const auto& x, const auto& y) {
    return x.first != y.first ? x.first < y.first : x.second > y.second;
  });
  double best_ms = 0;
  int covered = 0, best = 0;
  for (size_t i = 0; i < edges.size(); ++i) {
    covered += edges[i].second;
    if (covered <= best || i + 1 == edges.size()) continue;
    best = covered;
    best_ms = (edges[i].first + edges[i + 1].first) / 2;
  }
  return best_ms;
}

}  // namespace

Result<std::vector<std::vector<int64_t>>> computed_before(const std::vector<StepRecord>& steps,
                                                          const std::vector<RequestRecord>& requests,
                                                          const std::string& path) {
  std::map<int64_t, const RequestRecord*> by_row;
  std::map<std::string, const RequestRecord*> by_id;
  for (const RequestRecord& request : requests) {
    by_id[request.request_id] = &request;
    if (const auto row = request_row(request.request_id)) by_row[*row] = &request;
  }
  std::unordered_map<std::string, RequestHistory> histories;
  std::vector<std::vector<int64_t>> computed(steps.size());
  for (size_t k = 0; k < steps.size(); ++k) {
    computed[k].resize(steps[k].entries.size());
    for (const std::string& id : steps[k].preempted) {
      if (const auto found = histories.find(id); found != histories.end()) {
        found->second.segments.emplace_back();
      }
    }
    for (size_t i = 0; i < steps[k].entries.size(); ++i) {
      const StepRecord::Entry& entry = steps[k].entries[i];
      RequestHistory& history = histories[entry.request_id];
      if (history.record == nullptr) {
        const auto row = request_row(entry.request_id);
        const auto same = by_id.find(entry.request_id);
        const auto same_row = row ? by_row.find(*row) : by_row.end();
        if (same != by_id.end()) history.record = same->second;
        if (history.record == nullptr && same_row != by_row.end()) history.record = same_row->second;
        if (history.record == nullptr) {
          return bad_input("{}: step {} names request '{}', which requests.jsonl does not have", path,
                           steps[k].step, entry.request_id);
        }
      }
      history.segments.back().parts.push_back({k, i, entry.num_tokens});
    }
  }
  for (const auto& [id, history] : histories) spread(history, computed);
  for (size_t k = 0; k < steps.size(); ++k) {
    for (size_t i = 0; i < steps[k].entries.size(); ++i) {
      if (steps[k].entries[i].num_computed >= 0) computed[k][i] = steps[k].entries[i].num_computed;
    }
  }
  return computed;
}

Result<StepRecording> read_step_recording(const std::string& dir, bool with_steps) {
  StepRecording recording;
  recording.dir = dir;
  if (!is_directory(dir)) return bad_input("{}: there is no such folder", dir);
  const std::string meta_path = join_path(dir, "meta.json");
  if (!file_exists(meta_path))
    return bad_input("{}: it has no meta.json, so it is not a complete recording", dir);
  VLLM_ASSIGN_OR_RETURN(const Json meta, read_json_file(meta_path));
  VLLM_ASSIGN_OR_RETURN(recording.limits, recorded_limits(meta, meta_path));
  VLLM_ASSIGN_OR_RETURN(const RecordedGraphs graphs,
                        recorded_graphs(meta, recording.limits.max_num_seqs, meta_path));
  recording.graphs = {graphs.sizes, graphs.full_rows};
  recording.graphs_known = graphs.known;
  read_names(meta, recording);
  const std::string requests_path = join_path(dir, "requests.jsonl");
  VLLM_ASSIGN_OR_RETURN(recording.requests, read_requests_jsonl(requests_path));
  if (recording.requests.empty()) return bad_input("{}: it has no requests", requests_path);
  if (with_steps) VLLM_RETURN_IF_ERROR(read_steps(recording));
  recording.depth = recording.limits.scheduling_depth.value_or(1);
  if (with_steps && !recording.limits.scheduling_depth) {
    for (size_t k = 1; k < recording.steps.size(); ++k) {
      if (recording.steps[k].start_ms < recording.steps[k - 1].out_ms) recording.depth = 2;
    }
  }
  recording.front_ms = front_delay_ms(recording);
  return recording;
}

}  // namespace vllm
