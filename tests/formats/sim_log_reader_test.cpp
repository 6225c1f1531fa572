#include "formats/sim_log_reader.h"

#include "base/file.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

Result<SimLog> read_text(const std::string& text) {
  const TempDir dir;
  write_text(dir / "sim.log", text);
  return read_sim_log(dir / "sim.log");
}

std::string error_of(const std::string& text) {
  const auto log = read_text(text);
  return log ? "" : log.status().message();
}

constexpr const char* kLog =
    "  \u2022 Max num seqs               : 128\n"
    "  \u2022 Dataset                    : a : b.jsonl\r\n"
    "  \u2022 Instance [0] : 457824 tokens / 28614 blocks (55.89 GiB/rank at util 0.90)\n"
    "  \u2022 Instance [1] : 160 tokens / 10 blocks\n"
    "some other line\n"
    "[1.0s] Avg prompt throughput: 3489.0 tokens/s, Avg generation throughput: 2.0 tokens/s\n"
    "        \u251c\u2500Running Instance[0]: 4 reqs, Waiting: 5 reqs, Total # 2 NPUs\n"
    "        \u251c\u2500Running Instance[1]: 1 reqs, Waiting: 2 reqs, Total # 2 NPUs\n"
    "\x1b[32m[12s]\x1b[0m Avg prompt throughput: 7 tokens/s, Avg generation throughput: 8.5 tokens/s\n"
    "Total requests:                  3\n";

TEST(SimLogReader, TicksSumTheirInstances) {
  const auto log = read_text(kLog);
  ASSERT_TRUE(log.is_ok()) << log.status().message();
  ASSERT_EQ(log->ticks.size(), 2u);
  EXPECT_EQ(log->ticks[0].t_s, 1);
  EXPECT_EQ(log->ticks[0].prompt_throughput, 3489);
  EXPECT_EQ(log->ticks[0].gen_throughput, 2);
  EXPECT_EQ(log->ticks[0].running, 5);
  EXPECT_EQ(log->ticks[0].waiting, 7);
  EXPECT_EQ(log->ticks[1].t_s, 12);
  EXPECT_EQ(log->ticks[1].gen_throughput, 8.5);
  EXPECT_EQ(log->ticks[1].running, 0);
  ASSERT_EQ(log->pools.size(), 2u);
  EXPECT_EQ(log->pools[0].tokens, 457824);
  EXPECT_EQ(log->pools[0].blocks, 28614);
  EXPECT_EQ(log->pools[1].instance, 1);
  ASSERT_NE(log->setting("Max num seqs"), nullptr);
  EXPECT_EQ(*log->setting("Max num seqs"), "128");
  EXPECT_EQ(*log->setting("Dataset"), "a : b.jsonl");
  EXPECT_EQ(log->setting("Block size"), nullptr);
  EXPECT_TRUE(log->has_results);
}

TEST(SimLogReader, EachMalformedLineIsNamed) {
  const std::string tick =
      "[1.0s] Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s\n";
  EXPECT_EQ(error_of(tick), "");
  EXPECT_THAT(error_of("nothing\nof ours\n"), HasSubstr("is not a simulator's log"));
  EXPECT_THAT(error_of(""), HasSubstr("is not a simulator's log"));
  EXPECT_THAT(error_of(tick + "[0.5s] x\n"),
              HasSubstr("sim.log:2: the heartbeat of 0.5 s stands behind that of 1 s"));
  EXPECT_THAT(error_of("Avg prompt throughput: 1.0\n"),
              HasSubstr("sim.log:1: a throughput stands before the first heartbeat"));
  EXPECT_THAT(error_of("[1.0s] Avg prompt throughput: many tokens/s\n"),
              HasSubstr("sim.log:1: '[1.0s] Avg prompt"));
  EXPECT_THAT(error_of("[1.0s] Avg prompt throughput: 1.0 tokens/s\n"), HasSubstr("is malformed"));
  EXPECT_THAT(error_of("Running Instance[0]: 1 reqs, Waiting: 0 reqs\n"),
              HasSubstr("an instance stands before the first heartbeat"));
  EXPECT_THAT(error_of(tick + " Running Instance[0]: -1 reqs, Waiting: 0 reqs\n"),
              HasSubstr("sim.log:2: 'Running"));
  EXPECT_THAT(error_of(tick + " Running Instance[0]: 9223372036854775807 reqs, Waiting: 0 reqs\n"
                              " Running Instance[1]: 1 reqs, Waiting: 0 reqs\n"),
              HasSubstr("sim.log:3: the requests of the instances sum up"));
  EXPECT_THAT(error_of("  \u2022 Instance [0] : x tokens / 2 blocks\n"),
              HasSubstr("sim.log:1: 'Instance [0] : x"));
  EXPECT_THAT(
      error_of(
          "  \u2022 Instance [0] : 32 tokens / 2 blocks\n  \u2022 Instance [0] : 32 tokens / 2 blocks\n"),
      HasSubstr("sim.log:2: instance 0 has a second pool"));
}

TEST(SimLogReader, TheReferencesLogs) {
  const auto path = testing::shared_path("reference/examples/RTXPRO6000/Qwen3-32B/outputs/sim.log");
  if (!path) GTEST_SKIP() << "the reference recordings are not beside the checkout";
  const auto log = read_sim_log(*path);
  ASSERT_TRUE(log.is_ok()) << log.status().message();
  EXPECT_EQ(log->ticks.size(), 162u);
  EXPECT_EQ(log->ticks.back().gen_throughput, 34);
  ASSERT_EQ(log->pools.size(), 1u);
  EXPECT_EQ(log->pools[0].blocks, 28614);
  EXPECT_EQ(log->configuration.size(), 18u);
  EXPECT_EQ(*log->setting("Block size (tokens)"), "16");
  EXPECT_TRUE(log->has_results);
}

}  // namespace
}  // namespace vllm
