#include "bench/replay.h"

#include <thread>

namespace vllm {
namespace {

struct Issue {
  size_t index;
  TimeNs due_ns, now_ns;
  bool operator==(const Issue&) const = default;
};

class ReplayTest : public ::testing::Test {
 protected:
  Status run(const std::function<Status(size_t, TimeNs)>& also = {}) {
    return issue_on_schedule(queue_, clock_, stop_, [&](size_t index, TimeNs due_ns) {
      issued_.push_back({index, due_ns, clock_.now_ns()});
      return also ? also(index, due_ns) : Status::ok();
    });
  }

  VirtualClock clock_;
  IssueQueue queue_;
  std::atomic<bool> stop_ = false;
  std::vector<Issue> issued_;
};

TEST_F(ReplayTest, IssuesEachItemExactlyWhenItIsDue) {
  queue_.push(30 * kNsPerMs, 0);
  queue_.push(700 * kNsPerMs, 2);
  queue_.push(40 * kNsPerMs, 1);
  ASSERT_TRUE(run().is_ok());
  const std::vector<Issue> expected = {{0, 30 * kNsPerMs, 30 * kNsPerMs},
                                       {1, 40 * kNsPerMs, 40 * kNsPerMs},
                                       {2, 700 * kNsPerMs, 700 * kNsPerMs}};
  EXPECT_EQ(issued_, expected);
}

TEST_F(ReplayTest, EqualInstantsGoInDatasetOrder) {
  for (const size_t index : {3u, 0u, 2u, 1u}) queue_.push(5, index);
  ASSERT_TRUE(run().is_ok());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(issued_[i].index, i);
}

// The schedule is absolute: one slow issue makes the following ones late, and they catch up at once.
TEST_F(ReplayTest, LateItemsAreIssuedAtOnceAndShiftNothing) {
  for (size_t i = 0; i < 5; ++i) queue_.push(static_cast<TimeNs>(i) * 10 * kNsPerMs, i);
  ASSERT_TRUE(run([&](size_t index, TimeNs) {
                if (index == 0) clock_.advance_to_ns(25 * kNsPerMs);
                return Status::ok();
              }).is_ok());
  const std::vector<TimeNs> times = {0, 25 * kNsPerMs, 25 * kNsPerMs, 30 * kNsPerMs, 40 * kNsPerMs};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(issued_[i].now_ns, times[i]) << i;
}

TEST_F(ReplayTest, StopsBetweenTwoItems) {
  queue_.push(1, 0);
  queue_.push(3600 * kNsPerSecond, 1);
  ASSERT_TRUE(run([&](size_t, TimeNs) {
                stop_ = true;
                return Status::ok();
              }).is_ok());
  EXPECT_EQ(issued_.size(), 1u);
  EXPECT_LT(clock_.now_ns(), kNsPerSecond) << "it slept on to an item that is never issued";
}

// A sleep is never longer than the 100 ms in which a stop must be noticed.
TEST_F(ReplayTest, NoticesAStopDuringALongWait) {
  class StoppingClock final : public Clock {
   public:
    explicit StoppingClock(std::atomic<bool>& stop) : stop_(stop) {}
    TimeNs now_ns() const override { return now_; }
    TimeNs epoch_ns() const override { return now_; }
    void sleep_until_ns(TimeNs t) override {
      now_ = t;
      if (now_ > kNsPerSecond) stop_ = true;
    }

   private:
    std::atomic<bool>& stop_;
    TimeNs now_ = 0;
  } clock(stop_);
  queue_.push(3600 * kNsPerSecond, 0);
  ASSERT_TRUE(
      issue_on_schedule(queue_, clock, stop_, [&](size_t, TimeNs) { return failed("issued"); }).is_ok());
  EXPECT_LE(clock.now_ns(), kNsPerSecond + 100 * kNsPerMs);
}

TEST_F(ReplayTest, AnErrorOfAnIssueEndsTheReplay) {
  queue_.push(1, 0);
  queue_.push(2, 1);
  const Status status = run([](size_t, TimeNs) { return refused("the queue is full"); });
  EXPECT_EQ(status.message(), "the queue is full");
  EXPECT_EQ(issued_.size(), 1u);
}

TEST_F(ReplayTest, WaitsForAnOpenChainAndIssuesWhatItPushes) {
  queue_.open_chain();
  queue_.push(10, 0);
  ASSERT_TRUE(run([&](size_t index, TimeNs due_ns) {
                if (index == 0) {
                  queue_.push(due_ns + 3 * kNsPerMs, 1);
                } else {
                  queue_.close_chain();
                }
                return Status::ok();
              }).is_ok());
  ASSERT_EQ(issued_.size(), 2u);
  EXPECT_EQ(issued_[1].now_ns, 10 + 3 * kNsPerMs);
}

// Pushed by another thread while the queue is empty: issued within the slice that docs/bench.md states.
TEST_F(ReplayTest, AnEmptyQueueWithAnOpenChainIsNotTheEnd) {
  RealClock clock;
  queue_.open_chain();
  std::vector<size_t> seen;
  std::thread releaser([&] {
    clock.sleep_until_ns(clock.now_ns() + 20 * kNsPerMs);
    queue_.push(clock.now_ns(), 7);
    queue_.close_chain();
  });
  ASSERT_TRUE(issue_on_schedule(queue_, clock, stop_, [&](size_t index, TimeNs) {
                seen.push_back(index);
                return Status::ok();
              }).is_ok());
  releaser.join();
  EXPECT_EQ(seen, std::vector<size_t>{7});
}

}  // namespace
}  // namespace vllm
