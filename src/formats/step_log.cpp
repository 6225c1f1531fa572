#include "formats/step_log.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "formats/json.h"
#include "formats/line_reader.h"
#include "formats/row.h"
#include "formats/step_log_binary.h"

namespace vllm {

struct StepLogWriter::Impl {
  AtomicFile file;
  StepEncoder encoder;
  std::string frame;
  uint64_t records = 0;
  Status status;  // of the first append that failed: such a log is never finished
};

StepLogWriter::StepLogWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StepLogWriter::StepLogWriter(StepLogWriter&&) noexcept = default;
StepLogWriter::~StepLogWriter() = default;

Result<StepLogWriter> StepLogWriter::create(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  auto impl = std::make_unique<Impl>(Impl{std::move(file), {}, {}, 0, {}});
  VLLM_RETURN_IF_ERROR(impl->file.write(step_log_header()));
  return StepLogWriter(std::move(impl));
}

Status StepLogWriter::append(const StepRecord& record) {
  Impl& s = *impl_;
  if (s.status.is_ok()) s.status = s.encoder.encode(record, s.frame);
  if (s.status.is_ok()) s.status = s.file.write(s.frame);
  if (s.status.is_ok()) ++s.records;
  return s.status;
}

Status StepLogWriter::finish() {
  VLLM_RETURN_IF_ERROR(impl_->status);
  VLLM_RETURN_IF_ERROR(impl_->file.write(step_log_end(impl_->records)));
  return impl_->file.commit();
}

namespace {

// Seconds with up to nine decimals, none of them lost; at least one, as Python writes a float.
std::string seconds_text(TimeNs t) {
  const uint64_t magnitude = t < 0 ? -static_cast<uint64_t>(t) : static_cast<uint64_t>(t);
  std::string out =
      fmt::format("{}{}.{:09}", t < 0 ? "-" : "", magnitude / kNsPerSecond, magnitude % kNsPerSecond);
  while (out.back() == '0' && out[out.size() - 2] != '.') out.pop_back();
  return out;
}

// Exact: the decimal digits are read as an integer number of nanoseconds, further ones are rounded.
std::optional<TimeNs> parse_seconds(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.find_first_of("eE") != std::string_view::npos) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const double ns = value * 1e9;
    if (error != std::errc() || end != text.data() + text.size() || !(std::abs(ns) < 9.2e18))
      return std::nullopt;
    return std::llround(ns);
  }
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const size_t point = std::min(text.find('.'), text.size());
  int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + point, whole);
  if (error != std::errc() || end != text.data() + point || whole > 9'200'000'000) return std::nullopt;
  const std::string_view decimals = text.substr(std::min(point + 1, text.size()));
  int64_t ns = 0;
  for (size_t i = 0; i < 9; ++i) ns = ns * 10 + (i < decimals.size() ? decimals[i] - '0' : 0);
  if (decimals.size() > 9 && decimals[9] >= '5') ++ns;
  ns += whole * kNsPerSecond;
  return negative ? -ns : ns;
}

class StepRowReader {
 public:
  Result<StepRecord> read(std::string_view line) {
    record_ = {};
    computed_.clear();
    SeenKeys seen;
    VLLM_RETURN_IF_ERROR(for_each_member(
        parser_, line,
        [&](std::string_view key, simdjson::ondemand::value value) { return member(key, value, seen); }));
    for (unsigned bit = 0; bit < kRequired; ++bit) {
      if (!seen.has(bit)) return bad_input("has no '{}'", kKeys[bit]);
    }
    if (!computed_.empty()) {
      if (computed_.size() != record_.entries.size()) {
        return bad_input("'c' has {} entries, 'n' has {}", computed_.size(), record_.entries.size());
      }
      for (size_t i = 0; i < computed_.size(); ++i) record_.entries[i].num_computed = computed_[i];
    }
    return std::move(record_);
  }

 private:
  static constexpr std::string_view kKeys[] = {"step",    "t_sched",     "t_sched_end", "total", "running",
                                               "waiting", "free_blocks", "n",           "t_out", "preempted",
                                               "c"};
  static constexpr unsigned kRequired = 8;

  Status member(std::string_view key, simdjson::ondemand::value value, SeenKeys& seen) {
    const auto* known = std::find(std::begin(kKeys), std::end(kKeys), key);
    if (known == std::end(kKeys)) {
      if (is_well_formed(value)) return Status::ok();
      return bad_input("is not a JSON object: the value of '{}' is malformed", printable(key));
    }
    VLLM_RETURN_IF_ERROR(seen.add(static_cast<unsigned>(known - std::begin(kKeys)), key));
    const auto count = [&](auto& out, int64_t high) -> Status {
      VLLM_ASSIGN_OR_RETURN(const int64_t number, read_integer_in(value, key, 0, high));
      out = static_cast<std::remove_reference_t<decltype(out)>>(number);
      return Status::ok();
    };
    if (key == "step") return count(record_.step, INT64_MAX);
    if (key == "total") return count(record_.total_tokens, INT64_MAX);
    if (key == "running") return count(record_.running, INT32_MAX);
    if (key == "waiting") return count(record_.waiting, INT32_MAX);
    if (key == "free_blocks") return count(record_.free_blocks, INT64_MAX);
    if (key == "t_sched") return time(key, value, record_.t_sched_ns);
    if (key == "t_sched_end") return time(key, value, record_.t_sched_end_ns);
    if (key == "t_out") return is_null(value) ? Status::ok() : time(key, value, record_.t_out_ns);
    if (key == "n") return entries(value);
    if (key == "preempted") return preempted(value);
    return computed(value);
  }

  static Status time(std::string_view key, simdjson::ondemand::value value, TimeNs& out) {
    const std::string_view text = value.raw_json_token();
    VLLM_RETURN_IF_ERROR(read_number(value, key).status());
    const auto t = parse_seconds(text);
    if (!t) return bad_input("'{}' is {}, accepted are seconds up to 9.2e9", key, printable(text));
    out = *t;
    return Status::ok();
  }

  Status entries(simdjson::ondemand::value value) {
    simdjson::ondemand::object object;
    if (value.get_object().get(object)) return bad_input("'n' is not an object");
    for (auto field : object) {
      std::string_view id;
      simdjson::ondemand::value tokens;
      if (field.unescaped_key().get(id) || field.value().get(tokens)) return bad_input("'n' is malformed");
      VLLM_ASSIGN_OR_RETURN(const int64_t n, read_integer_in(tokens, "n", 0, INT32_MAX));
      record_.entries.push_back({std::string(id), static_cast<int32_t>(n), -1});
    }
    return Status::ok();
  }

  Status preempted(simdjson::ondemand::value value) {
    simdjson::ondemand::array list;
    if (value.get_array().get(list)) return bad_input("'preempted' is not a list");
    for (auto item : list) {
      std::string_view id;
      if (item.get_string().get(id)) return bad_input("'preempted' has an entry that is not a string");
      record_.preempted.emplace_back(id);
    }
    return Status::ok();
  }

  Status computed(simdjson::ondemand::value value) {
    simdjson::ondemand::array list;
    if (value.get_array().get(list)) return bad_input("'c' is not a list");
    for (auto item : list) {
      simdjson::ondemand::value number;
      if (item.get(number)) return bad_input("'c' is malformed");
      if (is_null(number)) {
        computed_.push_back(-1);
        continue;
      }
      VLLM_ASSIGN_OR_RETURN(const int64_t n, read_integer_in(number, "c", 0, INT32_MAX));
      computed_.push_back(static_cast<int32_t>(n));
    }
    return Status::ok();
  }

  simdjson::ondemand::parser parser_;
  StepRecord record_;
  std::vector<int32_t> computed_;
};

int64_t step_record_bytes(const StepRecord& record) {
  size_t bytes = sizeof(record);
  for (const auto& entry : record.entries) bytes += sizeof(entry) + entry.request_id.size();
  for (const std::string& id : record.preempted) bytes += sizeof(id) + id.size();
  return static_cast<int64_t>(bytes);
}

Result<std::vector<StepRecord>> read_jsonl(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  std::vector<StepRecord> records;
  StepRowReader reader;
  int64_t total_bytes = 0;
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const auto line, lines.next());
    if (!line) return records;
    if (line->empty()) continue;
    auto record = reader.read(*line);
    if (!record) return record.status().with_context(fmt::format("{}:{}", path, lines.line()));
    total_bytes += step_record_bytes(*record);
    if (total_bytes > kMaxStepLogBytes) {
      return bad_input("{}:{}: takes the log beyond {} bytes in memory", path, lines.line(),
                       kMaxStepLogBytes);
    }
    records.push_back(std::move(record).value());
  }
}

}  // namespace

Result<std::vector<StepRecord>> read_step_log(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const std::string_view start(reinterpret_cast<const char*>(file.data()),
                               std::min(file.size(), kStepLogMagic.size()));
  if (start.empty()) return bad_input("{}: is empty, a step log is needed", path);
  // A file cut inside the magic number is still a binary log, a truncated one.
  if (!kStepLogMagic.starts_with(start)) return read_jsonl(path);
  return parse_step_log_binary({file.data(), file.size()}, path);
}

std::string step_record_json(const StepRecord& record) {
  std::string out = fmt::format(
      R"({{"step": {}, "t_sched": {}, "t_sched_end": {}, "t_out": {}, "total": {}, "running": {}, "waiting": {}, )"
      R"("free_blocks": {}, "preempted": [)",
      record.step, seconds_text(record.t_sched_ns), seconds_text(record.t_sched_end_ns),
      seconds_text(record.t_out_ns), record.total_tokens, record.running, record.waiting, record.free_blocks);
  const char* separator = "";
  for (const std::string& id : record.preempted) {
    out += std::exchange(separator, ", ") + json_string(id);
  }
  out += "], \"n\": {";
  separator = "";
  bool has_computed = false;
  for (const auto& entry : record.entries) {
    out += fmt::format("{}{}: {}", std::exchange(separator, ", "), json_string(entry.request_id),
                       entry.num_tokens);
    has_computed = has_computed || entry.num_computed != -1;
  }
  out += '}';
  if (has_computed) {
    out += ", \"c\": [";
    separator = "";
    for (const auto& entry : record.entries) {
      out += std::exchange(separator, ", ");
      out += entry.num_computed == -1 ? "null" : std::to_string(entry.num_computed);
    }
    out += ']';
  }
  out += '}';
  return out;
}

Status write_step_log_jsonl(const std::string& path, const std::vector<StepRecord>& records) {
  VLLM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  for (const StepRecord& record : records) {
    VLLM_RETURN_IF_ERROR(file.write(step_record_json(record)));
    VLLM_RETURN_IF_ERROR(file.write("\n"));
  }
  return file.commit();
}

Result<std::string> find_step_log(const std::string& dir) {
  for (const char* name : {"steps.bin", "steps.jsonl", "steps.jsonl.gz"}) {
    const std::string path = join_path(dir, name);
    if (file_exists(path)) return path;
  }
  return bad_input(
      "{}: no step log; a steps.bin, steps.jsonl or steps.jsonl.gz is needed (record one with "
      "vllm-bench run --record-steps)",
      dir);
}

}  // namespace vllm
