#include "bench/validate/real_run.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "bench/schedule_comparison.h"
#include "formats/json.h"
#include "formats/printable.h"

namespace vllm {
namespace {

constexpr size_t kLongestValue = 200;

const Json* member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// A text of meta.json; empty when it is absent or no text.
std::string text_of(const Json& object, std::string_view key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::string value_text(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongestValue) {
    size_t cut = kLongestValue;
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // whole characters
    text = text.substr(0, cut) + "...";
  }
  return text;
}

// Our own resolved_config has {value, source} for each option; the others' nested objects are flattened.
void flatten(const std::string& prefix, const Json& value, std::vector<ConfigEntry>& out) {
  if (value.is_object() && value.size() == 2 && value.contains("value") && value.contains("source")) {
    out.push_back({prefix, value_text(value["value"])});
    return;
  }
  if (!value.is_object() || value.empty()) {
    out.push_back({prefix, value_text(value)});
    return;
  }
  for (const auto& [key, item] : value.items()) flatten(prefix.empty() ? key : prefix + "." + key, item, out);
}

std::vector<ConfigEntry> configuration_of(const Json& meta) {
  std::vector<ConfigEntry> out;
  for (const char* key : {"model", "dataset_path", "dataset", "num_requests", "num_gpu_blocks", "block_size",
                          "cudagraph_mode", "capture_sizes", "arrival_speed", "engine_kwargs", "scheduler",
                          "kv_cache", "execution", "replay", "hardware", "resolved_config"}) {
    if (const Json* value = member(meta, key)) flatten(key, *value, out);
  }
  return out;
}

std::string engine_name(const Json& meta) {
  const std::string version = text_of(meta, "vllm_version");
  const std::string ours = "vllm-twin-";
  if (version.starts_with(ours)) return "vllm-twin " + version.substr(ours.size());
  return version.empty() ? version : "vLLM " + version;
}

std::string hardware_name(const Json& meta) {
  const Json* hardware = member(meta, "hardware");
  if (hardware == nullptr) return {};
  if (hardware->is_string()) return hardware->get<std::string>();
  const std::string name = text_of(*hardware, "device_name");
  const Json* count = member(*hardware, "device_count");
  if (name.empty() || count == nullptr || !count->is_number_integer() || *count == 1) return name;
  return fmt::format("{} x {}", count->dump(), name);
}

// Whether a value of meta.json means yes: true, a number but 0, a text that says something.
bool says_yes(const Json* value) {
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return *value != 0;
  if (value->is_string()) {
    const std::string text = value->get<std::string>();
    return !text.empty() && text != "False" && text != "false" && text != "None";
  }
  return !value->empty();
}

std::string reason_in(const std::string& path) {
  const auto account = read_json_file(path);
  const std::string reason = account ? text_of(*account, "reason") : std::string();
  return reason.empty() ? "no reason is given" : printable(reason);
}

// Why the meta.json itself says that this is no ground truth.
void meta_refusals(const RealRun& run, const Json& meta, std::vector<std::string>& out) {
  if (says_yes(member(meta, "resolve_only"))) {
    out.push_back(fmt::format(
        "{}: is a resolve_only run: its settings were resolved and no request was issued", run.dir));
  }
  const std::string status = text_of(meta, "status");
  if (says_yes(member(meta, "aborted")) || status == "aborted" || status == "failed") {
    out.push_back(fmt::format("{}: the run was aborted, its meta.json says", run.dir));
  } else if (status == "engine_initialized") {
    out.push_back(
        fmt::format("{}: is an initialisation only: its meta.json says 'engine_initialized'", run.dir));
  }
  if (const Json* diagnostic = member(meta, "diagnostic"); says_yes(diagnostic)) {
    const std::string why = diagnostic->is_boolean() ? "true" : value_text(*diagnostic);
    out.push_back(fmt::format("{}: is a diagnostic run, no ground truth: its meta.json says '{}'", run.dir,
                              printable(why)));
  }
  const Json* kwargs = member(meta, "engine_kwargs");
  if (says_yes(member(meta, "record_gate_stats")) ||
      (kwargs != nullptr && says_yes(member(*kwargs, "record_gate_stats")))) {
    out.push_back(fmt::format("{}: was instrumented with gate statistics, which change its times", run.dir));
  }
}

// Why the set of files says so. `meta` is null for a folder without one.
void folder_refusals(const RealRun& run, const Json& meta, bool has_timeseries,
                     std::vector<std::string>& out) {
  const auto has = [&](const char* name) { return file_exists(join_path(run.dir, name)); };
  if (has("aborted.json")) {
    out.push_back(
        fmt::format("{}: the run was aborted ({})", run.dir, reason_in(join_path(run.dir, "aborted.json"))));
  }
  for (const char* name : {"gate_stats.json", "moe_activated.jsonl"}) {
    if (!has(name)) continue;
    out.push_back(
        fmt::format("{}: was instrumented with gate statistics ({}), which change its times", run.dir, name));
    break;
  }
  if (meta.is_null() && has("engine_start.json")) {
    out.push_back(
        fmt::format("{}: the run did not end: it has an engine_start.json and no meta.json", run.dir));
  } else if (!has_timeseries && (meta.is_null() || member(meta, "tick_seconds") != nullptr)) {
    out.push_back(fmt::format("{}: the run is not complete: it has no timeseries.csv", run.dir));
  }
}

// A folder without requests.jsonl: nothing can be compared, with --force neither.
Status no_requests(const RealRun& run, const Json& meta) {
  const auto has = [&](const char* name) { return file_exists(join_path(run.dir, name)); };
  if (says_yes(member(meta, "resolve_only"))) {
    return refused("{}: is a resolve_only run: its settings were resolved and no request was issued",
                   run.dir);
  }
  if (has("aborted.json")) {
    return refused("{}: the run was aborted ({})", run.dir, reason_in(join_path(run.dir, "aborted.json")));
  }
  if (has("engine_start.json")) {
    return refused("{}: is an initialisation only: it has an engine_start.json and no requests.jsonl",
                   run.dir);
  }
  return bad_input("{}: has no requests.jsonl; a finished run's folder is needed", run.dir);
}

Status read_facts(const Json& meta, const std::string& path, RealRun& run) {
  run.engine = engine_name(meta);
  run.model = text_of(meta, "model");
  if (const Json* kwargs = member(meta, "engine_kwargs"); run.model.empty() && kwargs != nullptr) {
    run.model = text_of(*kwargs, "model");
  }
  run.hardware = hardware_name(meta);
  run.dataset_path = text_of(meta, "dataset_path");
  if (run.dataset_path.empty()) run.dataset_path = text_of(meta, "dataset");
  run.dataset_hash = text_of(meta, "dataset_hash");
  if (run.dataset_hash.empty()) run.dataset_hash = text_of(meta, "dataset_sha256");
  VLLM_ASSIGN_OR_RETURN(run.capacity, recorded_capacity(meta, path));
  run.configuration = configuration_of(meta);
  if (const Json* tick = member(meta, "tick_seconds")) {
    const double seconds = tick->is_number() ? tick->get<double>() : 0;
    if (!(seconds > 0) || !std::isfinite(seconds)) {
      return bad_input("{}: 'tick_seconds' is {}, a number above 0 is needed", path, printable(tick->dump()));
    }
    run.tick_s = seconds;
  }
  return Status::ok();
}

Status take_requests(const std::vector<RequestRecord>& records,
                     const std::vector<std::optional<double>>& arrivals_s, const std::string& path,
                     RealRun& run) {
  std::set<int64_t> rows;
  for (size_t i = 0; i < records.size(); ++i) {
    const RequestRecord& record = records[i];
    RealRequest request;
    request.row = request_row(record.request_id).value_or(-1);
    if (request.row >= 0 && !rows.insert(request.row).second) {
      return bad_input("{}: row {} of the dataset occurs twice ('{}')", path, request.row,
                       printable(record.request_id));
    }
    request.input_toks = record.input_toks;
    request.output_toks = record.output_toks;
    if (__builtin_add_overflow(run.input_toks, record.input_toks, &run.input_toks) ||
        __builtin_add_overflow(run.output_toks, record.output_toks, &run.output_toks)) {
      return bad_input("{}: the tokens of the requests sum up to more than 63 bits", path);
    }
    if (record.first_token_ts_s && record.last_token_ts_s && arrivals_s[i]) {
      request.arrival_s = arrivals_s[i];
      request.last_token_s = *record.last_token_ts_s;
      request.latency = request_latency(*arrivals_s[i], *record.first_token_ts_s, *record.last_token_ts_s,
                                        record.output_toks);
    } else {
      ++run.without_stamps;
    }
    run.requests.push_back(request);
  }
  if (run.without_stamps == static_cast<int64_t>(records.size())) {
    return bad_input("{}: no request of it has the stamps that a comparison needs", path);
  }
  if (run.without_stamps > 0) {
    run.notes.push_back(fmt::format("{}: {} of {} requests have no stamps and are in no statistic", run.dir,
                                    run.without_stamps, records.size()));
  }
  return Status::ok();
}

Status take_timeseries(const std::vector<RequestRecord>& records,
                       const std::vector<std::optional<double>>& arrivals_s, bool recorded, RealRun& run) {
  if (recorded) {
    VLLM_ASSIGN_OR_RETURN(run.timeseries, read_timeseries_csv(join_path(run.dir, "timeseries.csv")));
    return Status::ok();
  }
  std::optional<double> origin;
  for (const auto& arrival : arrivals_s) {
    if (arrival) origin = origin ? std::min(*origin, *arrival) : *arrival;
  }
  run.timeseries_derived = true;
  run.timeseries = derive_timeseries(records, arrivals_s, run.tick_s, origin.value_or(0));
  run.notes.push_back(fmt::format(
      "{}: has no timeseries.csv; throughput, running and waiting are derived from requests.jsonl", run.dir));
  return Status::ok();
}

}  // namespace

std::string RealRun::setting(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    for (const ConfigEntry& entry : configuration) {
      if (entry.key == key && entry.value != "null" && entry.value != "None") return entry.value;
    }
  }
  return {};
}

Result<RealRun> read_real_run(const std::string& dir, ArrivalAnchor anchor) {
  RealRun run;
  run.dir = dir;
  if (!is_directory(dir)) return bad_input("--bench-dir {}: there is no such folder", dir);
  Json meta;
  const std::string meta_path = join_path(dir, "meta.json");
  if (file_exists(meta_path)) {
    VLLM_ASSIGN_OR_RETURN(meta, read_json_file(meta_path));
    VLLM_RETURN_IF_ERROR(read_facts(meta, meta_path, run));
  } else {
    run.capacity.unknown = "there is no meta.json";
    run.notes.push_back(fmt::format("{}: has no meta.json (a legacy folder): its settings are unknown", dir));
  }
  const std::string requests_path = join_path(dir, "requests.jsonl");
  if (!file_exists(requests_path)) return no_requests(run, meta);
  VLLM_ASSIGN_OR_RETURN(const std::vector<RequestRecord> records, read_requests_jsonl(requests_path));
  if (records.empty()) return bad_input("{}: has no requests", requests_path);

  const bool has_timeseries = file_exists(join_path(dir, "timeseries.csv"));
  if (!meta.is_null()) meta_refusals(run, meta, run.refusals);
  folder_refusals(run, meta, has_timeseries, run.refusals);
  if (const Json* wanted = member(meta, "num_requests");
      wanted != nullptr && wanted->is_number_integer() && *wanted > records.size()) {
    run.refusals.push_back(fmt::format("{}: the run is not complete: {} of {} requests are in requests.jsonl",
                                       dir, records.size(), wanted->dump()));
  }
  const std::vector<std::optional<double>> arrivals_s = arrivals(records, anchor);
  VLLM_RETURN_IF_ERROR(take_requests(records, arrivals_s, requests_path, run));
  VLLM_RETURN_IF_ERROR(take_timeseries(records, arrivals_s, has_timeseries, run));
  return run;
}

}  // namespace vllm
