#include "base/clock.h"

#include <fmt/format.h>

#include <cerrno>
#include <ctime>

namespace vllm {
namespace {

TimeNs read_clock(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<TimeNs>(t.tv_sec) * kNsPerSecond + t.tv_nsec;
}

}  // namespace

TimeNs RealClock::now_ns() const { return read_clock(CLOCK_MONOTONIC); }
TimeNs RealClock::epoch_ns() const { return read_clock(CLOCK_REALTIME); }

void RealClock::sleep_until_ns(TimeNs deadline_ns) {
  if (deadline_ns <= now_ns()) return;
  const timespec until{static_cast<time_t>(deadline_ns / kNsPerSecond), deadline_ns % kNsPerSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

std::string format_utc(TimeNs epoch_ns) {
  const time_t seconds = static_cast<time_t>(epoch_ns / kNsPerSecond);
  tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     (epoch_ns % kNsPerSecond) / kNsPerUs);
}

}  // namespace vllm
