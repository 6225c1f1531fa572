#include "base/clock.h"

namespace vllm {
namespace {

TEST(VirtualClock, MovesOnlyForward) {
  VirtualClock clock(100, 5'000);
  EXPECT_EQ(clock.now_ns(), 100);
  clock.sleep_until_ns(250);
  EXPECT_EQ(clock.now_ns(), 250);
  clock.sleep_until_ns(200);
  EXPECT_EQ(clock.now_ns(), 250);
  EXPECT_EQ(clock.epoch_ns(), 5'150);
}

TEST(RealClock, SleepsUntilTheDeadlineAndNotBefore) {
  RealClock clock;
  const TimeNs deadline = clock.now_ns() + 2 * kNsPerMs;
  clock.sleep_until_ns(deadline);
  EXPECT_GE(clock.now_ns(), deadline);
  const TimeNs before = clock.now_ns();
  clock.sleep_until_ns(before - kNsPerSecond);  // in the past: returns
  EXPECT_GE(clock.now_ns(), before);
}

TEST(FormatUtc, WritesMicroseconds) {
  EXPECT_EQ(format_utc(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(format_utc(1'796'053'810'330'085'999), "2026-11-30T15:50:10.330085Z");
}

}  // namespace
}  // namespace vllm
