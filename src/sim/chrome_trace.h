#pragma once

// A trace of steps for chrome://tracing and Perfetto: one process an instance, one thread a pipeline stage.
// Written event by event. One thread owns it.

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"

namespace vllm {

class ChromeTrace {
 public:
  static Result<ChromeTrace> create(const std::string& path);
  void name_instance(int instance, const std::string& name);
  void name_stage(int instance, int stage);
  // A step on one stage.
  void add_step(int instance, int stage, int64_t number, TimeNs start_ns, TimeNs end_ns);
  Status finish();  // the first error of any write

 private:
  explicit ChromeTrace(AtomicFile file) : file_(std::move(file)) {}
  void write(const std::string& event);

  AtomicFile file_;
  bool first_ = true;
  Status status_;
};

}  // namespace vllm
