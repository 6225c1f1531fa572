#include "formats/sim_log_reader.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "formats/line_reader.h"
#include "formats/printable.h"

namespace vllm {
namespace {

constexpr std::string_view kThroughput = "Avg prompt throughput:";
constexpr std::string_view kGeneration = "generation throughput:";
constexpr std::string_view kInstance = "Running Instance[";
constexpr std::string_view kBullet = "\u2022";

// Reads one thing after the other; what does not match leaves the position where it was.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  void skip_spaces() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) rest_.remove_prefix(1);
  }
  bool word(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  bool skip_to(std::string_view expected) {
    const size_t at = rest_.find(expected);
    if (at == std::string_view::npos) return false;
    rest_.remove_prefix(at + expected.size());
    return true;
  }
  bool count(int64_t& out) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error != std::errc() || out < 0) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return true;
  }
  // Digits, with a fraction or without; nothing else.
  bool number(double& out) {
    if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') return false;
    const auto [end, error] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), out, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(out)) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return true;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// "[1.0s]" at the beginning of a line.
std::optional<double> tick_label(std::string_view line) {
  Scanner scan(line);
  double t = 0;
  if (!scan.word("[") || !scan.number(t) || !scan.word("s]")) return std::nullopt;
  return t;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Without "ESC [ ... letter".
std::string without_colours(std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') ++i;
    while (i + 1 < line.size() && !std::isalpha(static_cast<unsigned char>(line[i + 1]))) ++i;
    ++i;
  }
  return out;
}

class Parser {
 public:
  Status line(std::string_view line) {
    VLLM_RETURN_IF_ERROR(tick(line));
    VLLM_RETURN_IF_ERROR(instance(line));
    VLLM_RETURN_IF_ERROR(bullet(line));
    if (line.starts_with("Total requests:") || line.starts_with("Total clocks (ns):")) {
      log_.has_results = known_ = true;
    }
    return Status::ok();
  }
  bool known() const { return known_; }
  SimLog take() { return std::move(log_); }

 private:
  Status tick(std::string_view line) {
    if (const auto t = tick_label(line)) {
      if (!log_.ticks.empty() && *t < log_.ticks.back().t_s) {
        return bad_input("the heartbeat of {} s stands behind that of {} s: this is more than one log", *t,
                         log_.ticks.back().t_s);
      }
      log_.ticks.push_back({*t, 0, 0, 0, 0});
      known_ = true;
    }
    Scanner scan(line);
    if (!scan.skip_to(kThroughput)) return Status::ok();
    if (log_.ticks.empty()) return bad_input("a throughput stands before the first heartbeat '[<seconds>s]'");
    SimLogTick& tick = log_.ticks.back();
    scan.skip_spaces();
    bool good = scan.number(tick.prompt_throughput) && scan.skip_to(kGeneration);
    scan.skip_spaces();
    good = good && scan.number(tick.gen_throughput);
    if (good) return Status::ok();
    return bad_input(
        "'{}' is malformed, 'Avg prompt throughput: <number> ... generation throughput: <number>' "
        "is needed",
        printable(trimmed(line)));
  }

  Status instance(std::string_view line) {
    Scanner scan(line);
    if (!scan.skip_to(kInstance)) return Status::ok();
    if (log_.ticks.empty()) return bad_input("an instance stands before the first heartbeat '[<seconds>s]'");
    int64_t id = 0, running = 0, waiting = 0;
    bool good = scan.count(id) && scan.word("]:");
    scan.skip_spaces();
    good = good && scan.count(running) && scan.word(" reqs, Waiting:");
    scan.skip_spaces();
    good = good && scan.count(waiting) && scan.word(" reqs");
    if (!good) {
      return bad_input("'{}' is malformed, 'Running Instance[<i>]: <n> reqs, Waiting: <n> reqs' is needed",
                       printable(trimmed(line)));
    }
    SimLogTick& tick = log_.ticks.back();
    if (__builtin_add_overflow(tick.running, running, &tick.running) ||
        __builtin_add_overflow(tick.waiting, waiting, &tick.waiting)) {
      return bad_input("the requests of the instances sum up to more than 63 bits");
    }
    return Status::ok();
  }

  // "  • <label> : <value>"; "  • Instance [0] : 41408 tokens / 2588 blocks (...)".
  Status bullet(std::string_view line) {
    std::string_view text = trimmed(line);
    if (!text.starts_with(kBullet)) return Status::ok();
    text = trimmed(text.substr(kBullet.size()));
    if (text.starts_with("Instance [")) return pool(text);
    const size_t colon = text.find(" :");
    if (colon == std::string_view::npos) return Status::ok();
    log_.configuration.push_back(
        {std::string(trimmed(text.substr(0, colon))), std::string(trimmed(text.substr(colon + 2)))});
    known_ = true;
    return Status::ok();
  }

  Status pool(std::string_view text) {
    Scanner scan(text);
    SimLogPool pool;
    bool good = scan.word("Instance [") && scan.count(pool.instance) && scan.word("]");
    scan.skip_spaces();
    good = good && scan.word(":");
    scan.skip_spaces();
    good = good && scan.count(pool.tokens) && scan.word(" tokens / ") && scan.count(pool.blocks) &&
           scan.word(" blocks");
    if (!good) {
      return bad_input("'{}' is malformed, 'Instance [<i>] : <n> tokens / <n> blocks' is needed",
                       printable(text));
    }
    for (const SimLogPool& other : log_.pools) {
      if (other.instance == pool.instance) return bad_input("instance {} has a second pool", pool.instance);
    }
    log_.pools.push_back(pool);
    known_ = true;
    return Status::ok();
  }

  SimLog log_;
  bool known_ = false;
};

}  // namespace

const std::string* SimLog::setting(std::string_view label) const {
  for (const SimLogSetting& s : configuration) {
    if (s.label == label) return &s.value;
  }
  return nullptr;
}

Result<SimLog> read_sim_log(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path));
  Parser parser;
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const auto line, lines.next());
    if (!line) break;
    const Status status = line->find('\x1b') == std::string_view::npos ? parser.line(*line)
                                                                       : parser.line(without_colours(*line));
    if (!status) return status.with_context(fmt::format("{}:{}", path, lines.line()));
  }
  if (!parser.known()) {
    return bad_input(
        "{}: is not a simulator's log: it has no heartbeat '[<seconds>s]', no configuration and no results",
        path);
  }
  return parser.take();
}

}  // namespace vllm
