#include "common/interrupt.h"

#include <csignal>

namespace vllm {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may use lock-free atomics only");

extern "C" void on_signal(int signal_number) {
  if (!interrupted.exchange(true)) return;
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

}  // namespace

const std::atomic<bool>& install_interrupt_flag() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return interrupted;
}

}  // namespace vllm
