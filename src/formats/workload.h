#pragma once

// A workload: JSONL with one request or one session a line (docs/formats.md). Plain or .gz.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace vllm {

// What a file may hold: more is an error that says so.
inline constexpr int64_t kMaxWorkloadRows = int64_t{1} << 24;
inline constexpr int64_t kMaxWorkloadLineBytes = int64_t{64} << 20;
// 73 years: sums of a few instants and durations stay far from overflow.
inline constexpr TimeNs kMaxWorkloadTimeNs = int64_t{1} << 61;

struct WorkloadRequest {
  int64_t line = 0;  // 1-based line of the file
  int32_t input_toks = 0;
  int32_t output_toks = 0;
  TimeNs arrival_ns = 0;                // relative to the start of the run
  std::vector<int32_t> input_tok_ids;   // empty when the row has none
  std::vector<int32_t> output_tok_ids;  // empty when the row has none
};

struct WorkloadSession {
  int64_t line = 0;
  std::string session_id;
  TimeNs arrival_ns = 0;
  struct Call {
    WorkloadRequest request;  // arrival_ns unused
    TimeNs tool_duration_ns = 0;
  };
  std::vector<Call> calls;
};

struct Workload {
  std::string path;
  std::string sha256;                     // of the file's bytes
  std::vector<WorkloadRequest> requests;  // flat rows in file order
  std::vector<WorkloadSession> sessions;  // session rows in file order
};

struct WorkloadReadOptions {
  int64_t max_rows = 0;         // 0: all. Counts flat rows only
  bool need_token_ids = false;  // a flat row without non-empty input_tok_ids is an error naming its line
  bool keep_token_ids = true;   // false: ids are checked and dropped
  int64_t vocab_size = 0;       // > 0: an id outside [0, vocab_size) is an error naming line and id
};

// Blank lines are ignored. A line that is not JSON, lacks a key, has a negative or overflowing number, or
// whose input_tok_ids do not have input_toks entries: an error with file and line. An empty workload is an
// error.
Result<Workload> read_workload(const std::string& path, const WorkloadReadOptions& options);

// One flat row as the generators write it (keys in the documented order, no newline).
std::string workload_row_json(const WorkloadRequest& request);

// SHA-256 in hex.
std::string sha256_hex(std::string_view bytes);
Result<std::string> sha256_file(const std::string& path);

}  // namespace vllm
