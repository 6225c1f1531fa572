// Who is taken, who is refused, who waits.

#include "support/sched_rig.h"

namespace vllm::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Add, RefusesWhatCanNeverFitWithBothNumbers) {
  Rig rig(rig_config(10));
  const Status status = rig.add(1, 30, {.max_tokens = 12});  // 41 positions: 11 blocks
  EXPECT_EQ(status.code(), StatusCode::kRefused);
  EXPECT_THAT(status.message(), HasSubstr("30 tokens and 12 output tokens need 11 KV blocks"));
  EXPECT_THAT(status.message(), HasSubstr("10 usable blocks"));
  EXPECT_FALSE(rig.scheduler.has_work());
  // The last token is never computed: one less fits.
  EXPECT_TRUE(rig.add(1, 30, {.max_tokens = 11}).is_ok());
}

TEST(Add, RefusesAPromptThatFillsTheModel) {
  SchedulerConfig config = rig_config(100);
  config.max_model_len = 20;
  Rig rig(config);
  const Status status = rig.add(1, 20);
  EXPECT_EQ(status.code(), StatusCode::kRefused);
  EXPECT_THAT(status.message(), HasSubstr("20 tokens leaves no room"));
  EXPECT_THAT(status.message(), HasSubstr("max_model_len is 20"));
  EXPECT_TRUE(rig.add(1, 19).is_ok());
}

TEST(Add, RefusesNonsense) {
  Rig rig(rig_config(10));
  EXPECT_THAT(rig.add(1, 0).message(), HasSubstr("empty prompt"));
  EXPECT_THAT(rig.add(1, 4, {.max_tokens = 0}).message(), HasSubstr("max_tokens 0; accepted are 1 and more"));
  EXPECT_THAT(rig.add(1, 4, {.max_tokens = 3, .min_tokens = 4}).message(),
              HasSubstr("min_tokens 4; accepted are 0 to its max_tokens 3"));
  EXPECT_THAT(rig.add(1, 4, {.max_tokens = 3, .min_tokens = -1}).message(), HasSubstr("min_tokens -1"));
  EXPECT_TRUE(rig.add(1, 4, {.max_tokens = 3, .min_tokens = 3}).is_ok());
  EXPECT_THAT(rig.add(1, 4).message(), HasSubstr("request 1 lives already"));
  EXPECT_EQ(rig.scheduler.num_waiting(), 1);
}

TEST(Add, RefusesWhatOneStepCannotHoldWithoutChunkedPrefill) {
  SchedulerConfig config = rig_config(100);
  config.options.enable_chunked_prefill = false;
  config.options.max_num_batched_tokens = 20;
  Rig rig(config);
  const Status status = rig.add(1, 15, {.max_tokens = 7});
  EXPECT_EQ(status.code(), StatusCode::kRefused);
  EXPECT_THAT(status.message(), HasSubstr("can need 21 tokens in one step"));
  EXPECT_THAT(status.message(), HasSubstr("max_num_batched_tokens is 20"));
  EXPECT_TRUE(rig.add(1, 15, {.max_tokens = 6}).is_ok());
}

TEST(Add, AnIdCanBeAddedAfterItsEndOnlyAsANewRequest) {
  Rig rig(rig_config(100));
  EXPECT_TRUE(rig.add(1, 4).is_ok());
  EXPECT_TRUE(rig.scheduler.abort(1));
  EXPECT_FALSE(rig.scheduler.abort(1));
  EXPECT_FALSE(rig.scheduler.state(1).has_value());
  EXPECT_THAT(rig.scheduler.tokens(1), IsEmpty());
}

TEST(Admission, ServesInTheOrderOfArrivalWithinTheBudget) {
  SchedulerConfig config = rig_config(100);
  config.options.max_num_batched_tokens = 10;
  Rig rig(config);
  for (RequestId id : {1, 2, 3}) EXPECT_TRUE(rig.add(id, 6).is_ok());
  EXPECT_EQ(rig.step(), "1:6 2:4~");
  EXPECT_EQ(rig.step(), "1:1 2:2 3:6");
  EXPECT_EQ(rig.step(), "1:1 2:1 3:1");
}

TEST(Admission, AChunkReturnsNoTokenAndTheNextFollows) {
  SchedulerConfig config = rig_config(100);
  config.options.max_num_batched_tokens = 8;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 20).is_ok());
  EXPECT_EQ(rig.step(), "1:8~");
  EXPECT_THAT(rig.last_outputs, IsEmpty());
  EXPECT_EQ(rig.step(), "1:8~");
  EXPECT_EQ(rig.step(), "1:4");
  EXPECT_EQ(rig.last_outputs.size(), 1u);
  EXPECT_EQ(rig.state(1).num_tokens, 21);
}

TEST(Admission, TheThresholdCutsLongPrefillsOnAdmissionAndLater) {
  SchedulerConfig config = rig_config(100);
  config.options.long_prefill_token_threshold = 5;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 12).is_ok());
  EXPECT_TRUE(rig.add(2, 5).is_ok());
  EXPECT_EQ(rig.step(), "1:5~ 2:5");
  EXPECT_EQ(rig.step(), "1:5~ 2:1");
  EXPECT_EQ(rig.step(), "1:2 2:1");
}

TEST(Admission, WithoutChunkedPrefillAPromptLargerThanTheRestOfTheBudgetWaits) {
  SchedulerConfig config = rig_config(100);
  config.options.max_num_batched_tokens = 16;
  config.options.enable_chunked_prefill = false;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 10, {.max_tokens = 4}).is_ok());
  EXPECT_TRUE(rig.add(2, 7, {.max_tokens = 4}).is_ok());
  EXPECT_TRUE(rig.add(3, 2, {.max_tokens = 4}).is_ok());
  EXPECT_EQ(rig.step(), "1:10");  // 3 would fit, but nobody overtakes
  EXPECT_EQ(rig.step(), "1:1 2:7 3:2");
}

TEST(Admission, TheThresholdComesBeforeTheTestForChunks) {
  SchedulerConfig config = rig_config(100);
  config.options.max_num_batched_tokens = 8;
  config.options.enable_chunked_prefill = false;
  config.options.long_prefill_token_threshold = 4;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 4, {.max_tokens = 4}).is_ok());
  EXPECT_TRUE(rig.add(2, 12, {.max_tokens = 4}).is_ok());
  EXPECT_EQ(rig.step(), "1:4 2:4~");
}

TEST(Admission, SeatsAreLimited) {
  SchedulerConfig config = rig_config(100);
  config.options.max_num_seqs = 2;
  Rig rig(config);
  for (RequestId id : {1, 2, 3}) EXPECT_TRUE(rig.add(id, 3, {.max_tokens = 2}).is_ok());
  EXPECT_EQ(rig.step(), "1:3 2:3");
  EXPECT_EQ(rig.step(), "1:1 2:1");
  EXPECT_EQ(rig.ended, "1=length 2=length");
  EXPECT_EQ(rig.step(), "3:3 | ended: 1 2");
}

TEST(Admission, TheWholeSequenceMustFitNotOnlyItsFirstChunk) {
  SchedulerConfig config = rig_config(8);
  config.options.max_num_batched_tokens = 12;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 8, {.max_tokens = 8}).is_ok());   // 2 blocks now
  EXPECT_TRUE(rig.add(2, 28, {.max_tokens = 4}).is_ok());  // 7 blocks, 6 are free
  EXPECT_EQ(rig.step(), "1:8");
  config.options.reserve_full_isl = false;
  Rig other(config);
  EXPECT_TRUE(other.add(1, 8, {.max_tokens = 8}).is_ok());
  EXPECT_TRUE(other.add(2, 28, {.max_tokens = 4}).is_ok());
  EXPECT_EQ(other.step(), "1:8 2:4~");
}

TEST(Admission, WithoutTheReserveTheChunkMustStillFit) {
  SchedulerConfig config = rig_config(4);
  config.options.reserve_full_isl = false;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 12, {.max_tokens = 4}).is_ok());
  EXPECT_TRUE(rig.add(2, 8, {.max_tokens = 4}).is_ok());
  EXPECT_EQ(rig.step(), "1:12");
}

TEST(Admission, AHeadThatDoesNotFitBlocksTheQueueAndChangesNothing) {
  SchedulerConfig config = rig_config(6);
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 12, {.max_tokens = 4}).is_ok());
  EXPECT_TRUE(rig.add(2, 16, {.max_tokens = 4}).is_ok());
  EXPECT_TRUE(rig.add(3, 4, {.max_tokens = 4}).is_ok());
  EXPECT_EQ(rig.plan(), "1:12");
  const auto before = rig.scheduler.pool().free_list();
  rig.outputs();
  EXPECT_EQ(rig.scheduler.pool().free_list(), before);
  EXPECT_THAT(rig.scheduler.waiting_ids(), ElementsAre(2, 3));
}

TEST(Admission, TheWatermarkKeepsBlocksFreeWhileAnyRequestRuns) {
  SchedulerConfig config = rig_config(19);  // 20 with the null block: 0.15 of them are 3
  config.options.watermark = 0.15;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 72, {.max_tokens = 4}).is_ok());  // 18 of 19, but nothing runs
  EXPECT_EQ(rig.step(), "1:72");
  rig.scheduler.abort(1);
  ASSERT_TRUE(rig.scheduler.reset_prefix_cache());
  EXPECT_TRUE(rig.add(2, 40, {.max_tokens = 4}).is_ok());  // 10
  EXPECT_TRUE(rig.add(3, 28, {.max_tokens = 4}).is_ok());  // 7 and 3 spare are more than the other 9
  EXPECT_EQ(rig.step(), "2:40 | ended: 1");
  Rig other(config);
  EXPECT_TRUE(other.add(2, 40, {.max_tokens = 4}).is_ok());
  EXPECT_TRUE(other.add(3, 24, {.max_tokens = 4}).is_ok());
  EXPECT_EQ(other.step(), "2:40 3:24");
}

TEST(Admission, RunningRequestsMayUseTheWatermark) {
  SchedulerConfig config = rig_config(4);
  config.options.watermark = 0.5;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 8, {.max_tokens = 8}).is_ok());
  EXPECT_EQ(rig.step(), "1:8");
  EXPECT_EQ(rig.step(), "1:1");
  EXPECT_EQ(rig.scheduler.num_free_blocks(), 1);
}

TEST(Admission, PriorityServesByPriorityThenArrivalThenOrder) {
  SchedulerConfig config = rig_config(100);
  config.options.policy = SchedulingPolicy::kPriority;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 1, {.priority = 2, .arrival_ns = 5}).is_ok());
  EXPECT_TRUE(rig.add(2, 1, {.priority = 1, .arrival_ns = 9}).is_ok());
  EXPECT_TRUE(rig.add(3, 1, {.priority = 1, .arrival_ns = 7}).is_ok());
  EXPECT_TRUE(rig.add(4, 1, {.priority = 2, .arrival_ns = 5}).is_ok());
  EXPECT_TRUE(rig.add(5, 1, {.priority = 0, .arrival_ns = 9}).is_ok());
  EXPECT_THAT(rig.scheduler.waiting_ids(), ElementsAre(5, 3, 2, 1, 4));
  rig.scheduler.abort(3);
  EXPECT_EQ(rig.step(), "5:1 2:1 1:1 4:1 | ended: 3");
}

TEST(Admission, FcfsDoesNotLookAtPriorities) {
  Rig rig(rig_config(100));
  EXPECT_TRUE(rig.add(1, 1, {.priority = 2}).is_ok());
  EXPECT_TRUE(rig.add(2, 1, {.priority = 1}).is_ok());
  EXPECT_EQ(rig.step(), "1:1 2:1");
}

TEST(Admission, OneTokenStaysFreeForTheOutputBeforeTheModelsEnd) {
  SchedulerConfig config = rig_config(100);
  config.max_model_len = 8;
  Rig rig(config);
  EXPECT_TRUE(rig.add(1, 6).is_ok());
  EXPECT_EQ(rig.step(), "1:6");
  EXPECT_EQ(rig.step(), "1:1");
  EXPECT_EQ(rig.ended, "1=length");
}

TEST(Plan, CarriesTokensTablesAndState) {
  Rig rig(rig_config(100));
  EXPECT_TRUE(rig.add(1, 5).is_ok());
  EXPECT_TRUE(rig.add(2, 2).is_ok());
  rig.plan();
  const StepPlan& plan = rig.last_plan();
  EXPECT_EQ(plan.step, 0);
  EXPECT_THAT(plan.tokens, ElementsAre(2000, 2001, 2002, 2003, 2004, 3000, 3001));
  EXPECT_THAT(plan.blocks, ElementsAre(1, 2, 3));
  EXPECT_THAT(plan.block_counts, ElementsAre(2, 1));
  EXPECT_EQ(plan.entries[1].token_offset, 5);
  EXPECT_EQ(plan.entries[1].block_offset, 2);
  EXPECT_EQ(plan.entries[1].block_count_offset, 1);
  EXPECT_TRUE(plan.entries[0].starts);
  EXPECT_EQ(plan.total_tokens, 7);
  EXPECT_EQ(plan.running, 2);
  EXPECT_EQ(plan.waiting, 0);
  EXPECT_EQ(plan.free_blocks, 97);
  rig.outputs({{1, 77}, {2, 78}});
  rig.plan();
  EXPECT_THAT(rig.last_plan().tokens, ElementsAre(77, 78));
  EXPECT_THAT(rig.last_plan().blocks, IsEmpty());
  EXPECT_THAT(rig.last_plan().block_counts, ElementsAre(0, 0));
  EXPECT_FALSE(rig.last_plan().entries[0].starts);
  EXPECT_EQ(rig.last_plan().entries[0].num_computed, 5);
  EXPECT_EQ(rig.last_plan().step, 1);
}

TEST(Plan, SaysWhoEndedOnceAlsoWithoutEverHavingRun) {
  Rig rig(rig_config(100));
  EXPECT_TRUE(rig.add(1, 5).is_ok());
  EXPECT_TRUE(rig.add(2, 5).is_ok());
  EXPECT_TRUE(rig.scheduler.has_work());
  rig.scheduler.abort(1);
  rig.scheduler.abort(2);
  EXPECT_FALSE(rig.scheduler.has_requests());
  EXPECT_TRUE(rig.scheduler.has_work());
  EXPECT_EQ(rig.step(), " | ended: 1 2");
  EXPECT_FALSE(rig.scheduler.has_work());
  EXPECT_EQ(rig.step(), "");
}

}  // namespace
}  // namespace vllm::testing
