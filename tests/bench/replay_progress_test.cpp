#include "bench/replay_progress.h"

namespace vllm {
namespace {

ProgressState state() {
  ProgressState s;
  s.done = 12;
  s.total = 64;
  s.running = 8;
  s.waiting = 1;
  s.output_tokens = 500;
  s.total_output_tokens = 1500;
  return s;
}

TEST(ReplayProgressTest, SaysWhatIsDoneAndHowLongTheRestTakes) {
  EXPECT_EQ(progress_text(state(), 0, 5 * kNsPerSecond),
            "12/64 requests, 8 running, 1 waiting, 100 tok/s, about 10 s left");
}

TEST(ReplayProgressTest, TheScheduleBoundsTheRest) {
  ProgressState s = state();
  s.last_due_ns = 65 * kNsPerSecond;
  EXPECT_EQ(progress_text(s, 0, 5 * kNsPerSecond),
            "12/64 requests, 8 running, 1 waiting, 100 tok/s, about 60 s left");
}

TEST(ReplayProgressTest, BeforeTheFirstTokenNothingIsPromised) {
  ProgressState s = state();
  s.output_tokens = 0;
  EXPECT_EQ(progress_text(s, 0, kNsPerSecond), "12/64 requests, 8 running, 1 waiting, 0 tok/s");
}

TEST(ReplayProgressTest, AShortRunSaysNothing) {
  ReplayProgress progress(true, 0);
  EXPECT_EQ(progress.update(state(), kNsPerSecond), "");
  EXPECT_EQ(progress.finish(), "");
}

TEST(ReplayProgressTest, OnATerminalInPlaceOtherwiseALineEveryTenSeconds) {
  ReplayProgress terminal(true, 0);
  EXPECT_EQ(terminal.update(state(), 2 * kNsPerSecond).substr(0, 4), "\r\x1b[K");
  EXPECT_EQ(terminal.update(state(), 2 * kNsPerSecond + kNsPerMs), "");
  EXPECT_NE(terminal.update(state(), 3 * kNsPerSecond), "");
  EXPECT_EQ(terminal.finish(), "\r\x1b[K");

  ReplayProgress lines(false, 0);
  EXPECT_EQ(lines.update(state(), 2 * kNsPerSecond).back(), '\n');
  EXPECT_EQ(lines.update(state(), 11 * kNsPerSecond), "");
  EXPECT_EQ(lines.update(state(), 12 * kNsPerSecond).back(), '\n');
  EXPECT_EQ(lines.finish(), "");
}

}  // namespace
}  // namespace vllm
