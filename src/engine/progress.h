#pragma once

// Says every few seconds that something is still going on, so that nobody takes a long start for a hang.

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"

namespace vllm {

// From construction to destruction. Owns one thread, which sleeps; short work logs nothing.
class Progress {
 public:
  // `what` completes "still ...": "loading weights".
  Progress(std::string what, const Clock& clock, TimeNs interval_ns = 2 * kNsPerSecond);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  TimeNs elapsed_ns() const;

 private:
  void run();

  const std::string what_;
  const Clock& clock_;
  const TimeNs start_ns_;
  const TimeNs interval_ns_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace vllm
