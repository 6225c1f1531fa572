#include "bench/run_files.h"

#include <vector>

#include "base/file.h"
#include "formats/json.h"

namespace vllm {
namespace {

constexpr const char* kAborted = "aborted.json";
constexpr const char* kMeta = "meta.json";
constexpr const char* kRequests = "requests.jsonl";
constexpr const char* kTimeseries = "timeseries.csv";

Status write_requests(const OutputDir& dir, const Recorder& recorder, bool with_itl) {
  VLLM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(dir.file(kRequests)));
  for (size_t i = 0; i < recorder.traces().size(); ++i) {
    const RequestRecord record = make_request_record(recorder.input(), recorder.traces()[i], i, with_itl);
    VLLM_RETURN_IF_ERROR(file.write(request_record_json(record) + "\n"));
  }
  return file.commit();
}

}  // namespace

Status write_start_files(const OutputDir& dir, const RunFacts& facts) {
  VLLM_RETURN_IF_ERROR(dir.create_new("engine_start.json", json_text(engine_start_json(facts))));
  AbortFacts unknown;
  unknown.reason = "the process ended without a word: it was killed, crashed, or is still running";
  unknown.epoch_ns = facts.started_epoch_ns;
  return dir.write(kAborted, json_text(aborted_json(facts, unknown)));
}

Status write_recording(const OutputDir& dir, const Recorder& recorder, bool with_itl,
                       StepLogWriter* step_log) {
  if (step_log != nullptr) {
    VLLM_RETURN_IF_ERROR(step_log->finish());
    VLLM_ASSIGN_OR_RETURN(const std::vector<StepRecord> steps, read_step_log(dir.file(kStepLogName)));
    VLLM_RETURN_IF_ERROR(write_step_log_jsonl(dir.file(kStepDumpName), steps));
  }
  VLLM_RETURN_IF_ERROR(write_requests(dir, recorder, with_itl));
  return dir.write(kTimeseries, timeseries_csv(recorder.timeseries()));
}

Status write_meta(const OutputDir& dir, const Json& meta) {
  VLLM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(dir.file(kMeta)));
  VLLM_RETURN_IF_ERROR(file.write(json_text(meta)));
  VLLM_RETURN_IF_ERROR(file.flush());
  // In this order a reader never sees a finished run that is also said to be aborted.
  dir.remove(kAborted);
  return file.commit();
}

Status write_aborted(const OutputDir& dir, const RunFacts& facts, const Recorder* recorder,
                     const std::string& reason, TimeNs epoch_ns) {
  for (const char* name : {kRequests, kTimeseries}) dir.remove(name);
  AbortFacts abort;
  abort.reason = reason;
  abort.epoch_ns = epoch_ns;
  if (recorder != nullptr) {
    abort.num_issued = recorder->num_issued();
    abort.num_finished = recorder->num_finished();
    for (size_t i = 0; i < recorder->traces().size(); ++i) {
      if (!recorder->traces()[i].finished) continue;
      abort.finished_requests.push_back(
          request_record_json(make_request_record(recorder->input(), recorder->traces()[i], i, false)));
    }
  }
  if (dir.write(kAborted, json_text(aborted_json(facts, abort))).is_ok()) return Status::ok();
  abort.finished_requests.clear();
  return dir.write(kAborted, json_text(aborted_json(facts, abort)));
}

}  // namespace vllm
