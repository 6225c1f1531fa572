#include "bench/validate/comparison.h"

#include <functional>

#include "bench/validate/report_text.h"
#include "bench/validate/support.h"
#include "formats/json.h"

namespace vllm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kMeta;
using testing::kSimCsv;
using testing::kSimHeader;
using testing::kSimLog;
using testing::requests_text;
using testing::two_rows;
using testing::ValidateDir;
using testing::write_text;

Comparison compare(const ValidateDir& dir, std::vector<std::string> more = {}, const std::string& root = "") {
  std::vector<RealRun> real;
  more.insert(more.begin(), dir.run());
  for (const std::string& path : more) {
    auto run = read_real_run(path, ArrivalAnchor::kPickup);
    EXPECT_TRUE(run.is_ok()) << run.status().message();
    real.push_back(std::move(*run));
  }
  const auto sim = read_sim_run(dir.csv(), dir.log(), root);
  EXPECT_TRUE(sim.is_ok()) << sim.status().message();
  return compare_runs(real, *sim, ArrivalAnchor::kPickup, "t");
}

std::string further_run(const ValidateDir& dir, const std::vector<testing::Row>& rows,
                        const std::string& meta = kMeta) {
  const std::string path = dir.path("further");
  EXPECT_TRUE(make_directories(path).is_ok());
  write_text(path + "/meta.json", meta);
  write_text(path + "/requests.jsonl", requests_text(rows));
  write_text(path + "/timeseries.csv", testing::kTimeseries);
  return path;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Real: TTFT 1000, 1000; TPOT 1000; latency 3000, 1000. Sim: TTFT 1100, 600; TPOT 1100, 0; latency 3300, 600.
TEST(Comparison, StatisticsByHand) {
  const ValidateDir dir;
  const Comparison c = compare(dir);
  EXPECT_THAT(c.refusals, IsEmpty());
  const auto& ttft = c.metrics[0];
  EXPECT_DOUBLE_EQ(ttft.statistics[0].real, 1000);
  EXPECT_DOUBLE_EQ(ttft.statistics[0].sim, 850);
  EXPECT_DOUBLE_EQ(ttft.statistics[0].diff_pct, -15);
  EXPECT_DOUBLE_EQ(ttft.statistics[1].sim, 850);   // median of two
  EXPECT_DOUBLE_EQ(ttft.statistics[2].sim, 1050);  // 600 + 0.9 * 500
  EXPECT_DOUBLE_EQ(ttft.ks, 0.5);
  EXPECT_EQ(ttft.matched.count, 2);
  EXPECT_DOUBLE_EQ(ttft.matched.mean_abs, 250);     // 100 and 400
  EXPECT_DOUBLE_EQ(ttft.matched.mean_abs_pct, 25);  // 10 % and 40 %
  EXPECT_DOUBLE_EQ(ttft.matched.bias, -150);
  // The known summary counts the simulator's 0 for one token; distribution and pairs do not.
  const auto& tpot = c.metrics[1];
  EXPECT_DOUBLE_EQ(tpot.statistics[0].real, 1000);
  EXPECT_DOUBLE_EQ(tpot.statistics[0].sim, 550);
  EXPECT_EQ(tpot.matched.count, 1);
  EXPECT_DOUBLE_EQ(tpot.matched.mean_abs, 100);
  EXPECT_DOUBLE_EQ(tpot.ks, 1);
  const auto& latency = c.metrics[2];
  EXPECT_DOUBLE_EQ(latency.statistics[0].diff_pct, -2.5);  // 2000 and 1950
  EXPECT_FALSE(latency.statistics[0].inside_noise.has_value());
  EXPECT_DOUBLE_EQ(*c.real_load.duration_s, 3);
  EXPECT_DOUBLE_EQ(*c.sim_load.duration_s, 3.3);
  EXPECT_DOUBLE_EQ(c.real_load.output_throughput(), 4.0 / 3);
}

TEST(Comparison, TheSummaryIsLaidOutAsKnown) {
  const ValidateDir dir;
  const std::string text = summary_text(compare(dir));
  EXPECT_TRUE(
      text.starts_with("Metric                           vLLM         Sim     Diff%\n"
                       "-----------------------------------------------------------\n"
                       "TTFT Mean                      1000.0       850.0    -15.0%\n"))
      << text;
  EXPECT_THAT(text, HasSubstr("TTFT P99                       1000.0      1095.0     +9.5%\n\nTPOT Mean"));
  EXPECT_EQ(text.back(), '\n');
  EXPECT_NE(text[text.size() - 2], '\n');
}

TEST(Comparison, SeveralRecordingsGiveTheNoiseFloor) {
  const ValidateDir dir;
  auto rows = two_rows();
  rows[0].last = 5.4;  // latency 3400: means 2000 and 2200, sd sqrt(2 * 100^2) = 141.42
  const Comparison c = compare(dir, {further_run(dir, rows)});
  const StatisticComparison& mean = c.metrics[2].statistics[0];
  EXPECT_NEAR(mean.real, 2100, 1e-9);
  EXPECT_NEAR(mean.real_spread.sd, 141.42, 0.01);
  EXPECT_NEAR(mean.real_spread.sd_pct, 6.734, 0.001);
  EXPECT_NEAR(*mean.distance_sd, 150 / 141.42, 1e-3);
  EXPECT_TRUE(*mean.inside_noise);
  const StatisticComparison& ttft = c.metrics[0].statistics[0];
  EXPECT_DOUBLE_EQ(ttft.real_spread.sd, 0);
  EXPECT_FALSE(ttft.distance_sd.has_value());
  EXPECT_FALSE(*ttft.inside_noise) << "no spread at all, and a difference";
  EXPECT_DOUBLE_EQ(*c.metrics[2].real_ks, 0.5);
  EXPECT_NEAR(c.metrics[2].real_matched->mean_abs, 200, 1e-9);
  EXPECT_THAT(comparison_report(c, 2), AllOf(HasSubstr("How far 2 recordings differ"), HasSubstr("OUTSIDE"),
                                             HasSubstr("inside"), HasSubstr("real against real")));
}

std::vector<std::string> refusals(const std::function<void(ValidateDir&)>& change) {
  ValidateDir dir;
  change(dir);
  return compare(dir).refusals;
}

TEST(Comparison, BlockCountsMustBeEqualWhereBothAreKnown) {
  EXPECT_THAT(
      refusals([](ValidateDir& d) { write_text(d.log(), replaced(kSimLog, "100 blocks", "99 blocks")); }),
      ElementsAre(HasSubstr("had 100 KV blocks, the simulator 99")));
  EXPECT_THAT(refusals([](ValidateDir& d) { write_text(d.log(), replaced(kSimLog, ": 16\n", ": 32\n")); }),
              ElementsAre(HasSubstr("had KV blocks of 16 tokens, the simulator of 32")));
  // Two engines with pools of their own, and capacities that are not known.
  const std::string per_engine =
      replaced(kMeta, R"("num_gpu_blocks": 100, "block_size": 16)",
               R"("capacity": {"status": "complete", "per_engine": [{"num_gpu_blocks": 100, "block_size": 16},
                  {"num_gpu_blocks": 90, "block_size": 16}]})");
  EXPECT_THAT(refusals([&](ValidateDir& d) { d.write("meta.json", per_engine); }),
              ElementsAre(HasSubstr("had 90 and 100 KV blocks, the simulator 100")));
  EXPECT_THAT(refusals([](ValidateDir& d) { d.write("meta.json", R"({"tick_seconds": 1})"); }), IsEmpty());
  EXPECT_THAT(
      refusals([](ValidateDir& d) {
        d.write("meta.json",
                R"({"num_gpu_blocks": 70, "block_size": 16, "engine_kwargs": {"data_parallel_size": 2}})");
      }),
      IsEmpty())
      << "a sum over two engines is nobody's pool";
}

TEST(Comparison, OneRecordingWithTheSimulatorsPoolIsEnough) {
  const ValidateDir dir;
  const std::string other = replaced(kMeta, "\"num_gpu_blocks\": 100", "\"num_gpu_blocks\": 101");
  const Comparison c = compare(dir, {further_run(dir, two_rows(), other)});
  EXPECT_THAT(c.refusals, IsEmpty());
  EXPECT_THAT(c.notes, ElementsAre(HasSubstr("had 101 KV blocks, the simulator 100")));
}

TEST(Comparison, TokensAndRequestsMustBeEqual) {
  EXPECT_THAT(
      refusals([](ValidateDir& d) { write_text(d.csv(), replaced(kSimCsv, "0,1,m,20,1", "0,1,m,21,1")); }),
      ElementsAre(AllOf(HasSubstr("has 30 input and 4 output tokens"),
                        HasSubstr("has 31 and 4: not the same workload"))));
  EXPECT_THAT(refusals([](ValidateDir& d) { write_text(d.csv(), kSimCsv.substr(0, kSimCsv.find("0,0,m"))); }),
              ElementsAre(HasSubstr("has 2 requests"), HasSubstr("not the same workload")));
}

TEST(Comparison, DatasetHashesMustBeEqualWhereBothAreKnown) {
  ValidateDir dir;
  write_text(dir.path("w.jsonl"), "abc");
  write_text(dir.log(), "  \u2022 Dataset : elsewhere/w.jsonl\n" + kSimLog);
  EXPECT_THAT(compare(dir).refusals, IsEmpty()) << "not found: not known";
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_THAT(compare(dir, {}, dir.path("")).refusals,
              ElementsAre(AllOf(HasSubstr("replayed a dataset with SHA-256 ab12"), HasSubstr(abc))));
  dir.write("meta.json", replaced(kMeta, "AB12", abc));
  EXPECT_THAT(compare(dir, {}, dir.path("")).refusals, IsEmpty());
  EXPECT_THAT(compare(dir, {further_run(dir, two_rows())}).refusals,
              ElementsAre(HasSubstr("replayed a dataset with SHA-256 ba7816")));
}

TEST(Comparison, ARefusalOfTheRecordingComesFirst) {
  EXPECT_THAT(refusals([](ValidateDir& d) {
                d.write("meta.json", replaced(kMeta, "\"model\"", "\"diagnostic\": \"paced\", \"model\""));
                write_text(d.log(), replaced(kSimLog, "100 blocks", "99 blocks"));
              }),
              ElementsAre(HasSubstr("paced"), HasSubstr("KV blocks")));
}

TEST(Comparison, ForcedOutputsCarryTheReasons) {
  const ValidateDir dir;
  write_text(dir.log(), replaced(kSimLog, "100 blocks", "99 blocks"));
  const Comparison c = compare(dir);
  EXPECT_THAT(summary_text(c), HasSubstr("\n\nNOT COMPARABLE (--force): "));
  const auto run = read_real_run(dir.run(), ArrivalAnchor::kPickup);
  const auto sim = read_sim_run(dir.csv(), dir.log(), "");
  const Json json = summary_json(c, {*run}, *sim);
  EXPECT_EQ(json["forced"], true);
  EXPECT_EQ(json["refusals"].size(), 1u);
  EXPECT_EQ(json["ttft_ms"]["mean"]["diff_pct"], -15);
}

TEST(Comparison, OtherArrivalsAndSettingsAreNoted) {
  ValidateDir dir;
  auto rows = two_rows();
  rows[1] = {20, 1, 1000003, 5.5, 6, 6, 6};
  dir.write("requests.jsonl", requests_text(rows));
  write_text(dir.log(), replaced(kSimLog, ": 128", ": 64"));
  EXPECT_THAT(compare(dir).notes,
              ElementsAre(HasSubstr("arrivals of the same request differ by up to 2.000 s"),
                          HasSubstr("Requests at once, at most: 128 recorded, 64 simulated")));
}

TEST(SimRun, MalformedSimulations) {
  const ValidateDir dir;
  const auto error = [&](const std::string& csv) {
    write_text(dir.csv(), csv);
    return read_sim_run(dir.csv(), dir.log(), "").status().message();
  };
  EXPECT_THAT(error(kSimCsv + "0,1,m,20,1,0,1,1,0,1,0,[]\r\n"), HasSubstr("sim.csv: request 1 occurs twice"));
  EXPECT_THAT(error(kSimHeader), HasSubstr("sim.csv: has no requests"));
  EXPECT_THAT(error(kSimHeader + "0,0,m,9223372036854775807,1,0,1,1,0,1,0,[]\n0,1,m,1,1,0,1,1,0,1,0,[]\n"),
              HasSubstr("sim.csv:3: the tokens of the requests sum up"));
  EXPECT_THAT(error(kSimHeader + "0,0,m,1,1,0,1,x,0,1,0,[]\n"), HasSubstr("sim.csv:2: 'latency' is 'x'"));
}

}  // namespace
}  // namespace vllm
