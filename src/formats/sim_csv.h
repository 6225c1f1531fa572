#pragma once

// The simulator's file of requests (sim.csv): one row a finished request, CRLF lines, whole nanoseconds, ITL
// as a Python-style list. Written and read row by row, so that a file of any length needs the memory of a
// row.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/status.h"

namespace vllm {

// The views belong to whoever filled the row in; those of the reader are valid until its next call.
struct SimRow {
  int64_t instance_id = 0;
  int64_t request_id = 0;
  std::string_view model;
  int64_t input_toks = 0, output_toks = 0;
  int64_t arrival_ns = 0, end_time_ns = 0, latency_ns = 0, queuing_delay_ns = 0;
  int64_t ttft_ns = 0;
  int64_t tpot_ns = 0;                // 0 for one output token
  std::span<const int64_t> itl_ns{};  // output_toks - 1 of them; empty where they are not kept
};

// The header line, without its end.
std::string_view sim_csv_header();
// One line with its end, appended.
void append_sim_csv_row(const SimRow& row, std::string& out);

// The file appears under its name in finish(); destroyed without it, nothing is left. One thread.
class SimCsvWriter {
 public:
  static Result<SimCsvWriter> create(const std::string& path);
  Status write(const SimRow& row);
  Status finish();

 private:
  explicit SimCsvWriter(AtomicFile file) : file_(std::move(file)) {}
  AtomicFile file_;
  std::string buffer_;
};

// Columns are found by name, lines end with CRLF or LF, columns that are not known are passed over. Missing
// ones among instance id, model, arrival, end_time, queuing_delay and ITL read as 0 and empty. A row that is
// malformed is an error with its line. Plain or gzip-compressed. One thread.
class SimCsvReader {
 public:
  static Result<SimCsvReader> open(const std::string& path);
  SimCsvReader(SimCsvReader&&) noexcept;
  SimCsvReader& operator=(SimCsvReader&&) noexcept;
  ~SimCsvReader();

  // nullopt at the end of the file.
  Result<std::optional<SimRow>> next();
  int64_t line() const;  // of the row that next() returned last, from 1

 private:
  struct Impl;
  explicit SimCsvReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace vllm
