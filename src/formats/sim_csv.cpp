#include "formats/sim_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "formats/line_reader.h"
#include "formats/printable.h"

namespace vllm {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

enum class Kind { kNumber, kText, kList };

struct Column {
  std::string_view name;
  bool required;
  Kind kind;
  int64_t SimRow::*number;
};

// In the order in which they are written.
constexpr Column kColumns[] = {
    {"instance id", false, Kind::kNumber, &SimRow::instance_id},
    {"request id", true, Kind::kNumber, &SimRow::request_id},
    {"model", false, Kind::kText, nullptr},
    {"input", true, Kind::kNumber, &SimRow::input_toks},
    {"output", true, Kind::kNumber, &SimRow::output_toks},
    {"arrival", false, Kind::kNumber, &SimRow::arrival_ns},
    {"end_time", false, Kind::kNumber, &SimRow::end_time_ns},
    {"latency", true, Kind::kNumber, &SimRow::latency_ns},
    {"queuing_delay", false, Kind::kNumber, &SimRow::queuing_delay_ns},
    {"TTFT", true, Kind::kNumber, &SimRow::ttft_ns},
    {"TPOT", true, Kind::kNumber, &SimRow::tpot_ns},
    {"ITL", false, Kind::kList, nullptr},
};

void append_number(int64_t value, std::string& out) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  out.append(digits, end);
}

// Minimal quoting: only a text that needs it is quoted.
void append_text(std::string_view text, std::string& out) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += c;
    out += c;
  }
  out += '"';
}

void append_list(std::span<const int64_t> values, std::string& out) {
  const bool quoted = values.size() > 1;  // only then it holds a comma
  if (quoted) out += '"';
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ", ";
    append_number(values[i], out);
  }
  out += ']';
  if (quoted) out += '"';
}

// A whole number of 0 or more; a fraction, which other writers of this file leave in, is rounded. Returns
// where it ends, nullptr when it is none.
const char* parse_number(const char* begin, const char* end, int64_t& out) {
  auto [at, error] = std::from_chars(begin, end, out);
  if (error == std::errc() && (at == end || (*at != '.' && *at != 'e' && *at != 'E'))) {
    return out >= 0 ? at : nullptr;
  }
  double real = 0;
  const auto [real_end, real_error] = std::from_chars(begin, end, real);
  // Beyond 2^53 a double does not say which whole number was meant.
  if (real_error != std::errc() || !(real >= 0) || real > 9007199254740992.0) return nullptr;
  out = std::llround(real);
  return real_end;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Status read_number_field(std::string_view text, const Column& column, int64_t& out) {
  text = trimmed(text);
  const char* end = text.data() + text.size();
  if (text.empty() || parse_number(text.data(), end, out) != end) {
    return bad_input("'{}' is '{}', a whole number of 0 or more is needed", column.name, printable(text));
  }
  return Status::ok();
}

Status read_list_field(std::string_view text, const Column& column, std::vector<int64_t>& out) {
  out.clear();
  text = trimmed(text);
  const auto malformed = [&] {
    return bad_input("'{}' is '{}', a list like [11, 12] is needed", column.name, printable(text));
  };
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return malformed();
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size() - 1;
  while (at != end && *at == ' ') ++at;
  while (at != end) {
    int64_t value = 0;
    at = parse_number(at, end, value);
    if (at == nullptr)
      return bad_input("'{}' has an entry {} that is no whole number", column.name, out.size());
    out.push_back(value);
    if (at == end) break;
    if (*at != ',') return malformed();
    ++at;
    while (at != end && *at == ' ') ++at;
    if (at == end) return malformed();
  }
  return Status::ok();
}

// The fields of a line; quoted ones without their quotes. `unescaped` keeps those that held a doubled quote.
Status split_fields(std::string_view line, std::vector<std::string_view>& fields,
                    std::vector<std::unique_ptr<std::string>>& unescaped) {
  fields.clear();
  unescaped.clear();
  size_t at = 0;
  while (true) {
    if (at < line.size() && line[at] == '"') {
      const size_t begin = at + 1;
      bool doubled = false;
      size_t close = line.find('"', begin);
      while (close != std::string_view::npos && close + 1 < line.size() && line[close + 1] == '"') {
        doubled = true;
        close = line.find('"', close + 2);
      }
      if (close == std::string_view::npos) return bad_input("has a quote that is not closed");
      std::string_view field = line.substr(begin, close - begin);
      if (doubled) {
        auto text = std::make_unique<std::string>();
        for (size_t i = 0; i < field.size(); ++i) {
          *text += field[i];
          if (field[i] == '"') ++i;
        }
        unescaped.push_back(std::move(text));
        field = *unescaped.back();
      }
      fields.push_back(field);
      at = close + 1;
      if (at == line.size()) return Status::ok();
      if (line[at] != ',') return bad_input("has something behind a closing quote");
    } else {
      const size_t comma = std::min(line.find(',', at), line.size());
      fields.push_back(line.substr(at, comma - at));
      at = comma;
      if (at == line.size()) return Status::ok();
    }
    ++at;  // the comma
  }
}

// For each field of a line the column that it is; nullptr for columns that we do not know.
Result<std::vector<const Column*>> read_header(const std::vector<std::string_view>& names) {
  std::vector<const Column*> columns;
  for (const std::string_view name : names) {
    const auto* known = std::find_if(std::begin(kColumns), std::end(kColumns),
                                     [&](const Column& c) { return c.name == trimmed(name); });
    const Column* column = known == std::end(kColumns) ? nullptr : known;
    if (column != nullptr && std::find(columns.begin(), columns.end(), column) != columns.end()) {
      return bad_input("has the column '{}' twice", column->name);
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

}  // namespace

std::string_view sim_csv_header() {
  return "instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL";
}

void append_sim_csv_row(const SimRow& row, std::string& out) {
  for (const Column& c : kColumns) {
    if (&c != kColumns) out += ',';
    if (c.kind == Kind::kNumber) append_number(row.*c.number, out);
    if (c.kind == Kind::kText) append_text(row.model, out);
    if (c.kind == Kind::kList) append_list(row.itl_ns, out);
  }
  out += "\r\n";
}

Result<SimCsvWriter> SimCsvWriter::create(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  SimCsvWriter writer(std::move(file));
  writer.buffer_.reserve(2 * kBufferBytes);
  writer.buffer_ += sim_csv_header();
  writer.buffer_ += "\r\n";
  return writer;
}

Status SimCsvWriter::write(const SimRow& row) {
  append_sim_csv_row(row, buffer_);
  if (buffer_.size() < kBufferBytes) return Status::ok();
  VLLM_RETURN_IF_ERROR(file_.write(buffer_));
  buffer_.clear();
  return Status::ok();
}

Status SimCsvWriter::finish() {
  VLLM_RETURN_IF_ERROR(file_.write(buffer_));
  buffer_.clear();
  return file_.commit();
}

struct SimCsvReader::Impl {
  std::string path;
  LineReader lines;
  std::vector<const Column*> columns;
  std::vector<std::string_view> fields;
  std::vector<std::unique_ptr<std::string>> unescaped;
  std::vector<int64_t> itl;

  Status read_row(std::string_view line, SimRow& row) {
    VLLM_RETURN_IF_ERROR(split_fields(line, fields, unescaped));
    if (fields.size() != columns.size()) {
      return bad_input("has {} fields, the header has {}", fields.size(), columns.size());
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      const Column* column = columns[i];
      if (column == nullptr) continue;
      if (column->kind == Kind::kText) {
        row.model = fields[i];
      } else if (column->kind == Kind::kList) {
        VLLM_RETURN_IF_ERROR(read_list_field(fields[i], *column, itl));
        row.itl_ns = itl;
      } else {
        VLLM_RETURN_IF_ERROR(read_number_field(fields[i], *column, row.*column->number));
      }
    }
    return Status::ok();
  }
};

SimCsvReader::SimCsvReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SimCsvReader::SimCsvReader(SimCsvReader&&) noexcept = default;
SimCsvReader& SimCsvReader::operator=(SimCsvReader&&) noexcept = default;
SimCsvReader::~SimCsvReader() = default;

Result<SimCsvReader> SimCsvReader::open(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  VLLM_ASSIGN_OR_RETURN(const auto header, lines.next());
  if (!header) return bad_input("{}: is empty, a header line is needed", path);
  std::vector<std::string_view> names;
  std::vector<std::unique_ptr<std::string>> unescaped;
  VLLM_RETURN_IF_ERROR(split_fields(*header, names, unescaped).with_context(path + ":1"));
  auto columns = read_header(names);
  if (!columns) return columns.status().with_context(path + ":1");
  auto impl = std::make_unique<Impl>(Impl{path, std::move(lines), std::move(columns).value(), {}, {}, {}});
  return SimCsvReader(std::move(impl));
}

Result<std::optional<SimRow>> SimCsvReader::next() {
  Impl& s = *impl_;
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const auto line, s.lines.next());
    if (!line) return std::optional<SimRow>();
    if (line->empty()) continue;
    SimRow row;
    const Status status = s.read_row(*line, row);
    if (!status) return status.with_context(fmt::format("{}:{}", s.path, s.lines.line()));
    return std::optional(row);
  }
}

int64_t SimCsvReader::line() const { return impl_->lines.line(); }

}  // namespace vllm
