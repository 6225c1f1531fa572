// Defaults, values, aliases, precedence and the list of resolved options.

#include "config/options.h"

#include <limits>

#include "config/option_table.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

using Args = std::vector<std::string>;

ParsedOptions parse(Program program, Args args) {
  auto parsed = parse_options(program, args);
  EXPECT_TRUE(parsed.is_ok()) << parsed.status().message();
  return parsed ? std::move(*parsed) : ParsedOptions{};
}

// A plan needs --model alone, in every program that runs an engine.
ParsedOptions plan(Program program, Args more) {
  Args args = {"--model", "m", "--print-plan"};
  args.insert(args.end(), more.begin(), more.end());
  return parse(program, args);
}

std::string resolved(const ParsedOptions& parsed, const std::string& name) {
  for (const ResolvedOption& r : parsed.resolved) {
    if (r.name == name) return r.value;
  }
  return "absent";
}

std::vector<Program> engines() {
  std::vector<Program> out;
  for (const Program p : kAllPrograms) {
    if (engine_programs().has(p)) out.push_back(p);
  }
  return out;
}

TEST(OptionsTest, DefaultsAreThoseOfTheSpecification) {
  const Options o = parse(Program::kServer, {"--model", "m"}).options;
  EXPECT_EQ(o.kv.block_size, 16);
  EXPECT_EQ(o.scheduler.max_num_seqs, 128);
  EXPECT_EQ(o.scheduler.max_num_batched_tokens, 2048);
  EXPECT_EQ(o.scheduler.long_prefill_token_threshold, 0);
  EXPECT_TRUE(o.scheduler.enable_chunked_prefill);
  EXPECT_TRUE(o.scheduler.enable_prefix_caching);
  EXPECT_TRUE(o.scheduler.reserve_full_isl);
  EXPECT_EQ(o.scheduler.watermark, 0.0);
  EXPECT_EQ(o.scheduler.scheduling_depth, 1);
  EXPECT_EQ(o.scheduler.policy, SchedulingPolicy::kFcfs);
  EXPECT_EQ(o.runtime.seed, 42);
  EXPECT_EQ(o.runtime.log_level, LogLevel::kInfo);
  EXPECT_EQ(o.runtime.print_plan, PrintPlan::kNo);
  EXPECT_EQ(o.parallel.tensor_parallel_size, 1);
  EXPECT_FALSE(o.model.dtype);
  EXPECT_FALSE(o.model.max_model_len);
  EXPECT_FALSE(o.kv.num_blocks);
  EXPECT_FALSE(o.kv.kv_cache_memory_bytes);
  EXPECT_FALSE(o.kv.gpu_memory_utilization);
  EXPECT_FALSE(o.kv.kv_cache_dtype);
}

TEST(OptionsTest, ReplayHasTheDefaultsOfTheHarness) {
  const Options o =
      parse(Program::kBenchRun, {"--model", "m", "--dataset", "d", "--output-dir", "out"}).options;
  EXPECT_EQ(o.bench_run.num_reqs, 0);
  EXPECT_EQ(o.bench_run.tick_seconds, 1.0);
  EXPECT_EQ(o.bench_run.warmup, 2);
  EXPECT_EQ(o.bench_run.speed, 1.0);
  EXPECT_EQ(o.bench_run.on_session, SessionPolicy::kSkip);
  EXPECT_EQ(o.model.dtype, DType::kBF16);
}

// The one exception among the defaults of engine options: replay computes in bfloat16, unless a GGUF file
// brings its own types or somebody said otherwise.
TEST(OptionsTest, ReplayDefaultsToBFloat16ButForGguf) {
  EXPECT_EQ(plan(Program::kBenchRun, {}).options.model.dtype, DType::kBF16);
  EXPECT_EQ(resolved(plan(Program::kBenchRun, {}), "dtype"), "bfloat16");
  EXPECT_FALSE(parse(Program::kBenchRun, {"--model", "x.gguf", "--print-plan"}).options.model.dtype);
  EXPECT_FALSE(plan(Program::kBenchRun, {"--dtype", "auto"}).options.model.dtype);
  EXPECT_EQ(plan(Program::kBenchRun, {"--dtype=float32"}).options.model.dtype, DType::kF32);
  EXPECT_FALSE(plan(Program::kServer, {}).options.model.dtype);
}

TEST(OptionsTest, EveryEngineProgramTakesTheSameOptionsWithTheSameDefaults) {
  const ParsedOptions server = plan(Program::kServer, {});
  const std::vector<std::string> shared_groups = {"Model",     "Parallelism", "KV cache",
                                                  "Scheduler", "Runtime",     "General"};
  for (const Program program : engines()) {
    std::map<std::string, std::string> values;
    const ParsedOptions parsed = plan(program, {});
    for (const ResolvedOption& r : parsed.resolved) values[r.name] = r.value;
    for (const ResolvedOption& r : server.resolved) {
      if (std::find(shared_groups.begin(), shared_groups.end(), r.group) == shared_groups.end()) continue;
      if (program == Program::kBenchRun && r.name == "dtype") continue;  // tested above
      if (program == Program::kBenchLoad && r.name == "seed") continue;  // fresh unless given
      if (program == Program::kSim && r.name == "log-level") continue;   // as the reference simulator's
      EXPECT_EQ(values[r.name], r.value) << program_name(program) << " --" << r.name;
    }
  }
  EXPECT_EQ(resolved(plan(Program::kBenchLoad, {}), "seed"), "auto");
}

TEST(OptionsTest, EveryEngineProgramTakesEveryKvAndSchedulerOption) {
  const Args args = {"--load-format",
                     "dummy",
                     "--skip-tokenizer-init",
                     "--dtype",
                     "float16",
                     "--max-model-len",
                     "512",
                     "--tensor-parallel-size=2",
                     "--data-parallel-size",
                     "1",
                     "--num-blocks",
                     "64",
                     "--kv-cache-memory=1GiB",
                     "--gpu-memory-utilization",
                     "0.5",
                     "--block-size",
                     "32",
                     "--kv-cache-dtype",
                     "fp8",
                     "--device-memory",
                     "80GiB,integrated",
                     "--max-num-seqs",
                     "8",
                     "--max-num-batched-tokens",
                     "256",
                     "--long-prefill-token-threshold",
                     "100",
                     "--no-enable-chunked-prefill",
                     "--no-enable-prefix-caching",
                     "--scheduling-policy",
                     "priority",
                     "--no-reserve-full-isl",
                     "--watermark",
                     "0.25",
                     "--scheduling-depth",
                     "2",
                     "--device",
                     "cpu",
                     "--threads",
                     "3",
                     "--pin-threads",
                     "--enforce-eager",
                     "--seed",
                     "7",
                     "--log-level",
                     "debug",
                     "--log-format",
                     "json"};
  for (const Program program : engines()) {
    const ParsedOptions parsed = plan(program, args);
    const Options& o = parsed.options;
    EXPECT_EQ(o.model.load_format, LoadFormat::kDummy);
    EXPECT_TRUE(o.model.skip_tokenizer_init);
    EXPECT_EQ(o.model.dtype, DType::kF16);
    EXPECT_EQ(o.model.max_model_len, 512);
    EXPECT_EQ(o.parallel.tensor_parallel_size, 2);
    EXPECT_EQ(o.kv.num_blocks, 64);
    EXPECT_EQ(o.kv.kv_cache_memory_bytes, int64_t{1} << 30);
    EXPECT_EQ(o.kv.gpu_memory_utilization, 0.5);
    EXPECT_EQ(o.kv.block_size, 32);
    EXPECT_EQ(o.kv.kv_cache_dtype, KvCacheDType::kFp8);
    ASSERT_TRUE(o.kv.device_memory);
    EXPECT_EQ(o.kv.device_memory->bytes, int64_t{80} << 30);
    EXPECT_TRUE(o.kv.device_memory->integrated);
    EXPECT_EQ(o.scheduler.max_num_seqs, 8);
    EXPECT_EQ(o.scheduler.max_num_batched_tokens, 256);
    EXPECT_EQ(o.scheduler.long_prefill_token_threshold, 100);
    EXPECT_FALSE(o.scheduler.enable_chunked_prefill);
    EXPECT_FALSE(o.scheduler.enable_prefix_caching);
    EXPECT_EQ(o.scheduler.policy, SchedulingPolicy::kPriority);
    EXPECT_FALSE(o.scheduler.reserve_full_isl);
    EXPECT_EQ(o.scheduler.watermark, 0.25);
    EXPECT_EQ(o.scheduler.scheduling_depth, 2);
    EXPECT_EQ(o.runtime.device, DeviceKind::kCpu);
    EXPECT_EQ(o.runtime.threads, 3);
    EXPECT_TRUE(o.runtime.pin_threads);
    EXPECT_TRUE(o.runtime.enforce_eager);
    EXPECT_EQ(o.runtime.log_level, LogLevel::kDebug);
    EXPECT_EQ(o.runtime.log_format, LogFormat::kJson);
    EXPECT_EQ(program == Program::kBenchLoad ? *o.load.seed : o.runtime.seed, 7);
    for (const ResolvedOption& r : parsed.resolved) {
      EXPECT_EQ(parsed.set(r.name), r.source == OptionSource::kCommandLine) << r.name;
    }
  }
}

TEST(OptionsTest, AliasesMeanTheSame) {
  EXPECT_EQ(plan(Program::kBenchRun, {"--kv-cache-memory-bytes", "1048576"}).options.kv.kv_cache_memory_bytes,
            1 << 20);
  EXPECT_EQ(plan(Program::kCli, {"--memory-utilization=0.25"}).options.kv.gpu_memory_utilization, 0.25);
  EXPECT_TRUE(plan(Program::kCli, {"--memory-utilization=0.25"}).set("gpu-memory-utilization"));
  EXPECT_EQ(plan(Program::kBenchLoad, {"--max-concurrency", "4"}).options.load.concurrency, 4);
  const Args check = {"--bench-dir", "b", "--dataset", "d"};
  EXPECT_FALSE(parse(Program::kBenchCheckSchedule, check).options.check_schedule.scheduling_depth);
  for (const char* name : {"--depth", "--scheduling-depth"}) {
    Args args = check;
    args.insert(args.end(), {name, "2"});
    EXPECT_EQ(parse(Program::kBenchCheckSchedule, args).options.check_schedule.scheduling_depth, 2);
  }
}

TEST(OptionsTest, AutoIsAValue) {
  const Args autos = {
      "--num-blocks",     "auto", "--max-model-len=auto", "--threads", "auto",
      "--dtype",          "auto", "--kv-cache-memory",    "auto",      "--gpu-memory-utilization=auto",
      "--kv-cache-dtype", "auto", "--device-memory",      "auto"};
  const ParsedOptions parsed = plan(Program::kServer, autos);
  EXPECT_FALSE(parsed.options.kv.num_blocks);
  EXPECT_FALSE(parsed.options.model.max_model_len);
  EXPECT_FALSE(parsed.options.runtime.threads);
  EXPECT_EQ(resolved(parsed, "num-blocks"), "auto");
  EXPECT_TRUE(parsed.set("num-blocks"));
}

TEST(OptionsTest, PrintPlanTakesItsFormWithAnEqualsSign) {
  EXPECT_EQ(parse(Program::kSim, {"--model", "m", "--print-plan"}).options.runtime.print_plan,
            PrintPlan::kText);
  EXPECT_EQ(parse(Program::kSim, {"--print-plan=text", "--model=m"}).options.runtime.print_plan,
            PrintPlan::kText);
  EXPECT_EQ(parse(Program::kSim, {"--print-plan=json", "--model=m"}).options.runtime.print_plan,
            PrintPlan::kJson);
}

TEST(OptionsTest, PrintPlanWaivesWhatOnlyARunNeeds) {
  EXPECT_TRUE(parse_options(Program::kBenchRun, {"--model", "m", "--print-plan"}).is_ok());
  const auto without_model = parse_options(Program::kBenchRun, {"--print-plan"});
  ASSERT_FALSE(without_model.is_ok());
  EXPECT_THAT(without_model.status().message(), HasSubstr("--model is missing"));
}

TEST(OptionsTest, HelpAndVersionAreAnsweredWhateverElseIsWrong) {
  EXPECT_TRUE(parse(Program::kBenchRun, {"--nonsense", "--help"}).help);
  EXPECT_TRUE(parse(Program::kBenchRun, {"-h"}).help);
  EXPECT_TRUE(parse(Program::kBenchRun, {"--version"}).version);
}

TEST(OptionsTest, EqualRepetitionsAreFine) {
  EXPECT_EQ(plan(Program::kServer, {"--block-size", "32", "--block-size=32"}).options.kv.block_size, 32);
  EXPECT_EQ(plan(Program::kServer, {"--kv-cache-memory", "1GiB", "--kv-cache-memory-bytes", "1073741824"})
                .options.kv.kv_cache_memory_bytes,
            int64_t{1} << 30);
}

TEST(OptionsTest, ValuesMayBeginWithADash) {
  EXPECT_EQ(
      parse(Program::kBenchRun, {"--model", "-m", "--dataset=--d", "--output-dir", "o"}).options.model.model,
      "-m");
  EXPECT_EQ(parse(Program::kBenchRun, {"--model", "-m", "--dataset=--d", "--output-dir", "o"})
                .options.bench_run.dataset,
            "--d");
  EXPECT_EQ(
      parse(Program::kBenchValidate, {"--bench-dir", "a", "--sim-csv", "c", "--sim-log", "l", "--prefix="})
          .options.validate.prefix,
      "");
}

TEST(OptionsTest, ListsCollectTheirValues) {
  const Options o =
      plan(Program::kBenchLoad, {"--goodput", "ttft:500", "tpot:50", "--percentiles", "50,99"}).options;
  EXPECT_EQ(o.load.goodput, (std::vector<std::string>{"ttft:500", "tpot:50"}));
  EXPECT_EQ(o.load.percentiles, (std::vector<double>{50, 99}));
  EXPECT_EQ(parse(Program::kBenchValidate,
                  {"--bench-dir", "a", "--bench-dir", "b", "--sim-csv", "c", "--sim-log", "l"})
                .options.validate.bench_dirs,
            (std::vector<std::string>{"a", "b"}));
}

TEST(OptionsTest, InfinityWhereItHasAMeaning) {
  EXPECT_EQ(parse(Program::kWorkload, {"--output", "f", "--vocab-size", "10", "--rate", "inf"})
                .options.workload.rate,
            std::numeric_limits<double>::infinity());
}

TEST(OptionsTest, SecretsAreNotInTheResolvedList) {
  const ParsedOptions parsed = plan(Program::kServer, {"--api-key", "s3cret"});
  EXPECT_EQ(parsed.options.server.api_key, "s3cret");
  EXPECT_EQ(resolved(parsed, "api-key"), "***");
}

TEST(OptionsTest, ResolvedListsEveryOptionOnceWithItsSource) {
  Options bound;
  const OptionTable table(bound);
  for (const Program program : kAllPrograms) {
    const auto parsed = parse_options(program, {"--version"});
    ASSERT_TRUE(parsed.is_ok());
    const auto declared = table.of(program);
    ASSERT_EQ(parsed->resolved.size(), declared.size());
    for (size_t i = 0; i < declared.size(); ++i) {
      EXPECT_EQ(parsed->resolved[i].name, declared[i]->name);
      EXPECT_EQ(parsed->resolved[i].group, declared[i]->group);
      EXPECT_EQ(parsed->resolved[i].source, OptionSource::kDefault);
    }
  }
}

// What a declaration writes into resolved_config can be given again and means the same.
TEST(OptionsTest, ResolvedValuesReadBack) {
  Options bound;
  const OptionTable table(bound);
  for (const OptionDeclaration& d : table.all()) {
    const std::string value = d.text();
    if (value.empty() || d.shape == OptionShape::kList) continue;
    const Status status = d.assign(value);
    EXPECT_TRUE(status.is_ok()) << d.name << ": " << status.message();
    EXPECT_EQ(d.text(), value) << d.name;
  }
}

TEST(OptionsTest, NamesAreUniqueWithinAProgramAndDeclarationsAreComplete) {
  Options bound;
  const OptionTable table(bound);
  for (const Program program : kAllPrograms) {
    std::map<std::string, int> seen;
    for (const OptionDeclaration* d : table.of(program)) {
      ++seen[d->name];
      for (const std::string& alias : d->aliases) ++seen[alias];
      if (d->shape == OptionShape::kNegatable) ++seen["no-" + d->name];
    }
    for (const auto& [name, count] : seen) EXPECT_EQ(count, 1) << program_name(program) << " --" << name;
  }
  for (const OptionDeclaration& d : table.all()) {
    EXPECT_FALSE(d.help.empty()) << d.name;
    EXPECT_FALSE(d.accepted.empty()) << d.name;
    EXPECT_FALSE(d.group.empty()) << d.name;
    EXPECT_FALSE(d.programs.empty()) << d.name;
    EXPECT_EQ(d.is_flag(), d.value_name.empty()) << d.name;
    EXPECT_TRUE(d.assign && d.text) << d.name;
  }
}

// ---- --config ----

class ConfigFileTest : public ::testing::Test {
 protected:
  ParsedOptions with_file(const std::string& yaml, Args more = {}, Program program = Program::kServer) {
    write_text(dir_ / "e.yaml", yaml);
    Args args = {"--model", "m", "--config", dir_ / "e.yaml"};
    args.insert(args.end(), more.begin(), more.end());
    return parse(program, args);
  }
  TempDir dir_;
};

TEST_F(ConfigFileTest, SetsOptionsByNameOrAliasWithDashesOrUnderscores) {
  const ParsedOptions parsed = with_file(
      "# a comment\nmax_num_seqs: 8\nkv-cache-memory-bytes: 1GiB\nenable_prefix_caching: false\n"
      "watermark: 0.5\ndtype: bfloat16\nnum-blocks: auto\nlog-level: warning\n");
  EXPECT_EQ(parsed.options.scheduler.max_num_seqs, 8);
  EXPECT_EQ(parsed.options.kv.kv_cache_memory_bytes, int64_t{1} << 30);
  EXPECT_FALSE(parsed.options.scheduler.enable_prefix_caching);
  EXPECT_EQ(parsed.options.scheduler.watermark, 0.5);
  EXPECT_EQ(parsed.options.model.dtype, DType::kBF16);
  EXPECT_EQ(parsed.options.runtime.log_level, LogLevel::kWarning);
  for (const ResolvedOption& r : parsed.resolved) {
    if (r.name == "max-num-seqs") {
      EXPECT_EQ(r.source, OptionSource::kConfigFile);
    }
    if (r.name == "block-size") {
      EXPECT_EQ(r.source, OptionSource::kDefault);
    }
    if (r.name == "config") {
      EXPECT_EQ(r.source, OptionSource::kCommandLine);
    }
  }
}

TEST_F(ConfigFileTest, TheCommandLineWins) {
  const ParsedOptions parsed = with_file("block-size: 64\nmax-num-seqs: 8\nenable-prefix-caching: false\n",
                                         {"--block-size", "16", "--enable-prefix-caching"});
  EXPECT_EQ(parsed.options.kv.block_size, 16);  // even where it gives the default
  EXPECT_EQ(parsed.options.scheduler.max_num_seqs, 8);
  EXPECT_TRUE(parsed.options.scheduler.enable_prefix_caching);
  for (const ResolvedOption& r : parsed.resolved) {
    if (r.name == "block-size") {
      EXPECT_EQ(r.source, OptionSource::kCommandLine);
    }
  }
}

TEST_F(ConfigFileTest, ListsAreReplacedNotJoined) {
  EXPECT_EQ(with_file("percentiles: [50, 99]\n", {}, Program::kBenchLoad).options.load.percentiles,
            (std::vector<double>{50, 99}));
  EXPECT_EQ(with_file("percentiles: [50, 99]\n", {"--percentiles", "90"}, Program::kBenchLoad)
                .options.load.percentiles,
            (std::vector<double>{90}));
}

TEST_F(ConfigFileTest, EmptyFilesAreFine) {
  EXPECT_EQ(with_file("").options.kv.block_size, 16);
  EXPECT_EQ(with_file("# nothing\n").options.kv.block_size, 16);
}

TEST_F(ConfigFileTest, MayHoldRequiredOptions) {
  write_text(dir_ / "e.yaml", "model: m\n");
  EXPECT_EQ(parse(Program::kBenchRun, {"--config", dir_ / "e.yaml", "--print-plan"}).options.model.model,
            "m");
}

}  // namespace
}  // namespace vllm
