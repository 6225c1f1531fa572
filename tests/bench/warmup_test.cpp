#include "bench/warmup.h"

#include <set>

#include "bench/fake_target.h"

namespace vllm {
namespace {

using testing::FakeTarget;
using testing::make_input;

TEST(WarmupTest, LengthsAreThoseOfTheDataset) {
  ReplayInput input = make_input({0, 0, 0}, 40);  // prompts of 2, 3 and 4 tokens
  EXPECT_EQ(plan_warmup(input, 2).prompt_tokens, 3);
  EXPECT_EQ(plan_warmup(input, 2).output_tokens, 8);
  input.calls[1].output_toks = 5;
  EXPECT_EQ(plan_warmup(input, 2).output_tokens, 5);
}

TEST(WarmupTest, PromptsAreDistinctInTheVocabularyAndNotTheDatasets) {
  ReplayInput input = make_input({0, 0, 0});
  const WarmupPlan plan = plan_warmup(input, 20);
  const auto prompts = warmup_prompts(plan, input, 50, 42);
  ASSERT_EQ(prompts.size(), 20u);
  EXPECT_EQ(std::set(prompts.begin(), prompts.end()).size(), 20u);
  for (const auto& prompt : prompts) {
    EXPECT_EQ(prompt.size(), 3u);
    for (const int32_t id : prompt) EXPECT_TRUE(id >= 0 && id < 50);
    for (const ReplayCall& call : input.calls) EXPECT_NE(call.prompt, prompt);
  }
}

TEST(WarmupTest, TheSeedDecides) {
  ReplayInput input = make_input({0, 0, 0});
  const WarmupPlan plan = plan_warmup(input, 3);
  EXPECT_EQ(warmup_prompts(plan, input, 1000, 1), warmup_prompts(plan, input, 1000, 1));
  EXPECT_NE(warmup_prompts(plan, input, 1000, 1), warmup_prompts(plan, input, 1000, 2));
}

TEST(WarmupTest, AVocabularyThatHasNoOtherPromptGivesFewer) {
  ReplayInput input = make_input({0});
  EXPECT_TRUE(warmup_prompts(plan_warmup(input, 2), input, 1, 42).empty())
      << "its only prompt is the dataset's";
}

class RunWarmupTest : public ::testing::Test {
 protected:
  Status run() { return run_warmup(target_, clock_, {{1, 2}, {3, 4}}, 5, interrupted_); }
  VirtualClock clock_;
  FakeTarget target_{clock_};
  std::atomic<bool> interrupted_ = false;
};

TEST_F(RunWarmupTest, IssuesAllAndResetsOnce) {
  ASSERT_TRUE(run().is_ok());
  ASSERT_EQ(target_.issued.size(), 2u);
  EXPECT_EQ(target_.issued[0].name, "warmup-0");
  EXPECT_EQ(target_.issued[1].output_tokens, 5);
  EXPECT_EQ(target_.resets, 1);
}

TEST_F(RunWarmupTest, AFailureOfARequestIsTold) {
  target_.end_status = failed("the executor died");
  EXPECT_EQ(run().message(), "warm-up request 0: the executor died");
}

TEST_F(RunWarmupTest, ARequestThatIsNotTakenIsTold) {
  target_.refuse_next = refused("stopped");
  EXPECT_EQ(run().message(), "warm-up request 0: stopped");
}

TEST_F(RunWarmupTest, AnEngineThatCannotBeResetIsNotMeasured) {
  target_.reset_works = false;
  EXPECT_EQ(run().code(), StatusCode::kFailed);
}

TEST_F(RunWarmupTest, AnInterruptEndsIt) {
  target_.hold = true;
  interrupted_ = true;
  EXPECT_EQ(run().code(), StatusCode::kAborted);
  EXPECT_TRUE(target_.held.empty());
}

}  // namespace
}  // namespace vllm
