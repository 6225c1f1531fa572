// The log: both committed logs of the reference simulator, line by line, from the values that they show and
// from the recorded sim.csv; and what they do not show, from the specification.

#include "sim/sim_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "config/options.h"
#include "formats/sim_csv.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::shared_path;
using ::testing::StartsWith;

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string after(const std::string& text, const std::string& label) {
  const size_t at = text.find(label);
  if (at == std::string::npos) return "";
  const size_t begin = at + label.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

double value(const std::string& log, const std::string& label) { return std::stod(after(log, label)); }

ParsedOptions options(const std::vector<std::string>& args) {
  auto parsed = parse_options(Program::kSim, args);
  EXPECT_TRUE(parsed.is_ok()) << parsed.status().message();
  return std::move(parsed).value();
}

// The values of a heartbeat that starts at `line`, which is advanced behind it.
Heartbeat parse_heartbeat(const std::vector<std::string>& lines, size_t& line) {
  Heartbeat beat;
  HeartbeatInstance i;
  HeartbeatNode node;
  EXPECT_EQ(std::sscanf(lines[line].c_str(),
                        "[%lfs] Avg prompt throughput: %lf tokens/s, Avg generation throughput: %lf",
                        &beat.end_s, &beat.prompt_tokens_per_s, &beat.generation_tokens_per_s),
            3);
  const std::string& text = lines[line + 1];
  double mb = 0, used = 0, ratio = 0;
  long running = 0, waiting = 0, hits = 0, requested = 0;
  EXPECT_EQ(
      std::sscanf(
          text.c_str() + text.find("Running"),
          "Running Instance[%d]: %ld reqs, Waiting: %ld reqs, Total # %d NPUs, Each NPU Memory Usage %lf MB "
          "(%lf %% Used), Prefix Cache Hit ratio %lf %%, (%ld / %ld)",
          &i.id, &running, &waiting, &i.npus, &mb, &used, &ratio, &hits, &requested),
      9);
  i.running = running;
  i.waiting = waiting;
  i.hit_tokens = hits;
  i.requested_tokens = requested;
  i.used_bytes = static_cast<int64_t>(mb * 1048576);
  i.total_bytes = int64_t{96} << 30;
  node.cpu_total_bytes = int64_t{512} << 30;
  node.instances.push_back(i);
  beat.nodes.push_back(node);
  line += 3;
  return beat;
}

// Name of an example's folder, its dataset and what its run was called.
struct Example {
  const char *name, *dataset, *run_id;
  int64_t tokens, blocks, block_bytes;
};

void compare_whole_log(const Example& e) {
  const std::string base = std::string("reference/examples/RTXPRO6000/") + e.name + "/outputs/";
  const auto log_path = shared_path(base + "sim.log"), csv_path = shared_path(base + "sim.csv");
  if (!log_path || !csv_path) GTEST_SKIP() << "reference data are absent";
  const std::string log = slurp(*log_path);
  std::vector<std::string> lines;
  std::istringstream in(log);
  for (std::string line; std::getline(in, line);) lines.push_back(line);

  const std::string folder = std::string("bench/examples/RTXPRO6000/") + e.name;
  std::string ours =
      sim_log_header(options({"--mode", "compat", "--cluster-config", folder + "/config.json", "--dataset",
                              e.dataset, "--run-id", e.run_id, "--inputs-root",
                              std::string("/app/LLMServingSim/astra-sim/inputs/runs/") + e.run_id}),
                     e.run_id);
  ours += sim_log_start(
      {{0, e.tokens, e.blocks, static_cast<double>(e.blocks * e.block_bytes) / (1 << 30), 0.9}}, {});

  SimResults r;
  for (size_t line = 0; line < lines.size();) {
    if (lines[line][0] != '[') {
      ++line;
      continue;
    }
    const Heartbeat beat = parse_heartbeat(lines, line);
    r.throughput.emplace_back(beat.prompt_tokens_per_s, beat.generation_tokens_per_s);
    ours += sim_log_heartbeat(beat);
  }

  int hours = 0, minutes = 0, seconds = 0, ms = 0;
  ASSERT_EQ(std::sscanf(after(log, "Total simulation time:").c_str(), "%dh %dm %d.%ds", &hours, &minutes,
                        &seconds, &ms),
            4);
  r.wall_ns = (((hours * int64_t{60} + minutes) * 60 + seconds) * 1000 + ms) * 1'000'000;
  r.total_clocks_ns = static_cast<int64_t>(value(log, "Total clocks (ns):"));
  r.requested_prompt_tokens = static_cast<int64_t>(value(log, "Total requested prompt tokens:"));
  r.hit_prompt_tokens = static_cast<int64_t>(value(log, "NPU prefix hit prompt tokens:"));
  r.output_path = folder + "/outputs/sim.csv";
  auto csv = SimCsvReader::open(*csv_path);
  ASSERT_TRUE(csv.is_ok());
  InstanceResults instance;
  while (true) {
    const auto row = csv->next();
    ASSERT_TRUE(row.is_ok());
    if (!*row) break;
    const SimRow& request = **row;
    ++r.total_requests;
    r.input_tokens += request.input_toks;
    r.generated_tokens += request.output_toks;
    instance.ttft_ns.push_back(request.ttft_ns);
    instance.tpot_ns.push_back(request.tpot_ns);
    instance.itl_ns.insert(instance.itl_ns.end(), request.itl_ns.begin(), request.itl_ns.end());
  }
  r.prompt_tokens = r.input_tokens;
  r.instances.push_back(std::move(instance));
  ours += sim_log_results(std::move(r));

  std::istringstream ours_in(ours);
  size_t number = 0;
  for (std::string line; std::getline(ours_in, line); ++number) {
    ASSERT_LT(number, lines.size());
    ASSERT_EQ(line, lines[number]) << "line " << number + 1;
  }
  EXPECT_EQ(ours, log);
}

TEST(SimLogGolden, Llama8B) {
  compare_whole_log({"Llama-3.1-8B", "workloads/sharegpt-llama-3.1-8b-300-sps10.jsonl",
                     "run_1787290904664306_350191", 585248, 36578, 131072 * 16});
}

TEST(SimLogGolden, Qwen32BOnTwo) {
  compare_whole_log({"Qwen3-32B", "workloads/sharegpt-qwen3-32b-300-sps10.jsonl",
                     "run_1787291062360605_355074", 457824, 28614, 131072 * 16});
}

TEST(SimLogTest, NativeSaysWhoseLogItIs) {
  const std::string header = sim_log_header(options({"--host-overhead-us", "12.5"}), "run_1");
  EXPECT_THAT(header, HasSubstr("vllm-sim"));
  EXPECT_THAT(header, ::testing::Not(HasSubstr("LLMServingSim2.0")));
  EXPECT_THAT(header, HasSubstr("  • Mode                       : native\n"));
  EXPECT_THAT(header, HasSubstr("  • Host overhead (us)         : 12.5\n"));
  EXPECT_THAT(header, HasSubstr("  • Pick-up delay (us)         : 0.0\n"));
  EXPECT_THAT(header, HasSubstr("  • Dataset                    : None\n"));
  EXPECT_THAT(
      header,
      HasSubstr("  • Cluster config             : configs/cluster/single_node_single_instance.json\n"));
}

TEST(SimLogTest, NotesStandBeforeTheStart) {
  const std::string start =
      sim_log_start({{0, 16, 1, 0.5, 0.9}, {1, 32, 2, 1, 0.85}}, {"Ignored key nodes[0].colour"});
  EXPECT_THAT(start, HasSubstr("  • Instance [1] : 32 tokens / 2 blocks (1.00 GiB/rank at util 0.85)\n"
                               "  • Ignored key nodes[0].colour\n─"));
  EXPECT_THAT(start, ::testing::EndsWith("▶ Starting simulation...\n\n"));
}

TEST(SimLogTest, HeartbeatOfSeveralInstancesAndNodes) {
  Heartbeat beat;
  beat.end_s = 10;
  beat.nodes.resize(2);
  beat.nodes[1].id = 1;
  HeartbeatInstance i;
  i.total_bytes = 100 << 20;
  i.used_bytes = 25 << 20;
  beat.nodes[0].instances = {i, i};
  beat.nodes[0].instances[1].id = 1;
  i.id = 2;
  i.prefix_caching = false;
  i.requested_tokens = 10;
  beat.nodes[1].instances = {i};
  EXPECT_EQ(sim_log_heartbeat(beat),
            "[10.0s] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s\n"
            "         ├─Running Instance[0]: 0 reqs, Waiting: 0 reqs, Total # 1 NPUs, Each NPU Memory Usage "
            "25.00 MB (25.000 % "
            "Used)\n"
            "         ├─Running Instance[1]: 0 reqs, Waiting: 0 reqs, Total # 1 NPUs, Each NPU Memory Usage "
            "25.00 MB (25.000 % "
            "Used)\n"
            "         ├─Node[0]: Total CPU Memory Usage 0.00 MB, 0.000 % Used (Instance[0]: 0.00 %, "
            "Instance[1]: 0.00 %)\n"
            "         ├─Running Instance[2]: 0 reqs, Waiting: 0 reqs, Total # 1 NPUs, Each NPU Memory Usage "
            "25.00 MB (25.000 % "
            "Used)\n"
            "         └─Node[1]: Total CPU Memory Usage 0.00 MB, 0.000 % Used \n");
}

TEST(SimLogTest, PreemptionsAreShownWhenThereAreAny) {
  SimResults r;
  r.total_clocks_ns = 1'000'000'000;
  EXPECT_THAT(sim_log_results(r), ::testing::Not(HasSubstr("Preemptions")));
  r.preemptions = 194;
  r.recomputed_tokens = 110596;
  const std::string text = sim_log_results(r);
  EXPECT_THAT(text, HasSubstr("Preemptions:" + std::string(56, ' ') + "194\n"));
  EXPECT_THAT(text, HasSubstr("Recomputed prompt tokens (preemption):" + std::string(31, ' ') + "110596\n"));
}

TEST(SimLogTest, NothingFinishedIsNoNumber) {
  SimResults r;
  r.prefix_caching = false;
  r.instances.resize(1);
  r.log_interval_s = 0.1;
  const std::string text = sim_log_results(r);
  EXPECT_THAT(text, HasSubstr("Mean TTFT (ms):" + std::string(53, ' ') + "nan\n"));
  EXPECT_THAT(text, HasSubstr("Request throughput (req/s):" + std::string(41, ' ') + "0.00\n"));
  EXPECT_THAT(text, HasSubstr("Throughput per 0.1 sec ([prompt_throughput], [gen_throughput]): []\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("Prefix Caching Results")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("Saving each request")));
}

TEST(SimLogTest, FloatsAsPythonPrintsThem) {
  EXPECT_EQ(python_float(9069), "9069.0");
  EXPECT_EQ(python_float(0.1), "0.1");
  EXPECT_EQ(python_float(1e16), "1e+16");
}

}  // namespace
}  // namespace vllm
