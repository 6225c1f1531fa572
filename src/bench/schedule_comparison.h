#pragma once

// A recorded run's steps against the steps that our scheduler plans with the same limits, arrivals and ends.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/recording.h"
#include "formats/step_log.h"
#include "formats/workload.h"
#include "kv/spec.h"

namespace vllm {

// One request of the recording, in the order in which the scheduler got them.
struct RecordedRequest {
  int64_t index = 0;  // row of the workload, 0-based; what request ids are compared by
  TimeNs queued_ns = 0;
  TimeNs arrival_ns = 0;  // orders equal priorities
  int64_t output_tokens = 0;
  std::optional<TimeNs> aborted_ns;  // ended from outside
  bool stopped_early = false;        // ended by a token, before the length that the workload asks for
  std::optional<int64_t> cached_tokens;
};

struct RecordedRun {
  std::string dir;
  RecordedLimits limits;
  std::vector<KvGroup> groups;  // empty: one group of full attention
  Workload workload;
  std::vector<RecordedRequest> requests;
  std::vector<StepRecord> steps;
  std::vector<std::vector<int64_t>> entry_rows, preempted_rows;  // per step: workload rows of the ids in it
};

// Reads meta.json, requests.jsonl and the step log of `dir`. What does not fit together is an error that
// names the file and the request.
Result<RecordedRun> read_recorded_run(const std::string& dir, const std::string& dataset);

// 2 when some step was planned before the outputs of the one before were known.
int observed_depth(const std::vector<StepRecord>& steps);

enum class StepField { kTokens, kTotal, kRunning, kWaiting, kFreeBlocks, kPreempted };
inline constexpr size_t kNumStepFields = 6;
const char* step_field_name(StepField field);  // "tokens and order", ...

struct StepDeviation {
  int64_t step = 0;  // position in the log
  StepField field = StepField::kTokens;
  std::string ours, recorded;
};

struct ScheduleComparison {
  int depth = 1;
  int64_t steps = 0;
  int64_t equal_steps = 0;  // in all fields
  std::array<int64_t, kNumStepFields> equal{};
  int64_t cached_known = 0, cached_equal = 0;      // requests whose cached tokens the recording says
  int64_t computed_known = 0, computed_equal = 0;  // steps whose log says what was computed before
  int64_t preemptions_recorded = 0, preemptions_planned = 0;
  std::vector<StepDeviation> first;  // of the first `max_deviating_steps` steps that differ
  bool all_equal() const {
    return equal_steps == steps && cached_equal == cached_known && computed_equal == computed_known;
  }
};

Result<ScheduleComparison> compare_schedule(const RecordedRun& run, int depth, int max_deviating_steps);

// The table and the first deviations.
std::string comparison_text(const RecordedRun& run, const ScheduleComparison& comparison);

}  // namespace vllm
