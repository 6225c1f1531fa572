#include "backend/null_executor.h"

namespace vllm {
namespace {

StepPlan plan_of(std::vector<StepEntry> entries) {
  StepPlan plan;
  plan.entries = std::move(entries);
  return plan;
}

StepEntry entry(RequestId id, int32_t computed, int32_t tokens) {
  StepEntry out;
  out.id = id;
  out.num_computed = computed;
  out.num_tokens = tokens;
  out.samples = true;
  return out;
}

std::vector<int32_t> run(NullExecutor& executor, const StepPlan& plan) {
  StepResult result;
  EXPECT_TRUE(executor.launch(plan).is_ok());
  EXPECT_TRUE(executor.collect(result).is_ok());
  return result.tokens;
}

TEST(NullExecutorTest, TokensDependOnRequestAndPositionAlone) {
  VirtualClock clock;
  NullExecutor executor(clock, 1000);
  const auto whole = run(executor, plan_of({entry(1, 0, 10), entry(2, 0, 10)}));
  const auto rest = run(executor, plan_of({entry(2, 4, 6), entry(1, 9, 1)}));
  EXPECT_EQ(whole[0], rest[1]);
  EXPECT_EQ(whole[1], rest[0]);
  EXPECT_NE(whole[0], whole[1]);
}

TEST(NullExecutorTest, TokensStayInTheVocabulary) {
  VirtualClock clock;
  for (const int64_t vocab : {1, 7, 49152}) {
    NullExecutor executor(clock, vocab);
    for (int32_t position = 0; position < 200; ++position) {
      const int32_t token = run(executor, plan_of({entry(3, position, 1)}))[0];
      ASSERT_GE(token, 0);
      ASSERT_LT(token, vocab);
    }
  }
}

TEST(NullExecutorTest, StepsTakeTheGivenTimeOneAfterAnother) {
  VirtualClock clock(1000);
  NullExecutor executor(clock, 10,
                        [](const StepPlan& plan) { return 100 * static_cast<TimeNs>(plan.entries.size()); });
  const StepPlan first = plan_of({entry(1, 0, 1)}), second = plan_of({entry(1, 1, 1), entry(2, 0, 1)});
  StepResult result;
  ASSERT_TRUE(executor.launch(first).is_ok());
  clock.advance_to_ns(1030);
  ASSERT_TRUE(executor.launch(second).is_ok());
  ASSERT_TRUE(executor.collect(result).is_ok());
  EXPECT_EQ(result.ready_ns, 1100);
  EXPECT_EQ(clock.now_ns(), 1100);
  ASSERT_TRUE(executor.collect(result).is_ok());
  EXPECT_EQ(result.ready_ns, 1300) << "the second waited for the first";
  EXPECT_EQ(result.tokens.size(), 2u);
}

TEST(NullExecutorTest, WithoutStepTimesNoTimePasses) {
  VirtualClock clock(500);
  NullExecutor executor(clock, 10);
  StepResult result;
  const StepPlan plan = plan_of({entry(1, 0, 1)});
  ASSERT_TRUE(executor.launch(plan).is_ok());
  ASSERT_TRUE(executor.collect(result).is_ok());
  EXPECT_EQ(result.ready_ns, 500);
  EXPECT_EQ(clock.now_ns(), 500);
}

TEST(NullExecutorTest, TooManyInFlightOrNoneIsAnError) {
  VirtualClock clock;
  NullExecutor executor(clock, 10, {}, 1);
  EXPECT_EQ(executor.max_in_flight(), 1);
  StepPlan plan = plan_of({entry(1, 0, 1)});
  plan.step = 4;
  StepResult result;
  EXPECT_EQ(executor.collect(result).message(), "There is no step to collect");
  ASSERT_TRUE(executor.launch(plan).is_ok());
  EXPECT_EQ(executor.launch(plan).message(), "Step 4 was launched while 1 steps were in flight");
}

}  // namespace
}  // namespace vllm
