// Steps that are planned before the outputs of the one before are known.

#include "support/sched_rig.h"

namespace vllm::testing {
namespace {

using ::testing::ElementsAre;

SchedulerConfig depth2(int64_t usable) {
  SchedulerConfig config = rig_config(usable);
  config.options.scheduling_depth = 2;
  return config;
}

TEST(Depth2, ADecodeStepFollowsWithoutTheTokensValue) {
  Rig rig(depth2(20));
  EXPECT_TRUE(rig.add(1, 5, {.max_tokens = 9}).is_ok());
  EXPECT_EQ(rig.plan(), "1:5");
  EXPECT_EQ(rig.plan(), "1:1");
  EXPECT_THAT(rig.last_plan().tokens, ElementsAre(kTokenInFlight));
  EXPECT_EQ(rig.state(1).in_flight, 2);
  rig.outputs({{1, 70}});
  rig.outputs({{1, 71}});
  EXPECT_EQ(rig.plan(), "1:1");
  EXPECT_THAT(rig.last_plan().tokens, ElementsAre(71));
}

TEST(Depth2, AChunkFollowsAChunkAndTheStepAfterTheLastDecodes) {
  SchedulerConfig config = depth2(20);
  config.options.max_num_batched_tokens = 4;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 10).is_ok());
  EXPECT_EQ(rig.plan(), "1:4~");
  EXPECT_EQ(rig.plan(), "1:4~");
  rig.outputs();
  EXPECT_EQ(rig.plan(), "1:2");
  rig.outputs();
  EXPECT_EQ(rig.plan(), "1:1");
}

TEST(Depth2, AnEndByLengthPlansNoSurplusAndKeepsItsSeatForOneStep) {
  SchedulerConfig config = depth2(20);
  config.options.max_num_seqs = 1;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 5, {.max_tokens = 2}).is_ok());
  EXPECT_TRUE(rig.add(2, 5, {.max_tokens = 2}).is_ok());
  EXPECT_EQ(rig.plan(), "1:5");
  EXPECT_EQ(rig.plan(), "1:1");
  rig.outputs();
  EXPECT_EQ(rig.plan(), "");  // the last token of 1 is in flight: no token, but its seat and its blocks
  EXPECT_EQ(rig.last_plan().running, 1);
  EXPECT_EQ(rig.last_plan().waiting, 1);
  EXPECT_EQ(rig.outputs(), "1=length");
  EXPECT_EQ(rig.plan(), "2:5 | ended: 1");
}

TEST(Depth2, AnEndByTheModelsLengthPlansNoSurplusEither) {
  SchedulerConfig config = depth2(20);
  config.max_model_len = 7;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 5, {.max_tokens = 50}).is_ok());
  EXPECT_EQ(rig.plan(), "1:5");
  EXPECT_EQ(rig.plan(), "1:1");
  rig.outputs();
  EXPECT_EQ(rig.plan(), "");
  EXPECT_EQ(rig.outputs(), "1=length");
}

TEST(Depth2, AnEndByEosLeavesOneSurplusRowWhoseOutputIsDropped) {
  Rig rig(depth2(20));
  EXPECT_TRUE(rig.add(1, 7, {.max_tokens = 50, .eos = {3}}).is_ok());
  EXPECT_EQ(rig.plan(), "1:7");
  EXPECT_EQ(rig.plan(), "1:1");
  EXPECT_EQ(rig.outputs({{1, 3}}), "1=stop");
  EXPECT_EQ(rig.scheduler.num_free_blocks(), 20);  // at once, although the surplus row still writes a slot
  EXPECT_EQ(rig.outputs(), "");
  EXPECT_TRUE(rig.last_outputs.empty());
}

TEST(Depth2, ABlockIsIndexedWithTheOutputThatFillsItAlsoWhenThatEndsTheRequest) {
  Rig rig(depth2(20));
  EXPECT_TRUE(rig.add_tokens(1, {1, 2, 3}, {.max_tokens = 2}).is_ok());
  EXPECT_EQ(rig.plan(), "1:3");
  EXPECT_EQ(rig.plan(), "1:1");  // computes position 3, whose token is in flight: not indexed yet
  rig.outputs({{1, 4}});
  EXPECT_FALSE(rig.scheduler.pool().has_hash(1));
  EXPECT_EQ(rig.outputs({{1, 5}}), "1=length");
  EXPECT_TRUE(rig.scheduler.pool().has_hash(1));
  EXPECT_TRUE(rig.add_tokens(2, {1, 2, 3, 4, 6}).is_ok());
  EXPECT_EQ(rig.plan(), "2:1@4 | ended: 1");
}

TEST(Depth2, ThePreemptedRequestsOutputIsAppendedWhileItWaits) {
  Rig rig(depth2(4));
  EXPECT_TRUE(rig.add(1, 7, {.max_tokens = 8}).is_ok());
  EXPECT_TRUE(rig.add(2, 7, {.max_tokens = 8}).is_ok());
  EXPECT_EQ(rig.plan(), "1:7 2:7");
  EXPECT_EQ(rig.plan(), "1:1 2:1");
  rig.outputs();
  EXPECT_EQ(rig.plan(), "1:1 | preempted: 2");
  EXPECT_EQ(rig.state(2).in_flight, 1);
  EXPECT_EQ(rig.state(2).num_tokens, 8);
  rig.outputs();  // of the second step: 2 gets its second token while it waits
  EXPECT_EQ(rig.state(2).num_tokens, 9);
  EXPECT_EQ(rig.state(2).in_flight, 0);
  EXPECT_FALSE(rig.state(2).running);
}

TEST(Depth2, ThePreemptedRequestsOutputMayEndIt) {
  Rig rig(depth2(4));
  EXPECT_TRUE(rig.add(1, 7, {.max_tokens = 8}).is_ok());
  EXPECT_TRUE(rig.add(2, 7, {.max_tokens = 8, .eos = {3}}).is_ok());
  rig.plan();
  rig.plan();
  rig.outputs();
  EXPECT_EQ(rig.plan(), "1:1 | preempted: 2");
  EXPECT_EQ(rig.outputs({{2, 3}}), "2=stop");
  EXPECT_EQ(rig.scheduler.num_waiting(), 0);
  EXPECT_EQ(rig.plan(), "1:1 | ended: 2");
}

TEST(Depth2, FromIdleTwoStepsArePlannedAndAnEmptyOneAfterTheEnd) {
  Rig rig(depth2(4));
  EXPECT_TRUE(rig.add(1, 3, {.max_tokens = 1}).is_ok());
  EXPECT_EQ(rig.plan(), "1:3");
  EXPECT_TRUE(rig.scheduler.has_work());
  EXPECT_EQ(rig.plan(), "");
  EXPECT_EQ(rig.outputs(), "1=length");
  EXPECT_TRUE(rig.scheduler.has_work());  // the executor has to hear of the end
  EXPECT_EQ(rig.plan(), " | ended: 1");
  EXPECT_FALSE(rig.scheduler.has_work());
  rig.outputs();
  rig.outputs();
}

TEST(Depth2, AnAbortWithTwoOutputsInFlightDropsBoth) {
  Rig rig(depth2(8));
  EXPECT_TRUE(rig.add(1, 3).is_ok());
  rig.plan();
  rig.plan();
  EXPECT_TRUE(rig.scheduler.abort(1));
  EXPECT_EQ(rig.scheduler.num_free_blocks(), 8);
  rig.outputs();
  rig.outputs();
  EXPECT_TRUE(rig.last_outputs.empty());
}

}  // namespace
}  // namespace vllm::testing
