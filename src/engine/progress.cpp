#include "engine/progress.h"

#include <chrono>
#include <utility>

#include "base/log.h"

namespace vllm {
namespace {

constexpr std::chrono::seconds kInterval{2};

}  // namespace

Progress::Progress(std::string what, const Clock& clock)
    : what_(std::move(what)), clock_(clock), start_ns_(clock.now_ns()), thread_([this] { run(); }) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

TimeNs Progress::elapsed_ns() const { return clock_.now_ns() - start_ns_; }

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kInterval, [this] { return done_; })) {
    log_info("still {}: {:.0f} s", what_, ns_to_s(elapsed_ns()));
  }
}

}  // namespace vllm
