#include "kv/block_pool.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

BlockHash name(uint64_t n) { return {n * 0x9E3779B97F4A7C15ull, n}; }

std::vector<BlockId> take(BlockPool& pool, int count) {
  std::vector<BlockId> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(pool.allocate());
  return blocks;
}

TEST(BlockPool, NeverGivesOutTheNullBlock) {
  BlockPool pool(4);
  EXPECT_EQ(pool.num_blocks(), 4);
  EXPECT_EQ(pool.num_usable(), 3);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_THAT(take(pool, 3), ElementsAre(1, 2, 3));
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(BlockPool, WithoutANullBlockAllAreUsable) {
  BlockPool pool(3, {.null_block = false, .unhashed_to_front = true});
  EXPECT_EQ(pool.num_usable(), 3);
  EXPECT_THAT(take(pool, 3), ElementsAre(0, 1, 2));
}

TEST(BlockPool, UnhashedGoToTheHeadAsOneGroupLastOfTheSequenceFirst) {
  BlockPool pool(8);
  const auto blocks = take(pool, 3);
  pool.release(blocks);
  EXPECT_THAT(pool.free_list(), ElementsAre(3, 2, 1, 4, 5, 6, 7));
}

TEST(BlockPool, HashedGoToTheTailLastToFirstUnhashedToTheHead) {
  BlockPool pool(8);
  const auto blocks = take(pool, 5);  // 1 2 3 4 5
  for (const BlockId b : {1, 2, 4}) pool.index(b, name(static_cast<uint64_t>(b)), 0);
  pool.release(blocks);
  EXPECT_THAT(pool.free_list(), ElementsAre(5, 3, 6, 7, 4, 2, 1));
}

TEST(BlockPool, TheOlderRuleSendsEveryFreedBlockToTheTail) {
  BlockPool pool(6, {.null_block = true, .unhashed_to_front = false});
  const auto blocks = take(pool, 3);
  pool.index(1, name(1), 0);
  pool.release(blocks);
  EXPECT_THAT(pool.free_list(), ElementsAre(4, 5, 3, 2, 1));
}

TEST(BlockPool, TheNewestBlockTakesTheNameFromTheOlderOne) {
  BlockPool pool(6, {.null_block = true, .unhashed_to_front = false, .newest_owns_name = true});
  const auto blocks = take(pool, 3);
  pool.index(1, name(7), 0);
  pool.index(2, name(7), 0);
  EXPECT_EQ(pool.lookup(name(7), 0), 2);
  EXPECT_FALSE(pool.has_hash(1));
  pool.release(blocks);
  EXPECT_EQ(pool.num_cached(), 1);
  // When the owner goes, nobody has the name, although block 1 holds the same tokens.
  while (pool.num_free() > 0) {
    if (pool.allocate() == 2) break;
  }
  EXPECT_EQ(pool.lookup(name(7), 0), kNoBlock);
}

TEST(BlockPool, CountsFreeBlocksWithAName) {
  BlockPool pool(6);
  const auto blocks = take(pool, 3);
  pool.index(1, name(1), 0);
  pool.index(2, name(2), 0);
  EXPECT_EQ(pool.num_cached(), 0);
  pool.release(blocks);
  EXPECT_EQ(pool.num_cached(), 2);
  pool.touch(1);
  EXPECT_EQ(pool.num_cached(), 1);
  pool.forget(2);
  EXPECT_EQ(pool.num_cached(), 0);
  pool.release(std::vector<BlockId>{1});
  EXPECT_EQ(pool.num_cached(), 1);
  take(pool, 5);
  EXPECT_EQ(pool.num_cached(), 0);
  EXPECT_EQ(pool.lookup(name(1), 0), kNoBlock);
}

TEST(BlockPool, OnlyBlocksThatNobodyReferencesBecomeFree) {
  BlockPool pool(5);
  const auto blocks = take(pool, 2);
  pool.touch(blocks[0]);
  pool.release(blocks);
  EXPECT_THAT(pool.free_list(), ElementsAre(2, 3, 4));
  EXPECT_EQ(pool.references(blocks[0]), 1);
  pool.release({blocks.data(), 1});
  EXPECT_EQ(pool.num_free(), 4);
}

TEST(BlockPool, TouchTakesACachedBlockOutOfTheFreeList) {
  BlockPool pool(5);
  const auto blocks = take(pool, 2);
  pool.index(1, name(1), 0);
  pool.release(blocks);
  ASSERT_THAT(pool.free_list(), ElementsAre(2, 3, 4, 1));
  pool.touch(1);
  EXPECT_THAT(pool.free_list(), ElementsAre(2, 3, 4));
  EXPECT_EQ(pool.lookup(name(1), 0), 1);
}

TEST(BlockPool, ABlockKeepsItsNameUntilItIsAllocated) {
  BlockPool pool(3);
  const auto blocks = take(pool, 1);
  pool.index(1, name(1), 0);
  pool.release(blocks);
  ASSERT_THAT(pool.free_list(), ElementsAre(2, 1));
  EXPECT_EQ(pool.allocate(), 2);
  EXPECT_EQ(pool.lookup(name(1), 0), 1);
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.lookup(name(1), 0), kNoBlock);
  EXPECT_FALSE(pool.has_hash(1));
}

TEST(BlockPool, OfEqualBlocksTheOneIndexedFirstThatIsStillCachedIsHit) {
  BlockPool pool(6);
  take(pool, 4);
  for (const BlockId b : {3, 1, 4}) pool.index(b, name(7), 0);
  EXPECT_EQ(pool.lookup(name(7), 0), 3);
  pool.forget(1);
  EXPECT_EQ(pool.lookup(name(7), 0), 3);
  pool.forget(3);
  EXPECT_EQ(pool.lookup(name(7), 0), 4);
  pool.index(1, name(7), 0);
  EXPECT_EQ(pool.lookup(name(7), 0), 4);
  pool.forget(4);
  EXPECT_EQ(pool.lookup(name(7), 0), 1);
  pool.forget(1);
  EXPECT_EQ(pool.lookup(name(7), 0), kNoBlock);
}

TEST(BlockPool, AGroupDoesNotFindAnothersBlocks) {
  BlockPool pool(4);
  take(pool, 2);
  pool.index(1, name(1), 0);
  EXPECT_EQ(pool.lookup(name(1), 1), kNoBlock);
  pool.index(2, name(1), 1);
  EXPECT_EQ(pool.lookup(name(1), 0), 1);
  EXPECT_EQ(pool.lookup(name(1), 1), 2);
}

TEST(BlockPool, NamesInOneBucketDoNotDisturbEachOther) {
  BlockPool pool(12);  // 32 buckets, chosen by the low bits
  take(pool, 9);
  const auto colliding = [](uint64_t n) { return BlockHash{n << 32 | 5, n}; };
  for (BlockId b = 1; b <= 9; ++b) pool.index(b, colliding(static_cast<uint64_t>((b + 1) / 2)), 0);
  for (const BlockId b : {5, 1, 6, 9, 4}) {
    pool.forget(b);
    pool.forget(b);  // without a name it changes nothing
  }
  EXPECT_EQ(pool.lookup(colliding(1), 0), 2);
  EXPECT_EQ(pool.lookup(colliding(2), 0), 3);
  EXPECT_EQ(pool.lookup(colliding(3), 0), kNoBlock);
  EXPECT_EQ(pool.lookup(colliding(4), 0), 7);
  EXPECT_EQ(pool.lookup(colliding(5), 0), kNoBlock);
}

TEST(BlockPool, ResetsOnlyWhenAllAreFree) {
  BlockPool pool(5);
  const auto blocks = take(pool, 3);
  pool.index(1, name(1), 0);
  pool.release({blocks.data(), 2});
  const auto before = pool.free_list();
  EXPECT_FALSE(pool.reset());
  EXPECT_EQ(pool.free_list(), before);
  EXPECT_EQ(pool.lookup(name(1), 0), 1);
  pool.release({blocks.data() + 2, 1});
  EXPECT_TRUE(pool.reset());
  EXPECT_THAT(pool.free_list(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(pool.lookup(name(1), 0), kNoBlock);
  EXPECT_FALSE(pool.has_hash(1));
}

TEST(BlockPool, ThePoolOfTheNullBlockAloneHasNothing) {
  BlockPool pool(1);
  EXPECT_EQ(pool.num_usable(), 0);
  EXPECT_THAT(pool.free_list(), IsEmpty());
  EXPECT_TRUE(pool.reset());
}

class PrefixHashing : public ::testing::TestWithParam<PrefixHash> {};

TEST_P(PrefixHashing, NamesTheWholePrefix) {
  PrefixHasher hasher(GetParam(), 4);
  const int32_t a[] = {1, 2, 3, 4}, b[] = {1, 2, 3, 5};
  const BlockHash root = hasher.root("");
  EXPECT_EQ(hasher.next(root, a), hasher.next(root, a));
  EXPECT_FALSE(hasher.next(root, a) == hasher.next(root, b));
  const BlockHash after_a = hasher.next(root, a), after_b = hasher.next(root, b);
  EXPECT_FALSE(hasher.next(after_a, a) == hasher.next(after_b, a));
  EXPECT_FALSE(hasher.next(after_a, a) == after_a);
}

TEST_P(PrefixHashing, ASaltSeparates) {
  PrefixHasher hasher(GetParam(), 4);
  EXPECT_FALSE(hasher.root("alice") == hasher.root("bob"));
  EXPECT_FALSE(hasher.root("alice") == hasher.root(""));
  EXPECT_EQ(hasher.root("alice"), hasher.root("alice"));
}

INSTANTIATE_TEST_SUITE_P(Both, PrefixHashing, ::testing::Values(PrefixHash::kXxh128, PrefixHash::kSha256));

TEST(PrefixHashing, AlgorithmsAreTheOnesThatTheyAreCalled) {
  // 16 zero bytes and the token 1 in four little-endian bytes; the first eight bytes of other programs'
  // digests.
  const int32_t token[] = {1};
  PrefixHasher sha(PrefixHash::kSha256, 1);
  EXPECT_EQ(sha.next({}, token).low, 0x474c52ac56d51378u);
  PrefixHasher xxh(PrefixHash::kXxh128, 1);
  EXPECT_EQ(xxh.next({}, token).low, 0x36017c579558fe93u);
}

}  // namespace
}  // namespace vllm
