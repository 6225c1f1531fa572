#pragma once

// The only source of time. Durations and instants are integer nanoseconds; `now_ns` is monotonic with an
// arbitrary zero, `epoch_ns` is the wall clock (Unix time) and serves stamps that people read, never
// differences.

#include <cstdint>
#include <string>

namespace vllm {

using TimeNs = int64_t;

inline constexpr TimeNs kNsPerUs = 1'000;
inline constexpr TimeNs kNsPerMs = 1'000'000;
inline constexpr TimeNs kNsPerSecond = 1'000'000'000;

inline double ns_to_s(TimeNs t) { return static_cast<double>(t) * 1e-9; }
inline double ns_to_ms(TimeNs t) { return static_cast<double>(t) * 1e-6; }

// Any thread may call any method.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs now_ns() const = 0;
  virtual TimeNs epoch_ns() const = 0;
  // Returns at once when `deadline_ns` has passed. A virtual clock advances to the deadline.
  virtual void sleep_until_ns(TimeNs deadline_ns) = 0;
};

class RealClock final : public Clock {
 public:
  TimeNs now_ns() const override;
  TimeNs epoch_ns() const override;
  void sleep_until_ns(TimeNs deadline_ns) override;
};

// Time moves only by sleeping or by advance_to. Not thread-safe: one thread owns a simulation.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(TimeNs start_ns = 0, TimeNs epoch_start_ns = 0)
      : now_ns_(start_ns), epoch_offset_ns_(epoch_start_ns - start_ns) {}
  TimeNs now_ns() const override { return now_ns_; }
  TimeNs epoch_ns() const override { return now_ns_ + epoch_offset_ns_; }
  void sleep_until_ns(TimeNs deadline_ns) override { advance_to_ns(deadline_ns); }
  // An instant in the past is ignored: time never runs backwards.
  void advance_to_ns(TimeNs t) {
    if (t > now_ns_) now_ns_ = t;
  }

 private:
  TimeNs now_ns_;
  TimeNs epoch_offset_ns_;
};

// "2026-11-30T15:50:10.330085Z"
std::string format_utc(TimeNs epoch_ns);

}  // namespace vllm
