// Stop checks, per token, in their order; and what an end frees.

#include "support/sched_rig.h"

namespace vllm::testing {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kEos = 7, kStop = 8;

TEST(Stop, ByLength) {
  Rig rig(rig_config(10));
  EXPECT_TRUE(rig.add(1, 3, {.max_tokens = 2, .eos = {kEos}}).is_ok());
  rig.step();
  EXPECT_EQ(rig.ended, "");
  rig.step();
  EXPECT_EQ(rig.ended, "1=length");
  EXPECT_FALSE(rig.scheduler.has_requests());
  EXPECT_EQ(rig.scheduler.num_free_blocks(), 10);
}

TEST(Stop, ByEosUnlessIgnored) {
  Rig rig(rig_config(10));
  EXPECT_TRUE(rig.add(1, 3, {.max_tokens = 30, .eos = {5, kEos}}).is_ok());
  EXPECT_TRUE(rig.add(2, 3, {.max_tokens = 30, .eos = {kEos}, .ignore_eos = true}).is_ok());
  rig.step({{1, kEos}, {2, kEos}});
  EXPECT_EQ(rig.ended, "1=stop");
}

TEST(Stop, ByAStopIdWithTheIdAsItsReasonAlsoWhenEosIsIgnored) {
  Rig rig(rig_config(10));
  EXPECT_TRUE(
      rig.add(1, 3, {.max_tokens = 30, .eos = {kEos}, .stops = {kStop, kEos}, .ignore_eos = true}).is_ok());
  EXPECT_TRUE(rig.add(2, 3, {.max_tokens = 30, .eos = {kEos}, .stops = {kStop, kEos}}).is_ok());
  rig.step({{1, kEos}, {2, kEos}});
  EXPECT_EQ(rig.ended, "1=stop(7) 2=stop");  // eos comes first, and has no id as its reason
}

TEST(Stop, EosOnTheLastTokenIsAStopNotALength) {
  Rig rig(rig_config(10));
  EXPECT_TRUE(rig.add(1, 3, {.max_tokens = 1, .eos = {kEos}}).is_ok());
  EXPECT_TRUE(rig.add(2, 3, {.max_tokens = 1, .stops = {kStop}}).is_ok());
  rig.step({{1, kEos}, {2, kStop}});
  EXPECT_EQ(rig.ended, "1=stop 2=stop(8)");
}

TEST(Stop, NotBeforeMinTokens) {
  Rig rig(rig_config(10));
  EXPECT_TRUE(rig.add(1, 3, {.max_tokens = 4, .min_tokens = 3, .eos = {kEos}, .stops = {kStop}}).is_ok());
  rig.step({{1, kEos}});
  EXPECT_EQ(rig.ended, "");
  rig.step({{1, kStop}});
  EXPECT_EQ(rig.ended, "");
  rig.step({{1, kEos}});
  EXPECT_EQ(rig.ended, "1=stop");
}

TEST(Stop, AtTheModelsLengthAlsoWhenMinTokensAsksForMore) {
  SchedulerConfig config = rig_config(10);
  config.max_model_len = 6;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 3, {.max_tokens = 20, .min_tokens = 20}).is_ok());  // clamped to 3
  rig.step();
  rig.step();
  EXPECT_EQ(rig.ended, "");
  rig.step();
  EXPECT_EQ(rig.ended, "1=length");
}

TEST(Stop, EndsInTheOrderOfTheEntries) {
  Rig rig(rig_config(10));
  for (RequestId id : {1, 2, 3}) EXPECT_TRUE(rig.add(id, 5, {.max_tokens = 1}).is_ok());
  rig.step();
  EXPECT_EQ(rig.ended, "1=length 2=length 3=length");
  // Each has a full block, which goes to the tail, and another, which goes to the head.
  EXPECT_THAT(rig.scheduler.pool().free_list(), ElementsAre(6, 4, 2, 7, 8, 9, 10, 1, 3, 5));
}

TEST(Stop, AnAbortFreesBlocksAndSeatAtOnceAndDropsWhatIsInFlight) {
  Rig rig(rig_config(10));
  EXPECT_TRUE(rig.add(1, 5).is_ok());
  EXPECT_TRUE(rig.add(2, 5).is_ok());
  EXPECT_EQ(rig.plan(), "1:5 2:5");
  EXPECT_TRUE(rig.scheduler.abort(1));
  EXPECT_EQ(rig.scheduler.num_free_blocks(), 8);
  EXPECT_EQ(rig.scheduler.num_running(), 1);
  rig.outputs();
  ASSERT_EQ(rig.last_outputs.size(), 1u);
  EXPECT_EQ(rig.last_outputs[0].id, 2u);
  EXPECT_EQ(rig.step(), "2:1 | ended: 1");
}

TEST(Stop, TokensAreThePromptAndWhatIsKnown) {
  Rig rig(rig_config(10));
  EXPECT_TRUE(rig.add_tokens(1, {1, 2}).is_ok());
  rig.step({{1, 50}});
  rig.step({{1, 51}});
  const auto tokens = rig.scheduler.tokens(1);
  EXPECT_THAT(std::vector<int32_t>(tokens.begin(), tokens.end()), ElementsAre(1, 2, 50, 51));
}

TEST(EndReason, HasNames) {
  EXPECT_STREQ(end_reason_name(EndReason::kStop), "stop");
  EXPECT_STREQ(end_reason_name(EndReason::kLength), "length");
  EXPECT_STREQ(end_reason_name(EndReason::kAborted), "abort");
}

}  // namespace
}  // namespace vllm::testing
