// Every way to be refused, with what the message must say.

#include "config/option_table.h"
#include "config/options.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

using Args = std::vector<std::string>;

std::string error_of(Program program, const Args& args) {
  const auto parsed = parse_options(program, args);
  if (parsed) return "accepted";
  EXPECT_EQ(exit_code(parsed.status()), 2);
  return parsed.status().message();
}

struct BadValue {
  const char* option;
  const char* value;
  const char* says;
};

// The option's name, the value and what is accepted are in each message; `says` is the rest.
const BadValue kBadValues[] = {
    {"num-blocks", "0", "too small; accepted is a whole number from 2 to 2147483647, or auto"},
    {"num-blocks", "1", "too small"},
    {"num-blocks", "-5", "too small"},
    {"num-blocks", "nan", "not a whole number"},
    {"num-blocks", "64.5", "not a whole number"},
    {"num-blocks", "64k", "not a whole number"},
    {"num-blocks", "", "not a whole number"},
    {"num-blocks", "+64", "not a whole number"},
    {"num-blocks", "0x40", "not a whole number"},
    {"num-blocks", "2147483648", "too large"},
    {"num-blocks", "9223372036854775808", "does not fit 64 bits"},
    {"kv-cache-memory", "0", "is zero; accepted is a positive number of bytes"},
    {"kv-cache-memory", "0GiB", "is zero"},
    {"kv-cache-memory", "-1GiB", "is not a size"},
    {"kv-cache-memory", "nan", "is not a size"},
    {"kv-cache-memory", "inf", "is not a size"},
    {"kv-cache-memory", "lots", "is not a size"},
    {"kv-cache-memory", "1XiB", "unknown suffix"},
    {"kv-cache-memory", "9223372036854775808", "too large"},
    {"kv-cache-memory", "9999999TiB", "too large"},
    {"kv-cache-memory", "0.1", "less than one byte"},
    {"kv-cache-memory", "1.2.3GiB", "not a size"},
    {"kv-cache-memory-bytes", "0", "is zero"},
    {"gpu-memory-utilization", "0", "too small; accepted is a number above 0 and at most 1, or auto"},
    {"gpu-memory-utilization", "-0.5", "too small"},
    {"gpu-memory-utilization", "1.01", "too large"},
    {"gpu-memory-utilization", "nan", "not a number"},
    {"gpu-memory-utilization", "inf", "too large"},
    {"gpu-memory-utilization", "90%", "not a number"},
    {"gpu-memory-utilization", "1e999", "out of a number's range"},
    {"memory-utilization", "2", "too large"},
    {"block-size", "0", "too small"},
    {"block-size", "auto", "not a whole number"},
    {"max-model-len", "0", "too small"},
    {"max-model-len", "-1", "too small"},
    {"max-num-seqs", "0", "too small"},
    {"max-num-seqs", "99999999999", "too large"},
    {"max-num-batched-tokens", "-2048", "too small"},
    {"long-prefill-token-threshold", "-1", "too small"},
    {"watermark", "1", "too large; accepted is a number of at least 0 and below 1"},
    {"watermark", "-0.1", "too small"},
    {"watermark", "NaN", "not a number"},
    {"scheduling-depth", "3", "too large; accepted is 1 or 2"},
    {"scheduling-depth", "0", "too small"},
    {"tensor-parallel-size", "0", "too small"},
    {"data-parallel-size", "0", "too small"},
    {"threads", "0", "too small"},
    {"seed", "-1", "too small"},
    {"seed", "1e3", "not a whole number"},
    {"load-format", "gguf", "not known; accepted is auto or dummy"},
    {"load-format", "dumy", "did you mean dummy?"},
    {"dtype", "int8", "accepted is auto, bfloat16, float16 or float32"},
    {"dtype", "bfloat61", "did you mean bfloat16?"},
    {"kv-cache-dtype", "int4", "accepted is auto, bfloat16, float16, float32 or fp8"},
    {"scheduling-policy", "lifo", "accepted is fcfs or priority"},
    {"device", "tpu", "accepted is auto, cpu or cuda"},
    {"log-level", "loud", "accepted is DEBUG, INFO, WARNING or ERROR"},
    {"log-format", "xml", "accepted is text or json"},
    {"print-plan", "yaml", "accepted is text or json"},
    {"device-memory", "80GiB,shared", "accepted is SIZE or SIZE,integrated"},
    {"device-memory", "0,integrated", "is zero"},
    {"device-memory", "-1", "is not a size"},
    {"model", "", "is empty"},
    {"config", "", "is empty"},
    {"enable-prefix-caching", "maybe", "accepted is true or false"},
    {"enforce-eager", "2", "accepted is true or false"},
};

TEST(OptionErrorsTest, BadValuesAreNamedInEveryEngineProgram) {
  for (const BadValue& bad : kBadValues) {
    for (const Program program : kAllPrograms) {
      if (!engine_programs().has(program)) continue;
      const std::string given = fmt::format("--{}={}", bad.option, bad.value);
      const std::string message = error_of(program, {"--model=m", given, "--print-plan"});
      SCOPED_TRACE(std::string(program_name(program)) + " " + given + " -> " + message);
      EXPECT_THAT(message, HasSubstr(fmt::format("--{}", bad.option)));
      EXPECT_THAT(message, HasSubstr(fmt::format("'{}'", bad.value)));
      EXPECT_THAT(message, HasSubstr("accepted is "));
      EXPECT_THAT(message, HasSubstr(bad.says));
    }
  }
}

TEST(OptionErrorsTest, BadValuesOfTheOtherPrograms) {
  const struct {
    Program program;
    BadValue bad;
  } cases[] = {
      {Program::kBenchRun, {"num-reqs", "-1", "too small"}},
      {Program::kBenchRun, {"tick-seconds", "0", "too small"}},
      {Program::kBenchRun, {"tick-seconds", "nan", "not a number"}},
      {Program::kBenchRun, {"speed", "0", "too small"}},
      {Program::kBenchRun, {"speed", "inf", "too large"}},
      {Program::kBenchRun, {"warmup", "-2", "too small"}},
      {Program::kBenchRun, {"on-session", "replya", "did you mean replay?"}},
      {Program::kBenchRun, {"dataset", "", "is empty"}},
      {Program::kBenchRun, {"max-connections", "-1", "too small"}},
      {Program::kBenchCheckSchedule, {"depth", "3", "accepted is 1 or 2, or auto"}},
      {Program::kBenchCheckSchedule, {"max-deviations", "-1", "too small"}},
      {Program::kBenchLoad, {"goodput", "ttft", "has no limit"}},
      {Program::kBenchLoad, {"goodput", "itl:5", "unknown metric"}},
      {Program::kBenchLoad, {"goodput", "ttft:0", "too small"}},
      {Program::kBenchLoad, {"percentiles", "50,100", "too large"}},
      {Program::kBenchLoad, {"request-rate", "0", "too small"}},
      {Program::kBenchValidate, {"arrival-anchor", "start", "accepted is pickup or queued"}},
      {Program::kServer, {"port", "65536", "too large"}},
      {Program::kWorkload, {"rate", "-1", "too small"}},
      {Program::kWorkload, {"prefix-share", "1.5", "too large"}},
      {Program::kWorkload, {"length-distribution", "normal", "accepted is lognormal, uniform or fixed"}},
  };
  for (const auto& [program, bad] : cases) {
    const std::string message = error_of(program, {fmt::format("--{}={}", bad.option, bad.value)});
    EXPECT_THAT(message, HasSubstr(fmt::format("--{}: '", bad.option)));
    EXPECT_THAT(message, HasSubstr(bad.says));
    EXPECT_THAT(message, HasSubstr("accepted is "));
  }
}

TEST(OptionErrorsTest, UnknownOptionsAreRefusedWithTheNearestName) {
  const struct {
    Program program;
    const char* given;
    const char* says;
  } cases[] = {
      {Program::kServer, "--max_num_seqs", "unknown option --max_num_seqs; did you mean --max-num-seqs?"},
      {Program::kServer, "--max-num-seq=3", "unknown option --max-num-seq; did you mean --max-num-seqs?"},
      {Program::kServer, "--max-num-sequences", "did you mean --max-num-seqs?"},
      {Program::kServer, "--kv-cahce-memory", "did you mean --kv-cache-memory?"},
      {Program::kBenchRun, "--kv_cache_memory_bytes", "did you mean --kv-cache-memory-bytes?"},
      {Program::kServer, "--no-enable-prefix-cache", "did you mean --no-enable-prefix-caching?"},
      {Program::kServer, "--gpu_memory_utilisation", "did you mean --gpu-memory-utilization?"},
      {Program::kServer, "-model", "unknown option -model; did you mean --model?"},
      {Program::kServer, "--no-enforce-eager", "did you mean --enforce-eager?"},
      {Program::kServer, "--hlep", "did you mean --help?"},
      {Program::kServer, "--output-dir", "it is an option of vllm-bench run, not of vllm-server"},
      {Program::kBenchCheckSchedule, "--num-blocks", "it is not an option of vllm-bench check-schedule"},
      {Program::kServer, "--qqqqqqqqqqqq", "vllm-server --help lists the options"},
      {Program::kServer, "-x", "unknown option -x"},
  };
  for (const auto& c : cases) EXPECT_THAT(error_of(c.program, {"--model", "m", c.given}), HasSubstr(c.says));
}

TEST(OptionErrorsTest, NearestNameNeedsToBeNear) {
  const std::vector<std::string> names = {"alpha", "beta", "gamma-delta"};
  EXPECT_EQ(nearest_name("alhpa", names), "alpha");
  EXPECT_EQ(nearest_name("--Gamma_Delta", names), "gamma-delta");
  EXPECT_EQ(nearest_name("gamma", names), "gamma-delta");
  EXPECT_EQ(nearest_name("omega-omega", names), "");
  EXPECT_EQ(nearest_name("", names), "");
}

TEST(OptionErrorsTest, PositionalWordsAreRefusedByName) {
  EXPECT_THAT(error_of(Program::kServer, {"model.gguf"}), HasSubstr("'model.gguf' is not taken"));
  EXPECT_THAT(error_of(Program::kServer, {"--model", "m", "extra"}), HasSubstr("'extra' is not taken"));
  EXPECT_THAT(error_of(Program::kServer, {"--enforce-eager", "true"}),
              HasSubstr("--enforce-eager takes no value"));
  EXPECT_THAT(error_of(Program::kServer, {"--print-plan", "json"}), HasSubstr("write --print-plan=json"));
  EXPECT_THAT(error_of(Program::kServer, {"--", "x"}), HasSubstr("'--' is not taken"));
  EXPECT_THAT(error_of(Program::kServer, {""}), HasSubstr("'' is not taken"));
  EXPECT_THAT(error_of(Program::kServer, {"-"}), HasSubstr("'-' is not taken"));
}

TEST(OptionErrorsTest, MissingValues) {
  EXPECT_THAT(error_of(Program::kServer, {"--model"}), HasSubstr("--model has no value"));
  EXPECT_THAT(error_of(Program::kServer, {"--num-blocks", "--model", "m"}),
              HasSubstr("--num-blocks has no value, --model follows it"));
  EXPECT_THAT(error_of(Program::kServer, {"--num-blocks=", "--model", "m"}), HasSubstr("--num-blocks: ''"));
  EXPECT_THAT(error_of(Program::kServer, {"--no-reserve-full-isl=true"}), HasSubstr("takes no value"));
}

TEST(OptionErrorsTest, ContradictionsNameBoth) {
  EXPECT_THAT(error_of(Program::kServer, {"--num-blocks", "64", "--num-blocks", "65"}),
              HasSubstr("--num-blocks '64' and --num-blocks '65' contradict each other"));
  EXPECT_THAT(error_of(Program::kServer, {"--kv-cache-memory=1GiB", "--kv-cache-memory-bytes=1GB"}),
              HasSubstr("--kv-cache-memory '1GiB' and --kv-cache-memory-bytes '1GB' contradict"));
  EXPECT_THAT(error_of(Program::kServer, {"--enable-prefix-caching", "--no-enable-prefix-caching"}),
              HasSubstr("--enable-prefix-caching 'true' and --no-enable-prefix-caching 'false' contradict"));
}

TEST(OptionErrorsTest, RequiredOptionsAreAllNamed) {
  EXPECT_THAT(error_of(Program::kBenchRun, {}), HasSubstr("--dataset, --output-dir and --model are missing"));
  EXPECT_THAT(error_of(Program::kBenchRun, {"--model", "m", "--dataset", "d"}),
              HasSubstr("--output-dir is missing"));
  EXPECT_THAT(error_of(Program::kBenchCheckSchedule, {"--dataset", "d"}),
              HasSubstr("--bench-dir is missing"));
  EXPECT_THAT(error_of(Program::kWorkload, {}), HasSubstr("--output is missing"));
}

TEST(OptionErrorsTest, OptionsThatDependOnEachOther) {
  EXPECT_THAT(error_of(Program::kWorkload, {"--output", "f", "--vocab-size=9", "--input-len-min", "300"}),
              HasSubstr("--input-len-min 300 is above --input-len-max 256"));
  EXPECT_THAT(error_of(Program::kWorkload, {"--output", "f", "--vocab-size=9", "--output-len-max", "3"}),
              HasSubstr("--output-len-min 16 is above --output-len-max 3"));
  EXPECT_THAT(error_of(Program::kWorkload, {"--output", "f"}),
              HasSubstr("--vocab-size or --model is needed"));
  EXPECT_THAT(error_of(Program::kServer, {"--model", "m", "--device-memory", "80GiB"}),
              HasSubstr("accepted with --print-plan or in vllm-sim"));
}

// ---- --config ----

class ConfigFileErrorsTest : public ::testing::Test {
 protected:
  std::string error_with(const std::string& yaml) {
    write_text(dir_ / "e.yaml", yaml);
    return error_of(Program::kServer, {"--model", "m", "--config", dir_ / "e.yaml"});
  }
  TempDir dir_;
};

TEST_F(ConfigFileErrorsTest, NameFileAndLine) {
  const struct {
    const char* yaml;
    const char* says;
  } cases[] = {
      {"# one\nmax-num-sqes: 3\n", "e.yaml:2: unknown option max-num-sqes; did you mean max-num-seqs?"},
      {"output-dir: x\n",
       "e.yaml:1: unknown option output-dir; it is an option of vllm-bench run, not of vllm-server"},
      {"no-enable-prefix-caching: true\n", "write 'enable-prefix-caching: false'"},
      {"config: other.yaml\n", "e.yaml:1: config cannot stand in a file that --config reads"},
      {"\nnum-blocks: -3\n", "e.yaml:2: num-blocks: '-3' is too small; accepted is a whole number from 2"},
      {"num_blocks: 1.5\n", "e.yaml:1: num_blocks: '1.5' is not a whole number"},
      {"num-blocks: [1, 2]\n", "e.yaml:1: num-blocks has a list; accepted is a whole number"},
      {"num-blocks: {a: 1}\n", "e.yaml:1: num-blocks has a group of values"},
      {"scheduler:\n  max-num-seqs: 3\n", "e.yaml:1: unknown option scheduler"},
      {"num-blocks:\n", "e.yaml:1: num-blocks has no value"},
      {"enforce-eager: 3\n", "e.yaml:1: enforce-eager: '3' is neither true nor false"},
      {"gpu-memory-utilization: .nan\n", "e.yaml:1: gpu-memory-utilization: '.nan' is not a number"},
      {"kv-cache-memory: 0\n", "e.yaml:1: kv-cache-memory: '0' is zero"},
      {"block-size: 16\nblock_size: 16\n", "e.yaml:2: block_size is given twice, first in line 1"},
      {"kv-cache-memory: 1GiB\nkv-cache-memory-bytes: 1GiB\n",
       "e.yaml:2: kv-cache-memory-bytes is given twice"},
      {"- num-blocks\n", "e.yaml:1: not a list of options"},
      {"just words\n", "e.yaml:1: not a list of options"},
      {"block-size: 16\n---\nblock-size: 32\n", "a second document begins"},
      {"[a, b]: 3\n", "an option's name is expected"},
      {"block-size: [16\n", "not YAML"},
      {"a: *missing\n", "not YAML"},
      {"\tblock-size: 16\n", "not YAML"},
  };
  for (const auto& c : cases) EXPECT_THAT(error_with(c.yaml), HasSubstr(c.says)) << c.yaml;
}

TEST_F(ConfigFileErrorsTest, HostileFilesAreErrors) {
  EXPECT_THAT(error_with(std::string(100000, '[')), HasSubstr("e.yaml"));
  EXPECT_THAT(error_with(std::string("block-size: \0 16\n", 17)), HasSubstr("e.yaml"));
  EXPECT_THAT(error_with(std::string(2 << 20, '#')), HasSubstr("--config"));
  EXPECT_THAT(error_with(std::string("\xff\xfe\x41\x00\x00", 5)), HasSubstr("e.yaml"));
}

TEST_F(ConfigFileErrorsTest, UnreadableFiles) {
  const std::string message = error_of(Program::kServer, {"--model", "m", "--config", dir_ / "absent.yaml"});
  EXPECT_THAT(message, HasSubstr("--config"));
  EXPECT_THAT(message, HasSubstr("absent.yaml"));
  EXPECT_THAT(error_of(Program::kServer, {"--model", "m", "--config", dir_.path()}), HasSubstr("--config"));
}

TEST_F(ConfigFileErrorsTest, AWrongLineIsAnErrorEvenWhereTheCommandLineWins) {
  write_text(dir_ / "e.yaml", "block-size: 0\n");
  EXPECT_THAT(error_of(Program::kServer, {"--model", "m", "--block-size", "16", "--config", dir_ / "e.yaml"}),
              HasSubstr("e.yaml:1: block-size: '0' is too small"));
}

// ---- what this build cannot do ----

std::string refusal(Program program, Args args) {
  args.insert(args.begin(), {"--model", "m"});
  if (program == Program::kBenchRun) args.insert(args.end(), {"--dataset", "d", "--output-dir", "o"});
  const auto parsed = parse_options(program, args);
  if (!parsed) return "parse: " + parsed.status().message();
  const Status status = check_supported(*parsed);
  if (status) return "";
  EXPECT_EQ(exit_code(status), 2);
  return status.message();
}

TEST(OptionsSupportedTest, RefusedByName) {
  const struct {
    Args args;
    const char* says;
  } cases[] = {
      {{"--tensor-parallel-size", "2"}, "--tensor-parallel-size 2"},
      {{"--data-parallel-size=2"}, "--data-parallel-size 2"},
      {{"--enable-expert-parallel"}, "--enable-expert-parallel"},
      {{"--record-gate-stats"}, "--record-gate-stats"},
      {{"--device", "cuda"}, "--device cuda"},
      {{"--base-url", "http://127.0.0.1:1"}, "--base-url"},
      {{"--api-key", "k"}, "--api-key"},
      {{"--max-connections", "3"}, "--max-connections"},
  };
  for (const auto& c : cases) EXPECT_THAT(refusal(Program::kBenchRun, c.args), HasSubstr(c.says));
}

TEST(OptionsSupportedTest, AcceptedWhereItChangesNothingOrIsDone) {
  const Args accepted[] = {
      {"--disable-custom-all-reduce"}, {"--enforce-eager"},       {"--skip-tokenizer-init"},
      {"--scheduling-depth", "2"},     {"--device", "cpu"},       {"--kv-cache-dtype", "fp8"},
      {"--load-format", "dummy"},      {"--on-session", "replay"}};
  for (const Args& args : accepted) EXPECT_EQ(refusal(Program::kBenchRun, args), "") << args[0];
}

TEST(OptionsSupportedTest, PlansMayBeForOtherMachines) {
  EXPECT_EQ(refusal(Program::kServer, {"--print-plan", "--tensor-parallel-size", "4"}), "");
  EXPECT_EQ(refusal(Program::kServer, {"--print-plan", "--device-memory", "80GiB", "--device", "cuda"}), "");
  EXPECT_EQ(refusal(Program::kSim, {"--model", "m", "--print-plan", "--device-memory", "80GiB",
                                    "--tensor-parallel-size", "4"}),
            "");
  EXPECT_EQ(refusal(Program::kSim, {"--device-memory", "80GiB"}), "");
  EXPECT_THAT(refusal(Program::kServer, {"--print-plan", "--device", "cuda"}), HasSubstr("--device cuda"));
  EXPECT_THAT(refusal(Program::kServer, {"--print-plan", "--enable-expert-parallel"}),
              HasSubstr("--enable-expert-parallel"));
}

TEST(OptionsSupportedTest, WhatIsNotBuiltSaysSo) {
  for (const Program p : {Program::kServer, Program::kCli, Program::kBenchLoad}) {
    ASSERT_TRUE(not_built_yet(p)) << program_name(p);
    EXPECT_THAT(*not_built_yet(p), HasSubstr("not built yet"));
    EXPECT_TRUE(parse_options(p, {}).is_ok()) << program_name(p);  // so that it can be said
  }
  for (const Program p : {Program::kBenchRun, Program::kBenchCheckSchedule, Program::kBenchValidate,
                          Program::kSim, Program::kProfile, Program::kWorkload}) {
    EXPECT_FALSE(not_built_yet(p));
  }
}

}  // namespace
}  // namespace vllm
