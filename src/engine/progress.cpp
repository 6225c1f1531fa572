#include "engine/progress.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace vllm {

Progress::Progress(std::string what, const Clock& clock, TimeNs interval_ns)
    : what_(std::move(what)), clock_(clock), start_ns_(clock.now_ns()), interval_ns_(interval_ns) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // Without a thread the work goes on in silence.
  }
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

TimeNs Progress::elapsed_ns() const { return clock_.now_ns() - start_ns_; }

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::nanoseconds(interval_ns_), [this] { return done_; })) {
    log_info("still {}: {:.0f} s", what_, ns_to_s(elapsed_ns()));
  }
}

}  // namespace vllm
