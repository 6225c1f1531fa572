// Several plans of known tokens in flight, as pipeline stages have them, and the rule of an older simulator
// for the tokens that they give.

#include "support/sched_rig.h"

namespace vllm::testing {
namespace {

using ::testing::ElementsAre;

SchedulerConfig pipeline(int plans, int64_t usable = 60) {
  SchedulerConfig config = rig_config(usable);
  config.flight.max_plans = plans;
  config.flight.known_tokens_only = true;
  return config;
}

TEST(Pipeline, ARequestWhoseTokensAreAllInFlightIsSteppedOver) {
  Rig rig(pipeline(3));
  EXPECT_TRUE(rig.add(1, 5, {.max_tokens = 4}).is_ok());
  EXPECT_EQ(rig.plan(), "1:5");
  EXPECT_EQ(rig.plan(), "");
  EXPECT_TRUE(rig.add(2, 3, {.max_tokens = 4}).is_ok());
  EXPECT_EQ(rig.plan(), "2:3");
  rig.outputs();
  rig.outputs();
  EXPECT_EQ(rig.plan(), "1:1");
}

TEST(Pipeline, AChunkFollowsAChunkAndOnlyTheLastGivesAToken) {
  SchedulerConfig config = pipeline(3);
  config.options.max_num_batched_tokens = 4;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 10, {.max_tokens = 3}).is_ok());
  EXPECT_EQ(rig.plan(), "1:4~");
  EXPECT_EQ(rig.plan(), "1:4~");
  EXPECT_EQ(rig.plan(), "1:2");
  rig.outputs();
  EXPECT_TRUE(rig.last_outputs.empty());
  rig.outputs();
  EXPECT_EQ(rig.plan(), "");
  rig.outputs();
  EXPECT_EQ(rig.last_outputs.size(), 1u);
  rig.outputs();
  EXPECT_EQ(rig.plan(), "1:1");
}

TEST(Pipeline, TheOlderRuleGivesTheTokenWithTheChunkBeforeTheLast) {
  SchedulerConfig config = pipeline(2);
  config.options.max_num_batched_tokens = 6;
  config.flight.token_at_any_entry = true;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 10, {.max_tokens = 2}).is_ok());
  EXPECT_EQ(rig.plan(), "1:6~");
  EXPECT_EQ(rig.plan(), "1:4");
  rig.outputs();  // of the first chunk: the whole prompt is planned by now
  EXPECT_EQ(rig.last_outputs.size(), 1u);
  EXPECT_EQ(rig.plan(), "1:1");
  rig.outputs();  // of the last chunk: one token is known more than is planned before the decode
  EXPECT_EQ(rig.last_outputs.size(), 1u);
  EXPECT_EQ(rig.outputs(), "");
}

TEST(Pipeline, TheOlderRuleGivesNothingWhileTheRestIsNotPlanned) {
  SchedulerConfig config = pipeline(2);
  config.options.max_num_batched_tokens = 4;
  config.flight.token_at_any_entry = true;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 10, {.max_tokens = 2}).is_ok());
  rig.plan();
  rig.plan();
  rig.outputs();
  EXPECT_TRUE(rig.last_outputs.empty());
}

TEST(Pipeline, AVictimsOutputInFlightIsKept) {
  SchedulerConfig config = pipeline(2, 4);
  config.options.reserve_full_isl = false;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 7, {.max_tokens = 9}).is_ok());
  EXPECT_EQ(rig.plan(), "1:7");
  EXPECT_TRUE(rig.add(2, 7, {.max_tokens = 9}).is_ok());
  EXPECT_EQ(rig.plan(), "2:7");
  rig.outputs();
  EXPECT_EQ(rig.plan(), "1:1");
  rig.outputs();  // 2 has a token
  rig.outputs();
  EXPECT_EQ(rig.plan(), "1:1 | preempted: 2");
  EXPECT_EQ(rig.state(2).num_tokens, 8);
}

TEST(CacheableTokens, WhatIsNotKnownIsNeitherLookedUpNorIndexed) {
  Rig rig(rig_config(40));
  RequestInput in;
  const std::vector<int32_t> prompt(10, 7);
  in.prompt = prompt;
  in.max_tokens = 4;
  in.id = 1;
  in.cacheable_tokens = 9;  // two full blocks of four
  EXPECT_TRUE(rig.scheduler.add(in).is_ok());
  rig.step();
  const auto table = rig.scheduler.block_table(1, 0);
  std::vector<bool> named;
  for (const BlockId b : table) named.push_back(rig.scheduler.pool().has_hash(b));
  EXPECT_THAT(named, ElementsAre(true, true, false));
  in.id = 2;
  in.cacheable_tokens = 0;
  EXPECT_TRUE(rig.scheduler.add(in).is_ok());
  EXPECT_EQ(rig.step(), "1:1 2:10");
  in.id = 3;
  in.cacheable_tokens = 5;
  EXPECT_TRUE(rig.scheduler.add(in).is_ok());
  EXPECT_EQ(rig.step(), "1:1 2:1 3:6@4");
}

}  // namespace
}  // namespace vllm::testing
