#pragma once

// One line about a replay that takes longer than two seconds, on stderr: in place on a terminal, otherwise a
// line every ten seconds.

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace vllm {

struct ProgressState {
  int64_t done = 0, total = 0;
  int32_t running = 0, waiting = 0;
  int64_t output_tokens = 0, total_output_tokens = 0;
  TimeNs last_due_ns = 0;
};

// "12/64 requests, 8 running, 0 waiting, 131 tok/s, about 40 s left"
std::string progress_text(const ProgressState& state, TimeNs start_ns, TimeNs now_ns);

// One thread owns it.
class ReplayProgress {
 public:
  ReplayProgress(bool terminal, TimeNs start_ns)
      : terminal_(terminal), start_ns_(start_ns), next_ns_(start_ns + kFirst) {}
  // The text to write to stderr now; empty most of the time.
  std::string update(const ProgressState& state, TimeNs now_ns);
  // Ends a line that stands on the terminal.
  std::string finish();

 private:
  static constexpr TimeNs kFirst = 2 * kNsPerSecond;
  bool terminal_;
  bool shown_ = false;
  TimeNs start_ns_;
  TimeNs next_ns_;
};

}  // namespace vllm
