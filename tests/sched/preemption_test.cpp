// Who goes when blocks run out, and how they come back.

#include "support/sched_rig.h"

namespace vllm::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Preemption, FcfsTakesTheNewestAndAdmitsNobodyInThatStep) {
  Rig rig(rig_config(4));
  EXPECT_TRUE(rig.add(1, 8, {.max_tokens = 8}).is_ok());
  EXPECT_TRUE(rig.add(2, 8, {.max_tokens = 8}).is_ok());
  EXPECT_EQ(rig.step(), "1:8 2:8");
  EXPECT_TRUE(rig.add(3, 1, {.max_tokens = 1}).is_ok());
  EXPECT_EQ(rig.step(), "1:1 | preempted: 2");  // 2 freed two blocks; 3 could have one of them
  EXPECT_THAT(rig.scheduler.waiting_ids(), ElementsAre(2, 3));  // in front
  EXPECT_EQ(rig.state(2).num_computed, 0);
  EXPECT_EQ(rig.state(2).num_preemptions, 1);
  EXPECT_EQ(rig.scheduler.stats().preemptions, 1);
}

TEST(Preemption, AResumedRequestLooksUpAgainAndComputesPromptAndOutputs) {
  Rig rig(rig_config(5));
  EXPECT_TRUE(rig.add(1, 8, {.max_tokens = 5}).is_ok());
  EXPECT_TRUE(rig.add(2, 8, {.max_tokens = 8}).is_ok());
  EXPECT_EQ(rig.step(), "1:8 2:8");
  EXPECT_EQ(rig.step(), "1:1 | preempted: 2");  // 2 has 9 tokens now
  // Its two full blocks are still cached; they and a third one are needed, and the pool has two blocks.
  EXPECT_EQ(rig.step(), "1:1");
  EXPECT_EQ(rig.step(), "1:1");
  EXPECT_EQ(rig.step(), "1:1");
  EXPECT_EQ(rig.ended, "1=length");
  EXPECT_EQ(rig.step(), "2:1@8 | ended: 1");
  EXPECT_EQ(rig.state(2).cached_tokens, 0);  // at first admission
  EXPECT_EQ(rig.scheduler.stats().prefix_queries, 16);
  EXPECT_EQ(rig.scheduler.stats().prefix_hits, 0);
  EXPECT_EQ(rig.scheduler.stats().prefix_queries_resumed, 9);
  EXPECT_EQ(rig.scheduler.stats().prefix_hits_resumed, 8);
}

TEST(Preemption, SeveralMayGoInOneStepTheNewestFirst) {
  SchedulerConfig config = rig_config(6);
  config.options.reserve_full_isl = false;
  config.options.max_num_batched_tokens = 10;
  config.options.long_prefill_token_threshold = 8;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 24, {.max_tokens = 1}).is_ok());
  EXPECT_TRUE(rig.add(2, 2, {.max_tokens = 9}).is_ok());
  EXPECT_EQ(rig.step(), "1:8~ 2:2");
  EXPECT_TRUE(rig.add(3, 1, {.max_tokens = 9}).is_ok());
  EXPECT_EQ(rig.step(), "1:8~ 2:1 3:1");  // 4, 1 and 1 blocks: the pool is empty
  EXPECT_EQ(rig.step(), "1:8 | preempted: 3 2");
  EXPECT_THAT(rig.scheduler.waiting_ids(), ElementsAre(2, 3));
}

TEST(Preemption, AVictimThatIsTheRequestItselfEndsThePassOverRunning) {
  Rig rig(rig_config(4));
  EXPECT_TRUE(rig.add(1, 9, {.max_tokens = 8}).is_ok());
  EXPECT_TRUE(rig.add(2, 4, {.max_tokens = 8}).is_ok());
  EXPECT_EQ(rig.step(), "1:9 2:4");
  EXPECT_EQ(rig.step(), "1:1 | preempted: 2");
}

TEST(Preemption, BlocksOfAVictimStayFindableUntilTheyAreReused) {
  Rig rig(rig_config(4));
  EXPECT_TRUE(rig.add(1, 8, {.max_tokens = 2}).is_ok());
  EXPECT_TRUE(rig.add(2, 8, {.max_tokens = 8}).is_ok());
  EXPECT_EQ(rig.step(), "1:8 2:8");
  EXPECT_EQ(rig.step(), "1:1 | preempted: 2");
  EXPECT_EQ(rig.ended, "1=length");
  // 1 took the last block of 2, which is the first one reused.
  EXPECT_EQ(rig.step(), "2:5@4 | ended: 1");
}

SchedulerConfig priority_config(int64_t usable) {
  SchedulerConfig config = rig_config(usable);
  config.options.policy = SchedulingPolicy::kPriority;
  return config;
}

TEST(PriorityPreemption, TakesTheWorstAndSortsItIn) {
  Rig rig(priority_config(4));
  EXPECT_TRUE(rig.add(1, 8, {.max_tokens = 8, .priority = 1}).is_ok());
  EXPECT_TRUE(rig.add(2, 8, {.max_tokens = 8, .priority = 0}).is_ok());
  EXPECT_TRUE(rig.add(3, 4, {.max_tokens = 8, .priority = 0, .arrival_ns = 1}).is_ok());
  EXPECT_EQ(rig.step(), "2:8 3:4");  // 1 needs two blocks
  EXPECT_EQ(rig.step(), "2:1 | preempted: 3");
  EXPECT_THAT(rig.scheduler.waiting_ids(), ElementsAre(3, 1));
}

TEST(PriorityPreemption, OfEquallyBadVictimsTheFirstInRunningGoes) {
  Rig rig(priority_config(4));
  EXPECT_TRUE(rig.add(1, 4, {.max_tokens = 8, .priority = 1}).is_ok());
  EXPECT_TRUE(rig.add(2, 4, {.max_tokens = 8, .priority = 1}).is_ok());
  EXPECT_EQ(rig.step(), "1:4 2:4");
  EXPECT_TRUE(rig.add(3, 8, {.max_tokens = 8, .priority = 0}).is_ok());
  EXPECT_EQ(rig.step(), "1:1 2:1");  // each takes a second block; nothing is left for 3
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rig.step(), "1:1 2:1");
  EXPECT_EQ(rig.step(), " | preempted: 1");  // 1 is the first that needs a block and the first of the worst
  EXPECT_THAT(rig.scheduler.running_ids(), ElementsAre(2));
}

// 1 is planned first; then 2 needs a block. With 1's token back, 3 gets five of the six.
TEST(PriorityPreemption, APlannedVictimGivesBackItsEntryAndItsTokens) {
  SchedulerConfig config = priority_config(5);
  config.options.max_num_batched_tokens = 6;
  config.options.reserve_full_isl = false;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 5, {.max_tokens = 9, .priority = 1}).is_ok());
  EXPECT_EQ(rig.step(), "1:5");
  EXPECT_TRUE(rig.add(2, 3, {.max_tokens = 9, .priority = 0}).is_ok());
  EXPECT_TRUE(rig.add(3, 20, {.max_tokens = 1, .priority = 0, .arrival_ns = 1}).is_ok());
  EXPECT_EQ(rig.step(), "1:1 2:3 3:2~");
  EXPECT_EQ(rig.step(), "1:1 2:1 3:4~");
  EXPECT_EQ(rig.plan(), "2:1 3:5~ | preempted: 1");
  EXPECT_EQ(rig.last_plan().total_tokens, 6);
  EXPECT_EQ(rig.state(1).in_flight, 0);
}

// The victim's third block was to be filled by the entry that it gave back: nobody may find it.
TEST(PriorityPreemption, TheNamesOfBlocksThatAVictimWouldHaveFilledAreTakenBack) {
  SchedulerConfig config = priority_config(5);
  config.options.max_num_batched_tokens = 10;
  config.options.long_prefill_token_threshold = 5;
  config.options.reserve_full_isl = false;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 16, {.max_tokens = 1, .priority = 1}).is_ok());
  EXPECT_EQ(rig.step(), "1:5~");
  EXPECT_TRUE(rig.add(2, 4, {.max_tokens = 12, .priority = 0}).is_ok());
  EXPECT_EQ(rig.step(), "1:5~ 2:4");
  EXPECT_EQ(rig.step(), "2:1 | preempted: 1");
  rig.scheduler.abort(2);
  EXPECT_EQ(rig.step(), "1:5~@8 | ended: 2");  // not 12
}

TEST(Preemption, AnAbortedVictimIsGone) {
  Rig rig(rig_config(4));
  EXPECT_TRUE(rig.add(1, 8, {.max_tokens = 8}).is_ok());
  EXPECT_TRUE(rig.add(2, 8, {.max_tokens = 8}).is_ok());
  rig.step();
  EXPECT_EQ(rig.step(), "1:1 | preempted: 2");
  EXPECT_TRUE(rig.scheduler.abort(2));
  EXPECT_THAT(rig.scheduler.waiting_ids(), IsEmpty());
  EXPECT_EQ(rig.step(), "1:1 | ended: 2");
}

}  // namespace
}  // namespace vllm::testing
