#include "engine/progress.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

TEST(Progress, LongWorkIsSaidAndShortWorkIsNot) {
  RealClock clock;
  ::testing::internal::CaptureStderr();
  {
    const Progress progress("loading weights", clock, 5 * kNsPerMs);
    clock.sleep_until_ns(clock.now_ns() + 300 * kNsPerMs);
    EXPECT_GE(progress.elapsed_ns(), 300 * kNsPerMs);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("still loading weights"));

  ::testing::internal::CaptureStderr();
  { const Progress progress("loading weights", clock); }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace vllm
