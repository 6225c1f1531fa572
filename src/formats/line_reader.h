#pragma once

// Lines of a text file, plain or gzip-compressed (told apart by content), in bounded memory.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace vllm {

struct LineReaderOptions {
  int64_t max_line_bytes = int64_t{64} << 20;
  // A small compressed file can unfold into a huge one.
  int64_t max_unpacked_bytes = int64_t{4} << 30;
  bool hash = false;
};

// One thread owns it.
class LineReader {
 public:
  // Bytes that may be read (not used) behind a line's end, as simdjson does.
  static constexpr size_t kPadding = 64;

  static Result<LineReader> open(const std::string& path, const LineReaderOptions& options = {});
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;
  ~LineReader();

  // The next line without its end (LF or CRLF); it stays valid until the next call. nullopt at the end of the
  // file. Errors name path and line.
  Result<std::optional<std::string_view>> next();
  // 1-based number of the line that next() returned last.
  int64_t line() const;
  // With options.hash: SHA-256 in hex of the file's bytes as they are stored. Reads the rest of the file.
  Result<std::string> sha256();

 private:
  struct Impl;
  explicit LineReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace vllm
