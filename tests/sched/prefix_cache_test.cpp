// What is hit, what is indexed and when, which block is reused.

#include "support/sched_rig.h"

namespace vllm::testing {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> prompt_of(int32_t first, int length) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

TEST(PrefixCache, AtLeastOneTokenIsAlwaysComputed) {
  Rig rig(rig_config(20));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 8)).is_ok());
  rig.step();
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 8)).is_ok());
  EXPECT_TRUE(rig.add_tokens(3, prompt_of(0, 9)).is_ok());
  EXPECT_EQ(rig.step(), "1:1 2:4@4 3:1@8");
  EXPECT_EQ(rig.state(2).cached_tokens, 4);
  EXPECT_EQ(rig.state(3).cached_tokens, 8);
  EXPECT_EQ(rig.scheduler.stats().prefix_queries, 25);
  EXPECT_EQ(rig.scheduler.stats().prefix_hits, 12);
}

TEST(PrefixCache, BlocksPlannedInTheSameStepAreHit) {
  Rig rig(rig_config(20));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 9)).is_ok());
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 9)).is_ok());
  EXPECT_EQ(rig.plan(), "1:9 2:1@8");
  EXPECT_THAT(rig.scheduler.block_table(2, 0), ElementsAre(1, 2, 4));
}

TEST(PrefixCache, OnlyWhatIsPlannedIsIndexed) {
  SchedulerConfig config = rig_config(20);
  config.options.max_num_batched_tokens = 7;
  Rig rig(config);
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 12)).is_ok());
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 12)).is_ok());
  EXPECT_EQ(rig.step(), "1:7~");
  EXPECT_EQ(rig.step(), "1:5 2:2~@8");
}

TEST(PrefixCache, ALookupStopsAtTheFirstMiss) {
  Rig rig(rig_config(20));
  std::vector<int32_t> prompt = prompt_of(0, 12);
  EXPECT_TRUE(rig.add_tokens(1, prompt, {.max_tokens = 1}).is_ok());
  rig.step();
  prompt[5] = 99;
  prompt.push_back(1);
  EXPECT_TRUE(rig.add_tokens(2, prompt).is_ok());
  EXPECT_EQ(rig.step(), "2:9@4 | ended: 1");
}

TEST(PrefixCache, EqualBlocksExistSideBySideAndTheFirstIsHit) {
  Rig rig(rig_config(20));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 4)).is_ok());
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 4)).is_ok());  // computes its only full block itself
  EXPECT_EQ(rig.step(), "1:4 2:4");
  EXPECT_TRUE(rig.add_tokens(3, prompt_of(0, 5)).is_ok());
  rig.step();
  EXPECT_EQ(rig.scheduler.block_table(3, 0)[0], 1);
  rig.scheduler.abort(1);
  rig.scheduler.abort(3);
  EXPECT_TRUE(rig.add_tokens(4, prompt_of(0, 5)).is_ok());
  rig.step();
  EXPECT_EQ(rig.scheduler.block_table(4, 0)[0], 1);  // still the first, though nobody held it
}

TEST(PrefixCache, HitsThatAreFreeCountAsNeed) {
  Rig rig(rig_config(5));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 8), {.max_tokens = 1}).is_ok());
  rig.step();  // two cached blocks
  EXPECT_TRUE(rig.add(2, 7, {.max_tokens = 10}).is_ok());
  rig.step();  // takes two of the other three
  ASSERT_EQ(rig.scheduler.num_free_blocks(), 3);
  // 16 tokens are four blocks: two hits, which are free, and two new ones, of which there is one.
  EXPECT_TRUE(rig.add_tokens(3, prompt_of(0, 16), {.max_tokens = 1}).is_ok());
  EXPECT_EQ(rig.step(), "2:1");
  EXPECT_THAT(rig.scheduler.waiting_ids(), ElementsAre(3));
}

TEST(PrefixCache, GeneratedTokensAreIndexedToo) {
  Rig rig(rig_config(20));
  EXPECT_TRUE(rig.add_tokens(1, {1, 2, 3}).is_ok());
  rig.step({{1, 4}});
  rig.step({{1, 5}});  // computes position 3: the block is full
  EXPECT_TRUE(rig.add_tokens(2, {1, 2, 3, 4, 9}).is_ok());
  EXPECT_EQ(rig.step(), "1:1 2:1@4");
}

TEST(PrefixCache, ASaltSeparates) {
  Rig rig(rig_config(20));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 9), {.salt = "a"}).is_ok());
  rig.step();
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 9), {.salt = "b"}).is_ok());
  EXPECT_TRUE(rig.add_tokens(3, prompt_of(0, 9)).is_ok());
  EXPECT_TRUE(rig.add_tokens(4, prompt_of(0, 9), {.salt = "a"}).is_ok());
  EXPECT_EQ(rig.step(), "1:1 2:9 3:9 4:1@8");
}

TEST(PrefixCache, OffMeansNoHitsNoHashesNoQueries) {
  SchedulerConfig config = rig_config(20);
  config.options.enable_prefix_caching = false;
  Rig rig(config);
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 8), {.max_tokens = 1}).is_ok());
  rig.step();
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 9)).is_ok());
  EXPECT_EQ(rig.step(), "2:9 | ended: 1");
  EXPECT_EQ(rig.scheduler.stats().prefix_queries, 0);
  EXPECT_EQ(rig.state(2).cached_tokens, 0);
}

TEST(PrefixCache, ABlockedHeadIsCountedOnce) {
  Rig rig(rig_config(4));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 9), {.max_tokens = 3}).is_ok());
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(50, 9), {.max_tokens = 3}).is_ok());
  for (int i = 0; i < 3; ++i) rig.step();
  EXPECT_EQ(rig.scheduler.stats().prefix_queries, 9);
  rig.step();
  EXPECT_EQ(rig.scheduler.stats().prefix_queries, 18);
  rig.scheduler.reset_stats();
  EXPECT_EQ(rig.scheduler.stats().prefix_queries, 0);
}

TEST(PrefixCache, ResetNeedsAnIdlePool) {
  Rig rig(rig_config(6));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 8), {.max_tokens = 1}).is_ok());
  rig.plan();
  EXPECT_FALSE(rig.scheduler.reset_prefix_cache());
  rig.outputs();
  EXPECT_THAT(rig.scheduler.pool().free_list(), ElementsAre(3, 4, 5, 6, 2, 1));
  EXPECT_TRUE(rig.scheduler.reset_prefix_cache());
  EXPECT_THAT(rig.scheduler.pool().free_list(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 9)).is_ok());
  EXPECT_EQ(rig.step(), "2:9 | ended: 1");
}

TEST(PrefixCache, BothHashesServe) {
  for (const PrefixHash hash : {PrefixHash::kXxh128, PrefixHash::kSha256}) {
    SchedulerConfig config = rig_config(20);
    config.prefix_hash = hash;
    Rig rig(config);
    EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 9)).is_ok());
    EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 9)).is_ok());
    EXPECT_EQ(rig.step(), "1:9 2:1@8");
  }
}

}  // namespace
}  // namespace vllm::testing
