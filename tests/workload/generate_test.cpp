#include "workload/generate.h"

#include "formats/workload.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

ParsedOptions options_for(const std::string& output) {
  ParsedOptions parsed;
  parsed.options.program = Program::kWorkload;
  parsed.options.workload.output = output;
  parsed.options.workload.vocab_size = 500;
  return parsed;
}

TEST(GenerateWorkload, WritesAFileThatReplayAccepts) {
  const TempDir dir;
  const ParsedOptions parsed = options_for(dir / "w.jsonl");
  ::testing::internal::CaptureStdout();
  const Status status = generate_workload(parsed);
  const std::string summary = ::testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status) << status.message();
  WorkloadReadOptions read;
  read.need_token_ids = true;
  read.vocab_size = 500;
  const auto w = read_workload(dir / "w.jsonl", read);
  ASSERT_TRUE(w) << w.status().message();
  EXPECT_EQ(w->requests.size(), 64u);
  int64_t in = 0, out = 0;
  for (const auto& r : w->requests) {
    in += r.input_toks;
    out += r.output_toks;
  }
  EXPECT_THAT(summary, HasSubstr("w.jsonl: 64 requests, "));
  EXPECT_THAT(summary, HasSubstr(fmt::format("input tokens   {} (mean ", in)));
  EXPECT_THAT(summary, HasSubstr(fmt::format("output tokens  {} (mean ", out)));
  EXPECT_THAT(summary, HasSubstr("(asked for 4 requests/s, burstiness 1)"));
  EXPECT_THAT(summary, HasSubstr("sha256         " + w->sha256));
}

TEST(GenerateWorkload, TakesTheVocabularyOfAModel) {
  const auto model = testing::default_model_path();
  if (!model) GTEST_SKIP() << "models/SmolLM2-135M-Instruct.Q4_1.gguf is not there; scripts/setup fetches it";
  const TempDir dir;
  ParsedOptions parsed = options_for(dir / "w.jsonl");
  parsed.options.model.model = *model;
  parsed.options.workload.vocab_size = 0;
  ::testing::internal::CaptureStdout();
  const Status status = generate_workload(parsed);
  const std::string summary = ::testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status) << status.message();
  EXPECT_THAT(summary, HasSubstr("token ids      0 to 49151, "));
  parsed.options.workload.vocab_size = 50'000;
  EXPECT_THAT(generate_workload(parsed).message(),
              HasSubstr("--vocab-size 50000 is above the 49152 tokens of"));
}

TEST(GenerateWorkload, LeavesNothingBehindWhenItFails) {
  const TempDir dir;
  ParsedOptions parsed = options_for(dir / "w.jsonl");
  parsed.options.workload.rate = 1e-300;
  EXPECT_FALSE(generate_workload(parsed));
  EXPECT_FALSE(read_workload(dir / "w.jsonl", {}));
  EXPECT_FALSE(read_workload(dir / "w.jsonl.partial", {}));
  parsed = options_for(dir / "none/w.jsonl");
  const Status status = generate_workload(parsed);
  EXPECT_EQ(status.code(), StatusCode::kUsage);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("--output: "), HasSubstr("none/w.jsonl: cannot be created")));
}

}  // namespace
}  // namespace vllm
