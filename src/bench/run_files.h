#pragma once

// Writing the files of a run, in an order such that meta.json is the last, and the account of one that did
// not end well.

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "bench/meta.h"
#include "bench/output_dir.h"
#include "bench/recorder.h"
#include "formats/step_log.h"

namespace vllm {

inline constexpr const char* kStepLogName = "steps.bin";
inline constexpr const char* kStepDumpName = "steps.jsonl";

// Marks the folder as taken by a run, before its first submission: engine_start.json, which is never
// overwritten, and an aborted.json that stands there in case that the process cannot say why it ended.
Status write_start_files(const OutputDir& dir, const RunFacts& facts);

// requests.jsonl and timeseries.csv; with a step log, its end and its dump as lines.
Status write_recording(const OutputDir& dir, const Recorder& recorder, bool with_itl,
                       StepLogWriter* step_log);

// meta.json in place of the aborted.json of the start.
Status write_meta(const OutputDir& dir, const Json& meta);

// aborted.json with the reason and every finished request; requests.jsonl and timeseries.csv go, so that
// nobody takes them for a finished run's. On a full disk it becomes shorter. The error is why nothing could
// be written.
Status write_aborted(const OutputDir& dir, const RunFacts& facts, const Recorder* recorder,
                     const std::string& reason, TimeNs epoch_ns);

}  // namespace vllm
