// A tiny --speed overflowed the arrivals: all requests were issued at once and the run called itself good. A
// tiny
// --tick-seconds gave rows that cannot be told apart, with a width that was not the recorded one.

#include "bench/replay_input.h"
#include "config/option_table.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

TEST(ArrivalsBeyondTheClock, ASpeedThatOverflowsThemIsRefused) {
  testing::TempDir dir;
  BenchRunOptions options;
  options.dataset = dir / "w.jsonl";
  testing::write_text(options.dataset,
                      R"({"input_toks":1,"output_toks":1,"arrival_time_ns":0,"input_tok_ids":[1]})"
                      "\n"
                      R"({"input_toks":1,"output_toks":1,"arrival_time_ns":1000000000,"input_tok_ids":[1]})"
                      "\n");
  for (const double speed : {1e-300, 1e-12, 4e-10}) {
    options.speed = speed;
    const auto input = load_replay_input(options, 10);
    ASSERT_FALSE(input.is_ok()) << speed;
    EXPECT_EQ(exit_code(input.status()), 2);
    EXPECT_EQ(input.status().message(),
              fmt::format(
                  "--speed {}: moves the arrival of 1000000000 ns in {}:2 beyond 2^61 ns; accepted here is a "
                  "speed of at least 4.34e-10",
                  speed, options.dataset));
  }
  options.speed = 4.34e-10;
  EXPECT_TRUE(load_replay_input(options, 10).is_ok());
}

TEST(ArrivalsBeyondTheClock, ATickIsAtLeastAMillisecond) {
  const std::vector<std::string> base = {"--model",      "m", "--dataset",     "d",
                                         "--output-dir", "o", "--tick-seconds"};
  for (const char* value : {"1e-300", "1e-9", "0.0009"}) {
    std::vector<std::string> args = base;
    args.emplace_back(value);
    const auto parsed = parse_options(Program::kBenchRun, args);
    ASSERT_FALSE(parsed.is_ok()) << value;
    EXPECT_THAT(parsed.status().message(),
                HasSubstr("accepted is a number of at least 0.001 and at most 86400"));
  }
  std::vector<std::string> args = base;
  args.emplace_back("0.001");
  EXPECT_TRUE(parse_options(Program::kBenchRun, args).is_ok());
}

}  // namespace
}  // namespace vllm
