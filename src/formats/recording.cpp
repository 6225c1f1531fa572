#include "formats/recording.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/file.h"
#include "formats/json.h"
#include "formats/line_reader.h"
#include "formats/row.h"

namespace vllm {
namespace {

// Fields of requests.jsonl in the order in which they are written. The first kRequired must be there, if only
// as null.
constexpr std::string_view kRequestKeys[] = {
    "request_id",      "input_toks",     "output_toks",   "arrival_time", "queued_ts",
    "scheduled_ts",    "first_token_ts", "last_token_ts", "issued_ts",    "finished_ts",
    "num_preemptions", "cached_toks",    "send_lag_s",    "itl_s",        "num_cached_tokens"};
constexpr unsigned kRequired = 8;

std::string number_or_null(const std::optional<double>& value) {
  return value ? json_double(*value) : "null";
}

class RequestRowReader {
 public:
  Result<RequestRecord> read(std::string_view line) {
    RequestRecord record;
    SeenKeys seen;
    VLLM_RETURN_IF_ERROR(
        for_each_member(parser_, line, [&](std::string_view key, simdjson::ondemand::value value) {
          return member(key, value, seen, record);
        }));
    for (unsigned bit = 0; bit < kRequired; ++bit) {
      if (!seen.has(bit)) return bad_input("has no '{}'", kRequestKeys[bit]);
    }
    return record;
  }

 private:
  static Status member(std::string_view key, simdjson::ondemand::value value, SeenKeys& seen,
                       RequestRecord& record) {
    const auto* known = std::find(std::begin(kRequestKeys), std::end(kRequestKeys), key);
    if (known == std::end(kRequestKeys)) {
      if (is_well_formed(value)) return Status::ok();
      return bad_input("is not a JSON object: the value of '{}' is malformed", printable(key));
    }
    VLLM_RETURN_IF_ERROR(seen.add(static_cast<unsigned>(known - std::begin(kRequestKeys)), key));
    const auto count = [&](auto& out) -> Status {
      VLLM_ASSIGN_OR_RETURN(out, read_integer_in(value, key, 0, INT64_MAX));
      return Status::ok();
    };
    const auto optional_count = [&](std::optional<int64_t>& out) {
      return is_null(value) ? Status::ok() : count(out);
    };
    const auto seconds = [&](std::optional<double>& out) -> Status {
      if (is_null(value)) return Status::ok();
      VLLM_ASSIGN_OR_RETURN(out, read_number(value, key));
      return Status::ok();
    };
    if (key == "request_id") {
      VLLM_ASSIGN_OR_RETURN(const std::string_view text, read_text(value, key));
      record.request_id = std::string(text);
      return Status::ok();
    }
    if (key == "input_toks") return count(record.input_toks);
    if (key == "output_toks") return count(record.output_toks);
    if (key == "arrival_time") return seconds(record.arrival_time_s);
    if (key == "queued_ts") return seconds(record.queued_ts_s);
    if (key == "scheduled_ts") return seconds(record.scheduled_ts_s);
    if (key == "first_token_ts") return seconds(record.first_token_ts_s);
    if (key == "last_token_ts") return seconds(record.last_token_ts_s);
    if (key == "issued_ts") return seconds(record.issued_ts_s);
    if (key == "finished_ts") return seconds(record.finished_ts_s);
    if (key == "send_lag_s") return seconds(record.send_lag_s);
    if (key == "num_preemptions") return optional_count(record.num_preemptions);
    if (key == "itl_s") return numbers(key, value, record.itl_s);
    // The name in vLLM's recordings; ours wins where both stand.
    if (key == "num_cached_tokens" && record.cached_toks)
      return is_well_formed(value) ? Status::ok() : bad_input("'{}' is malformed", key);
    return optional_count(record.cached_toks);
  }

  static Status numbers(std::string_view key, simdjson::ondemand::value value, std::vector<double>& out) {
    simdjson::ondemand::array list;
    if (is_null(value)) return Status::ok();
    if (value.get_array().get(list)) return bad_input("'{}' is not a list", key);
    for (auto item : list) {
      double number = 0;
      if (item.get_double().get(number))
        return bad_input("'{}' has an entry {} that is not a number", key, out.size());
      out.push_back(number);
    }
    return Status::ok();
  }

  simdjson::ondemand::parser parser_;
};

// As Python's round(): the decimal of `decimals` places nearest to the binary value, halves to even.
std::string rounded(double value, int decimals) {
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  double back = 0;
  std::from_chars(text.data(), text.data() + text.size(), back);
  return json_double(back);
}

struct Column {
  std::string_view name;
  bool required;
  double TimeseriesRow::*real;
  int64_t TimeseriesRow::*whole;
};

// In the order in which they are written.
constexpr Column kColumns[] = {
    {"t", true, &TimeseriesRow::t_s, nullptr},
    {"prompt_throughput", true, &TimeseriesRow::prompt_throughput, nullptr},
    {"prompt_compute_throughput", false, &TimeseriesRow::prompt_compute_throughput, nullptr},
    {"prompt_cached_throughput", false, &TimeseriesRow::prompt_cached_throughput, nullptr},
    {"gen_throughput", true, &TimeseriesRow::gen_throughput, nullptr},
    {"running", true, nullptr, &TimeseriesRow::running},
    {"waiting", true, nullptr, &TimeseriesRow::waiting},
    {"preempted", false, nullptr, &TimeseriesRow::preempted},
    {"kv_cache_pct", true, &TimeseriesRow::kv_cache_pct, nullptr},
};

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// For each field of a line the column that it is; nullptr for columns that we do not know.
Result<std::vector<const Column*>> read_header(std::string_view line) {
  std::vector<const Column*> columns;
  for (const std::string_view name : split(line)) {
    const auto* known = std::find_if(std::begin(kColumns), std::end(kColumns),
                                     [&](const Column& c) { return c.name == name; });
    const Column* column = known == std::end(kColumns) ? nullptr : known;
    if (column != nullptr && std::find(columns.begin(), columns.end(), column) != columns.end()) {
      return bad_input("has the column '{}' twice", name);
    }
    columns.push_back(column);
  }
  for (const Column& c : kColumns) {
    if (c.required && std::find(columns.begin(), columns.end(), &c) == columns.end()) {
      return bad_input("has no column '{}'", c.name);
    }
  }
  return columns;
}

Status read_field(std::string_view text, const Column& column, TimeseriesRow& row) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return bad_input("'{}' is '{}', a number is needed", column.name, printable(text));
  }
  if (column.real != nullptr) {
    row.*column.real = value;
    return Status::ok();
  }
  if (value < 0 || value != std::floor(value) || value > 9007199254740992.0) {
    return bad_input("'{}' is '{}', a whole number is needed", column.name, printable(text));
  }
  row.*column.whole = static_cast<int64_t>(value);
  return Status::ok();
}

}  // namespace

std::string request_record_json(const RequestRecord& r) {
  std::string out = fmt::format(
      R"({{"request_id": {}, "input_toks": {}, "output_toks": {}, "arrival_time": {}, "queued_ts": {}, )"
      R"("scheduled_ts": {}, "first_token_ts": {}, "last_token_ts": {})",
      json_string(r.request_id), r.input_toks, r.output_toks, number_or_null(r.arrival_time_s),
      number_or_null(r.queued_ts_s), number_or_null(r.scheduled_ts_s), number_or_null(r.first_token_ts_s),
      number_or_null(r.last_token_ts_s));
  const auto add = [&](std::string_view key, const std::string& value) {
    out += fmt::format(", \"{}\": {}", key, value);
  };
  if (r.issued_ts_s) add("issued_ts", json_double(*r.issued_ts_s));
  if (r.finished_ts_s) add("finished_ts", json_double(*r.finished_ts_s));
  if (r.num_preemptions) add("num_preemptions", std::to_string(*r.num_preemptions));
  if (r.cached_toks) add("cached_toks", std::to_string(*r.cached_toks));
  if (r.send_lag_s) add("send_lag_s", json_double(*r.send_lag_s));
  if (!r.itl_s.empty()) {
    std::string list;
    for (const double value : r.itl_s) list += (list.empty() ? "" : ", ") + json_double(value);
    add("itl_s", "[" + list + "]");
  }
  out += '}';
  return out;
}

Result<std::vector<RequestRecord>> read_requests_jsonl(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  RequestRowReader reader;
  std::vector<RequestRecord> records;
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const auto line, lines.next());
    if (!line) return records;
    if (line->find_first_not_of(" \t") == std::string_view::npos) continue;
    auto record = reader.read(*line);
    if (!record) return record.status().with_context(fmt::format("{}:{}", path, lines.line()));
    records.push_back(std::move(record).value());
  }
}

std::string timeseries_csv(const std::vector<TimeseriesRow>& rows) {
  std::string out;
  for (const Column& c : kColumns) out += fmt::format("{}{}", out.empty() ? "" : ",", c.name);
  out += "\r\n";
  for (const TimeseriesRow& row : rows) {
    out += fmt::format("{},{},{},{},{},{},{},{},{}\r\n", rounded(row.t_s, 3),
                       rounded(row.prompt_throughput, 1), rounded(row.prompt_compute_throughput, 1),
                       rounded(row.prompt_cached_throughput, 1), rounded(row.gen_throughput, 1), row.running,
                       row.waiting, row.preempted, rounded(row.kv_cache_pct, 2));
  }
  return out;
}

Result<std::vector<TimeseriesRow>> read_timeseries_csv(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  VLLM_ASSIGN_OR_RETURN(const auto header, lines.next());
  if (!header) return bad_input("{}: is empty, a header line is needed", path);
  auto columns = read_header(*header);
  if (!columns) return columns.status().with_context(path + ":1");
  std::vector<TimeseriesRow> rows;
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const auto line, lines.next());
    if (!line) return rows;
    if (line->empty()) continue;
    const auto fields = split(*line);
    const std::string where = fmt::format("{}:{}", path, lines.line());
    if (fields.size() != columns->size()) {
      return bad_input("{}: has {} fields, the header has {}", where, fields.size(), columns->size());
    }
    TimeseriesRow row;
    for (size_t i = 0; i < fields.size(); ++i) {
      if ((*columns)[i] == nullptr) continue;
      VLLM_RETURN_IF_ERROR(read_field(fields[i], *(*columns)[i], row).with_context(where));
    }
    rows.push_back(row);
  }
}

std::optional<int64_t> request_row(const std::string& request_id) {
  size_t dash = request_id.find('-');
  while (dash != std::string::npos) {
    const size_t begin = dash + 1;
    dash = request_id.find('-', begin);
    const size_t end = dash == std::string::npos ? request_id.size() : dash;
    int64_t row = 0;
    const auto [stop, error] = std::from_chars(request_id.data() + begin, request_id.data() + end, row);
    if (error == std::errc() && stop == request_id.data() + end && end > begin && row >= 0) return row;
  }
  return std::nullopt;
}

}  // namespace vllm
