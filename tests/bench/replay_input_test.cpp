#include "bench/replay_input.h"

#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFlat =
    R"({"input_toks":3,"output_toks":2,"arrival_time_ns":7,"input_tok_ids":[1,2,3]})"
    "\n";
constexpr const char* kSession =
    R"({"session_id":"s","arrival_time_ns":50,"sub_requests":[)"
    R"({"input_toks":2,"output_toks":1,"tool_duration_ns":900,"input_tok_ids":[4,5]},)"
    R"({"input_toks":1,"output_toks":4,"input_tok_ids":[6]}]})"
    "\n";

class ReplayInputTest : public ::testing::Test {
 protected:
  Result<ReplayInput> load(const std::string& text, int64_t vocab_size = 100) {
    options_.dataset = dir_ / "w.jsonl";
    testing::write_text(options_.dataset, text);
    return load_replay_input(options_, vocab_size);
  }
  testing::TempDir dir_;
  BenchRunOptions options_;
};

TEST_F(ReplayInputTest, FlatRowsInOrder) {
  const auto input = load(std::string(kFlat) + "\n" + kFlat);
  ASSERT_TRUE(input.is_ok()) << input.status().message();
  ASSERT_EQ(input->calls.size(), 2u);
  EXPECT_EQ(input->calls[1].line, 3);
  EXPECT_EQ(input->calls[0].prompt, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(input->calls[0].output_toks, 2);
  EXPECT_EQ(input->calls[0].arrival_ns, 7);
  EXPECT_EQ(input->sha256.size(), 64u);
}

TEST_F(ReplayInputTest, SessionsAreSkippedAndCounted) {
  std::string other = kSession;
  other.replace(other.find("\"s\""), 3, "\"t\"");
  const auto input = load(std::string(kSession) + kFlat + other);
  ASSERT_TRUE(input.is_ok()) << input.status().message();
  EXPECT_EQ(input->calls.size(), 1u);
  EXPECT_EQ(input->sessions_skipped, 2);
}

TEST_F(ReplayInputTest, SessionsAreReplayedInTheOrderOfTheFile) {
  options_.on_session = SessionPolicy::kReplay;
  const auto input = load(std::string(kFlat) + kSession + kFlat);
  ASSERT_TRUE(input.is_ok()) << input.status().message();
  ASSERT_EQ(input->calls.size(), 4u);
  EXPECT_EQ(input->sessions_replayed, 1);
  EXPECT_EQ(input->calls[1].next, 2u);
  EXPECT_EQ(input->calls[1].tool_duration_ns, 900);
  EXPECT_EQ(input->calls[1].arrival_ns, 50);
  EXPECT_FALSE(input->calls[1].released);
  EXPECT_TRUE(input->calls[2].released);
  EXPECT_EQ(input->calls[2].next, kNoCall);
  EXPECT_EQ(input->calls[3].line, 3);
}

TEST_F(ReplayInputTest, NumReqsCountsRowsAndASessionIsOne) {
  options_.num_reqs = 2;
  EXPECT_EQ(load(std::string(kFlat) + kFlat + kFlat)->calls.size(), 2u);
  options_.on_session = SessionPolicy::kReplay;
  EXPECT_EQ(load(std::string(kSession) + kFlat + kFlat)->calls.size(), 3u);
}

TEST_F(ReplayInputTest, AFileOfSessionsAloneLeavesNothing) {
  const auto input = load(kSession);
  ASSERT_FALSE(input.is_ok());
  EXPECT_EQ(exit_code(input.status()), 2);
  EXPECT_THAT(input.status().message(), HasSubstr("all 1 rows are sessions"));
  EXPECT_THAT(input.status().message(), HasSubstr("--on-session replay"));
}

TEST_F(ReplayInputTest, BadLinesNameFileAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"{not json", ":2"},
      {R"({"input_toks":1,"output_toks":-1,"arrival_time_ns":0,"input_tok_ids":[1]})", ":2"},
      {R"({"input_toks":1,"output_toks":1,"arrival_time_ns":0})", ":2"},
      {R"({"input_toks":1,"output_toks":1,"arrival_time_ns":0,"input_tok_ids":[100]})", ":2"}};
  for (const auto& [line, where] : cases) {
    const auto input = load(std::string(kFlat) + line + "\n");
    ASSERT_FALSE(input.is_ok()) << line;
    EXPECT_EQ(exit_code(input.status()), 2) << line;
    EXPECT_THAT(input.status().message(), HasSubstr("w.jsonl" + std::string(where))) << line;
  }
}

TEST_F(ReplayInputTest, TokenIdsOfSessionsAreCheckedToo) {
  options_.on_session = SessionPolicy::kReplay;
  const auto outside = load(kSession, 6);
  ASSERT_FALSE(outside.is_ok());
  EXPECT_THAT(outside.status().message(), HasSubstr("w.jsonl:1"));
  const auto without =
      load(R"({"session_id":"s","arrival_time_ns":0,"sub_requests":[{"input_toks":2,"output_toks":1}]})"
           "\n");
  ASSERT_FALSE(without.is_ok());
  EXPECT_THAT(without.status().message(), HasSubstr("input_tok_ids"));
}

TEST_F(ReplayInputTest, EveryCallThatCanNeverFitIsCounted) {
  auto input = load(std::string(kFlat) + kFlat + kFlat);
  ASSERT_TRUE(input.is_ok());
  input->calls[1].input_toks = 900;
  input->calls[2].input_toks = 901;
  KvPlan plan;
  plan.spec.block_size = 16;
  KvGroup group;
  group.kind = LayerKind::kFull;
  plan.spec.groups = {group};
  plan.blocks = 11;
  plan.usable_blocks = 10;
  plan.max_model_len = 4096;
  const Status status = check_calls_fit(*input, plan, 2048);
  EXPECT_EQ(exit_code(status), 2);
  EXPECT_THAT(status.message(), HasSubstr("2 of 3 requests can never fit; first: line 2: "));
  input->calls.resize(1);
  EXPECT_TRUE(check_calls_fit(*input, plan, 2048).is_ok());
}

}  // namespace
}  // namespace vllm
