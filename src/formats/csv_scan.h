#pragma once

// Reading plain CSV fast: no quotes, LF or CRLF, columns found by the header's names, extra columns skipped.
// Private to formats. The text outlives the scan; one thread.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "base/status.h"
#include "formats/printable.h"

namespace vllm {

template <size_t N>
class CsvScan {
 public:
  using Row = std::array<std::string_view, N>;

  // Refuses a header that lacks one of `names` or has one twice.
  static Result<CsvScan> open(std::string_view text, const std::string& what,
                              const std::array<std::string_view, N>& names) {
    CsvScan scan(text, what, names);
    std::string_view line;
    if (!scan.next_line(line)) return bad_input("{}: is empty, a header line is needed", what);
    scan.columns_.fill(-1);
    int column = 0;
    while (true) {
      const size_t comma = line.find(',');
      const std::string_view name = line.substr(0, comma);
      for (size_t i = 0; i < N; ++i) {
        if (names[i] != name) continue;
        if (scan.columns_[i] >= 0) return bad_input("{}:1: column '{}' is there twice", what, name);
        scan.columns_[i] = column;
      }
      ++column;
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
    for (size_t i = 0; i < N; ++i) {
      if (scan.columns_[i] < 0) return bad_input("{}:1: has no column '{}'", what, names[i]);
    }
    scan.width_ = column;
    return scan;
  }

  // False at the end. Empty lines are skipped; a line with another number of fields than the header is an
  // error.
  Result<bool> next(Row& row) {
    std::string_view line;
    do {
      if (!next_line(line)) return false;
    } while (line.empty());
    int column = 0;
    const char* begin = line.data();
    const char* const end = begin + line.size();
    for (const char* p = begin;; ++p) {
      if (p != end && *p != ',') continue;
      for (size_t i = 0; i < N; ++i) {
        if (columns_[i] == column) row[i] = {begin, static_cast<size_t>(p - begin)};
      }
      ++column;
      if (p == end) break;
      begin = p + 1;
    }
    if (column != width_) return bad_input("{}: has {} fields, the header has {}", where(), column, width_);
    return true;
  }

  // A whole number of at least 0.
  Result<int64_t> count(const Row& row, size_t i) const {
    int64_t value = 0;
    const std::string_view text = row[i];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMaxCount) {
      return bad_input("{}: '{}' is '{}', accepted is a whole number from 0 to {}", where(), names_[i],
                       printable(text), kMaxCount);
    }
    return value;
  }

  // A finite number.
  Result<double> number(const Row& row, size_t i) const {
    double value = 0;
    const std::string_view text = row[i];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      return bad_input("{}: '{}' is '{}', a finite number is needed", where(), names_[i], printable(text));
    }
    return value;
  }

  // Microseconds to whole nanoseconds, at least 1; half to even.
  Result<int64_t> time_ns(const Row& row, size_t i) const {
    VLLM_ASSIGN_OR_RETURN(const double us, number(row, i));
    if (us < 0 || us > kMaxTimeUs) {
      return bad_input("{}: '{}' is {}, accepted is a time from 0 to {} microseconds", where(), names_[i], us,
                       kMaxTimeUs);
    }
    return std::max<int64_t>(1, std::llrint(us * 1000.0));
  }

  std::string where() const { return fmt::format("{}:{}", what_, line_number_); }

 private:
  static constexpr int64_t kMaxCount = int64_t{1}
                                       << 40;  // products and squares of keys fit 64 bits as doubles do
  static constexpr double kMaxTimeUs = 1e12;

  CsvScan(std::string_view text, const std::string& what, const std::array<std::string_view, N>& names)
      : rest_(text), what_(what), names_(names) {}

  bool next_line(std::string_view& line) {
    if (rest_.empty()) return false;
    const size_t newline = rest_.find('\n');
    line = rest_.substr(0, newline);
    rest_ = newline == std::string_view::npos ? std::string_view() : rest_.substr(newline + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    ++line_number_;
    return true;
  }

  std::string_view rest_;
  std::string what_;
  std::array<std::string_view, N> names_;
  std::array<int, N> columns_{};
  int width_ = 0;
  int64_t line_number_ = 0;
};

}  // namespace vllm
