#pragma once

// The step log: one record for every step of a core loop, enough to rebuild each plan and its time. Binary
// form `steps.bin` (documented in docs/formats.md), dump `steps.jsonl` in the shape of the recordings that
// the vLLM recorder makes:
// {"step","t_sched","t_sched_end","t_out","total","running","waiting","free_blocks","preempted",
// "n":{id:tokens}} plus our additions at the end. Times in the file are seconds on the engine's monotonic
// clock.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"

namespace vllm {

struct StepRecord {
  int64_t step = 0;
  TimeNs t_sched_ns = 0;      // start of planning
  TimeNs t_sched_end_ns = 0;  // end of planning
  TimeNs t_out_ns = 0;        // tokens on the host; 0 when the recording ended before
  int64_t total_tokens = 0;
  int32_t running = 0;  // after planning
  int32_t waiting = 0;
  int64_t free_blocks = 0;
  struct Entry {
    std::string request_id;
    int32_t num_tokens = 0;
    int32_t num_computed = -1;  // before this step; -1 when the log does not say (vLLM's do not)
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries;          // in scheduling order
  std::vector<std::string> preempted;  // in the order of preemption
  bool operator==(const StepRecord&) const = default;
};

// Appends records; request ids are interned, so a step costs a few bytes an entry. Appears by rename in
// finish(). One thread owns it.
class StepLogWriter {
 public:
  static Result<StepLogWriter> create(const std::string& path);
  Status append(const StepRecord& record);
  Status finish();
  StepLogWriter(StepLogWriter&&) noexcept;
  ~StepLogWriter();

 private:
  struct Impl;
  explicit StepLogWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The path of the step log in the folder of a recording.
Result<std::string> find_step_log(const std::string& dir);

// Reads steps.bin, steps.jsonl or steps.jsonl.gz, by content. A malformed record is an error with its number
// or line.
Result<std::vector<StepRecord>> read_step_log(const std::string& path);
std::string step_record_json(const StepRecord& record);  // one line, no newline
Status write_step_log_jsonl(const std::string& path, const std::vector<StepRecord>& records);

}  // namespace vllm
