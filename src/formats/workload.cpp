#include "formats/workload.h"

#include <algorithm>
#include <map>
#include <optional>

#include "formats/line_reader.h"
#include "formats/row.h"

namespace vllm {
namespace {

constexpr int64_t kMaxToks = INT32_MAX;

enum Key : unsigned {
  kInputToks,
  kOutputToks,
  kArrivalTimeNs,
  kInputTokIds,
  kOutputTokIds,
  kSubRequests,
  kSessionId,
  kToolDurationNs,
  kUnknown,
};

constexpr std::pair<std::string_view, Key> kKeys[] = {
    {"input_toks", kInputToks},          {"output_toks", kOutputToks},
    {"arrival_time_ns", kArrivalTimeNs}, {"input_tok_ids", kInputTokIds},
    {"output_tok_ids", kOutputTokIds},   {"sub_requests", kSubRequests},
    {"session_id", kSessionId},          {"tool_duration_ns", kToolDurationNs},
};

Key key_of(std::string_view name) {
  for (const auto& [text, key] : kKeys) {
    if (text == name) return key;
  }
  return kUnknown;
}

struct Row {
  SeenKeys seen;
  WorkloadRequest request;
  WorkloadSession session;
  int64_t tool_duration_ns = 0;
  int64_t input_id_count = 0;
};

// The numbers of a list like "[1, 2]", one after the other: nearly all of a workload's bytes are such lists,
// and going through them token by token would take most of the time of reading one. The text is a JSON array
// that simdjson delimited; what its entries are is checked here.
class IdScanner {
 public:
  explicit IdScanner(std::string_view list) : at_(list.data()), end_(list.data() + list.size()) {
    ok_ = take('[');
    skip_blanks();
    if (ok_ && take(']')) done_ = true;
  }

  // nullopt at the list's end, and at an entry that is not an integer.
  std::optional<int64_t> next() {
    if (!ok_ || done_) return std::nullopt;
    ok_ = false;
    const bool negative = take('-');
    const char* first = at_;
    int64_t value = 0;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9' && at_ - first < kMaxDigits)
      value = value * 10 + (*at_++ - '0');
    const auto digits = at_ - first;
    if (digits == 0 || (digits > 1 && *first == '0')) return std::nullopt;
    skip_blanks();
    if (take(',')) {
      skip_blanks();
    } else if (take(']')) {
      done_ = true;
    } else {
      return std::nullopt;
    }
    ok_ = true;
    return negative ? -value : value;
  }

  bool at_end() const { return ok_ && done_; }

 private:
  static constexpr int64_t kMaxDigits = 18;

  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  const char* at_;
  const char* end_;
  bool ok_ = false;
  bool done_ = false;
};

class RowReader {
 public:
  RowReader(const WorkloadReadOptions& options) : options_(options) {}

  // `line` has LineReader::kPadding bytes behind it.
  Result<Row> read(std::string_view line) {
    Row row;
    max_ids_ = line.size() / 2;
    VLLM_RETURN_IF_ERROR(for_each_member(
        parser_, line,
        [&](std::string_view name, simdjson::ondemand::value value) { return member(name, value, row); }));
    if (row.seen.has(kSubRequests)) {
      VLLM_RETURN_IF_ERROR(require(row, kArrivalTimeNs));
      row.session.arrival_ns = row.request.arrival_ns;
      return row;
    }
    VLLM_RETURN_IF_ERROR(require(row, kArrivalTimeNs));
    VLLM_RETURN_IF_ERROR(check_call(row, options_.need_token_ids));
    return row;
  }

 private:
  static Status require(const Row& row, Key key) {
    if (row.seen.has(key)) return Status::ok();
    return bad_input("has no '{}'", kKeys[key].first);
  }

  static Status check_call(const Row& row, bool need_token_ids) {
    VLLM_RETURN_IF_ERROR(require(row, kInputToks));
    VLLM_RETURN_IF_ERROR(require(row, kOutputToks));
    if (row.input_id_count == 0) {
      if (!need_token_ids) return Status::ok();
      return bad_input("has no 'input_tok_ids', strict replay needs the token ids of every prompt");
    }
    if (row.input_id_count == row.request.input_toks) return Status::ok();
    return bad_input("'input_tok_ids' has {} ids, but 'input_toks' is {}", row.input_id_count,
                     row.request.input_toks);
  }

  Status member(std::string_view name, simdjson::ondemand::value value, Row& row) {
    const Key key = key_of(name);
    if (key == kUnknown) {
      if (is_well_formed(value)) return Status::ok();
      return bad_input("is not a JSON object: the value of '{}' is malformed", printable(name));
    }
    VLLM_RETURN_IF_ERROR(row.seen.add(key, name));
    switch (key) {
      case kInputToks: {
        VLLM_ASSIGN_OR_RETURN(const int64_t n, read_integer_in(value, name, 1, kMaxToks));
        row.request.input_toks = static_cast<int32_t>(n);
        return Status::ok();
      }
      case kOutputToks: {
        VLLM_ASSIGN_OR_RETURN(const int64_t n, read_integer_in(value, name, 1, kMaxToks));
        row.request.output_toks = static_cast<int32_t>(n);
        return Status::ok();
      }
      case kArrivalTimeNs: {
        VLLM_ASSIGN_OR_RETURN(row.request.arrival_ns, read_integer_in(value, name, 0, kMaxWorkloadTimeNs));
        return Status::ok();
      }
      case kToolDurationNs: {
        VLLM_ASSIGN_OR_RETURN(row.tool_duration_ns, read_integer_in(value, name, 0, kMaxWorkloadTimeNs));
        return Status::ok();
      }
      case kInputTokIds: {
        const auto expected = static_cast<size_t>(row.request.input_toks);
        VLLM_ASSIGN_OR_RETURN(row.input_id_count, read_ids(value, name, expected, row.request.input_tok_ids));
        return Status::ok();
      }
      case kOutputTokIds: {
        const auto expected = static_cast<size_t>(row.request.output_toks);
        return read_ids(value, name, expected, row.request.output_tok_ids).status();
      }
      case kSessionId: {
        VLLM_ASSIGN_OR_RETURN(const std::string_view text, read_text(value, name));
        row.session.session_id = std::string(text);
        return Status::ok();
      }
      case kSubRequests:
        return read_calls(value, row.session);
      case kUnknown:
        break;
    }
    return Status::ok();
  }

  // The number of ids. null stands for a list that is not there.
  Result<int64_t> read_ids(simdjson::ondemand::value value, std::string_view name, size_t expected,
                           std::vector<int32_t>& ids) {
    simdjson::ondemand::array list;
    if (value.get_array().get(list)) {
      if (is_null(value)) return int64_t{0};
      return bad_input("'{}' is not a list of token ids", name);
    }
    std::string_view text;
    if (list.raw_json().get(text)) return bad_input("'{}' is malformed", name);
    if (options_.keep_token_ids) ids.reserve(std::min(expected, max_ids_));
    const int64_t high = options_.vocab_size > 0 ? std::min(options_.vocab_size - 1, kMaxToks) : kMaxToks;
    IdScanner scanner(text);
    int64_t count = 0;
    while (const auto id = scanner.next()) {
      if (*id < 0 || *id > high) {
        return bad_input("'{}' has the token id {} at position {}, accepted is 0 to {}{}", name, *id, count,
                         high, options_.vocab_size > 0 ? " in this vocabulary" : "");
      }
      if (options_.keep_token_ids) ids.push_back(static_cast<int32_t>(*id));
      ++count;
    }
    if (!scanner.at_end()) return bad_input("'{}' has an entry {} that is not a token id", name, count);
    return count;
  }

  Status read_calls(simdjson::ondemand::value value, WorkloadSession& session) {
    simdjson::ondemand::array list;
    if (value.get_array().get(list)) return bad_input("'sub_requests' is not a list");
    for (auto item : list) {
      const std::string where = fmt::format("call {} of 'sub_requests'", session.calls.size());
      simdjson::ondemand::object object;
      if (item.get_object().get(object)) return bad_input("{} is not an object", where);
      Row row;
      for (auto field : object) {
        std::string_view name;
        simdjson::ondemand::value inner;
        if (field.unescaped_key().get(name) || field.value().get(inner))
          return bad_input("{} is malformed", where);
        if (name == "sub_requests") return bad_input("{} has 'sub_requests' of its own", where);
        VLLM_RETURN_IF_ERROR(member(name, inner, row).with_context(where));
      }
      VLLM_RETURN_IF_ERROR(check_call(row, false).with_context(where));
      session.calls.push_back({std::move(row.request), row.tool_duration_ns});
      session.calls.back().request.arrival_ns = 0;
    }
    if (session.calls.empty()) return bad_input("'sub_requests' is empty, at least one call is needed");
    return Status::ok();
  }

  const WorkloadReadOptions& options_;
  simdjson::ondemand::parser parser_;
  size_t max_ids_ = 0;
};

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

// Sessions without a name get one from the id that their first call would have: every request counts one.
class SessionNames {
 public:
  Status name(WorkloadSession& session, int64_t next_id) {
    if (session.session_id.empty()) session.session_id = fmt::format("session_{}", next_id);
    const auto [it, is_new] = line_of_.emplace(session.session_id, session.line);
    if (is_new) return Status::ok();
    return bad_input("session_id '{}' is that of line {} too", printable(session.session_id), it->second);
  }

 private:
  std::map<std::string, int64_t> line_of_;
};

Status read_rows(LineReader& lines, const WorkloadReadOptions& options, Workload& workload) {
  RowReader reader(options);
  SessionNames names;
  int64_t next_id = 0, rows = 0;
  while (options.max_rows <= 0 || static_cast<int64_t>(workload.requests.size()) < options.max_rows) {
    VLLM_ASSIGN_OR_RETURN(const auto line, lines.next());
    if (!line) break;
    if (is_blank(*line)) continue;
    const auto where = [&] { return fmt::format("{}:{}", workload.path, lines.line()); };
    if (++rows > kMaxWorkloadRows)
      return bad_input("{}: is row {}, at most {} are accepted", where(), rows, kMaxWorkloadRows);
    auto row = reader.read(*line);
    if (!row) return row.status().with_context(where());
    if (row->seen.has(kSubRequests)) {
      WorkloadSession& session = row->session;
      session.line = lines.line();
      for (auto& call : session.calls) call.request.line = session.line;
      const Status named = names.name(session, next_id);
      if (!named) return named.with_context(where());
      next_id += static_cast<int64_t>(session.calls.size());
      workload.sessions.push_back(std::move(session));
    } else {
      row->request.line = lines.line();
      ++next_id;
      workload.requests.push_back(std::move(row->request));
    }
  }
  return Status::ok();
}

void append_ids(std::string& out, std::string_view key, const std::vector<int32_t>& ids) {
  if (ids.empty()) return;
  out += fmt::format(",\"{}\":[", key);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    const fmt::format_int text(ids[i]);
    out.append(text.data(), text.size());
  }
  out += ']';
}

}  // namespace

Result<Workload> read_workload(const std::string& path, const WorkloadReadOptions& options) {
  LineReaderOptions line_options;
  line_options.hash = true;
  line_options.max_line_bytes = kMaxWorkloadLineBytes;
  VLLM_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path, line_options));
  Workload workload;
  workload.path = path;
  VLLM_RETURN_IF_ERROR(read_rows(lines, options, workload));
  if (workload.requests.empty() && workload.sessions.empty()) {
    return bad_input("{}: is an empty workload, at least one request is needed", path);
  }
  VLLM_ASSIGN_OR_RETURN(workload.sha256, lines.sha256());
  return workload;
}

std::string workload_row_json(const WorkloadRequest& request) {
  std::string out = fmt::format(R"({{"input_toks":{},"output_toks":{},"arrival_time_ns":{})",
                                request.input_toks, request.output_toks, request.arrival_ns);
  append_ids(out, "input_tok_ids", request.input_tok_ids);
  append_ids(out, "output_tok_ids", request.output_tok_ids);
  out += '}';
  return out;
}

}  // namespace vllm
