// Several groups of layers, each with its own block table over one pool.

#include "support/sched_rig.h"

namespace vllm::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

KvGroup full() { return {}; }
KvGroup sliding(int64_t window) {
  KvGroup group;
  group.kind = LayerKind::kSliding;
  group.window = window;
  return group;
}

SchedulerConfig with_groups(int64_t usable, std::vector<KvGroup> groups) {
  SchedulerConfig config = rig_config(usable);
  config.groups = std::move(groups);
  return config;
}

std::vector<int32_t> prompt_of(int32_t first, int length) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

TEST(Groups, EveryGroupHasItsOwnTable) {
  Rig rig(with_groups(20, {full(), sliding(6)}));
  EXPECT_TRUE(rig.add(1, 6).is_ok());
  rig.plan();
  EXPECT_THAT(rig.scheduler.block_table(1, 0), ElementsAre(1, 2));
  EXPECT_THAT(rig.scheduler.block_table(1, 1), ElementsAre(3, 4));
  EXPECT_THAT(rig.last_plan().blocks, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(rig.last_plan().block_counts, ElementsAre(2, 2));
  EXPECT_EQ(rig.last_plan().free_blocks, 16);
}

TEST(Groups, ASlidingGroupFreesBlocksThatLeftItsWindow) {
  Rig rig(with_groups(20, {full(), sliding(6)}));
  EXPECT_TRUE(rig.add(1, 8).is_ok());
  rig.step();
  // Position 8 sees 3 to 8: block 0 ends at 3. Position 9 sees 4 to 9.
  rig.step();
  EXPECT_THAT(rig.scheduler.block_table(1, 1), ElementsAre(3, 4, 6));
  rig.step();
  EXPECT_THAT(rig.scheduler.block_table(1, 1), ElementsAre(0, 4, 6));
  EXPECT_THAT(rig.scheduler.block_table(1, 0), ElementsAre(1, 2, 5));
  EXPECT_EQ(rig.scheduler.num_free_blocks(), 15);
  rig.scheduler.abort(1);
  EXPECT_EQ(rig.scheduler.num_free_blocks(), 20);
}

TEST(Groups, AWindowOfOneSeesOnlyItself) {
  Rig rig(with_groups(20, {sliding(1)}));
  EXPECT_TRUE(rig.add(1, 4).is_ok());
  rig.step();
  rig.step();
  EXPECT_THAT(rig.scheduler.block_table(1, 0), ElementsAre(0, 2));
}

TEST(Groups, ASlidingGroupNeedsOnlyTheBlocksOfItsWindow) {
  // Window 5: before a position it sees 4 tokens, one block.
  Rig rig(with_groups(30, {full(), sliding(5)}));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 16), {.max_tokens = 8}).is_ok());
  rig.step();
  for (int i = 0; i < 3; ++i) rig.step();  // leaves blocks 0 to 2 of the sliding group behind, cached
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 18)).is_ok());
  EXPECT_EQ(rig.step(), "1:1 2:2@16");
  const auto table = rig.scheduler.block_table(2, 1);
  ASSERT_EQ(table.size(), 5u);
  EXPECT_THAT(std::vector<BlockId>(table.begin(), table.begin() + 3), ElementsAre(0, 0, 0));
  EXPECT_EQ(table[3], rig.scheduler.block_table(1, 1)[3]);
  EXPECT_EQ(rig.last_outputs.size(), 2u);
}

TEST(Groups, TheHitIsTheLongestThatAllGroupsCanServe) {
  Rig rig(with_groups(8, {full(), sliding(5)}));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 12), {.max_tokens = 1}).is_ok());
  rig.step();  // 3 blocks each; released: full 1 2 3, sliding 4 5 6, each last to first to the tail
  EXPECT_THAT(rig.scheduler.pool().free_list(), ElementsAre(7, 8, 3, 2, 1, 6, 5, 4));
  // Another request takes 7, 8, 3 and 2: of full attention only block 0 is left.
  EXPECT_TRUE(rig.add(2, 8, {.max_tokens = 1}).is_ok());
  rig.step();
  EXPECT_TRUE(rig.add_tokens(3, prompt_of(0, 13), {.max_tokens = 1}).is_ok());
  EXPECT_EQ(rig.step(), "3:9@4 | ended: 2");
}

TEST(Groups, AMissingBlockInAWindowShortensTheHitForAll) {
  Rig rig(with_groups(8, {sliding(5), full()}));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 12), {.max_tokens = 1}).is_ok());
  rig.step();
  // Now the sliding group's last two blocks, 3 and 2, are reused: only position 4 has its window.
  EXPECT_THAT(rig.scheduler.pool().free_list(), ElementsAre(7, 8, 3, 2, 1, 6, 5, 4));
  EXPECT_TRUE(rig.add(2, 8, {.max_tokens = 1}).is_ok());
  rig.step();
  EXPECT_TRUE(rig.add_tokens(3, prompt_of(0, 13), {.max_tokens = 1}).is_ok());
  EXPECT_EQ(rig.step(), "3:9@4 | ended: 2");
}

TEST(Groups, WindowsOfDifferentLengthAgreeOnOneHit) {
  // Window 9 needs two blocks before a hit's end, window 5 one.
  Rig rig(with_groups(8, {sliding(9), sliding(5)}));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 12), {.max_tokens = 1}).is_ok());
  rig.step();
  EXPECT_THAT(rig.scheduler.pool().free_list(), ElementsAre(7, 8, 3, 2, 1, 6, 5, 4));
  // A request of four blocks takes 7, 8, 3 and 2: the first group has block 0 alone and serves 4 tokens, the
  // second 12.
  EXPECT_TRUE(rig.add(2, 8, {.max_tokens = 1}).is_ok());
  rig.step();
  EXPECT_TRUE(rig.add_tokens(3, prompt_of(0, 13), {.max_tokens = 1}).is_ok());
  EXPECT_EQ(rig.step(), "3:9@4 | ended: 2");
}

TEST(Groups, RefusalCountsWhatASlidingGroupHoldsAtMost) {
  // Window 5, steps of at most 8 tokens: ceil(12 / 4) + 1 = 4 blocks; full attention needs 10 for 40
  // positions.
  SchedulerConfig config = with_groups(14, {full(), sliding(5)});
  config.options.max_num_batched_tokens = 8;
  Rig rig(config);
  const Status status = rig.add(1, 30, {.max_tokens = 15});
  EXPECT_THAT(status.message(), HasSubstr("need 15 KV blocks, but the pool has 14 usable blocks"));
  EXPECT_TRUE(rig.add(1, 30, {.max_tokens = 11}).is_ok());
  for (int i = 0; i < 20 && rig.scheduler.has_requests(); ++i) rig.step();
  EXPECT_EQ(rig.ended, "1=length");
  EXPECT_EQ(rig.scheduler.stats().preemptions, 0);
}

TEST(Groups, RecurrentStateHasNoBlocksAndNoPrefixCache) {
  KvGroup recurrent;
  recurrent.kind = LayerKind::kRecurrent;
  Rig rig(with_groups(20, {full(), recurrent}));
  EXPECT_TRUE(rig.add_tokens(1, prompt_of(0, 9)).is_ok());
  EXPECT_TRUE(rig.add_tokens(2, prompt_of(0, 9)).is_ok());
  EXPECT_EQ(rig.plan(), "1:9 2:9");
  EXPECT_THAT(rig.last_plan().block_counts, ElementsAre(3, 0, 3, 0));
  EXPECT_THAT(rig.scheduler.block_table(1, 1), IsEmpty());
  EXPECT_EQ(rig.scheduler.num_free_blocks(), 14);
}

}  // namespace
}  // namespace vllm::testing
