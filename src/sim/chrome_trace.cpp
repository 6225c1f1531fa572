#include "sim/chrome_trace.h"

#include <fmt/format.h>

#include "formats/json.h"

namespace vllm {
namespace {

// Microseconds with the nanoseconds behind the point: the format's unit.
std::string microseconds(TimeNs ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

}  // namespace

Result<ChromeTrace> ChromeTrace::create(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  ChromeTrace trace(std::move(file));
  trace.status_ = trace.file_.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  VLLM_RETURN_IF_ERROR(trace.status_);
  return trace;
}

void ChromeTrace::write(const std::string& event) {
  if (!status_.is_ok()) return;
  status_ = file_.write((first_ ? "" : ",\n") + event);
  first_ = false;
}

void ChromeTrace::name_instance(int instance, const std::string& name) {
  write(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", instance,
                    Json(name).dump()));
}

void ChromeTrace::name_stage(int instance, int stage) {
  write(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"stage {}"}}}})",
                    instance, stage, stage));
}

void ChromeTrace::add_step(int instance, int stage, int64_t number, TimeNs start_ns, TimeNs end_ns) {
  write(fmt::format(R"({{"ph":"X","name":"step {}","pid":{},"tid":{},"ts":{},"dur":{}}})", number, instance,
                    stage, microseconds(start_ns), microseconds(end_ns - start_ns)));
}

Status ChromeTrace::finish() {
  VLLM_RETURN_IF_ERROR(status_);
  VLLM_RETURN_IF_ERROR(file_.write("\n]}\n"));
  return file_.commit();
}

}  // namespace vllm
