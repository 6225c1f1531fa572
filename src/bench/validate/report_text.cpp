#include "bench/validate/report_text.h"

#include <cmath>

#include "formats/json.h"

namespace vllm {
namespace {

// "+0.6%": the sign also of what rounds to zero.
std::string percent(double value) { return fmt::format("{:+.1f}%", value); }

std::string row_name(size_t metric, size_t statistic) {
  return fmt::format("{} {}", metric_name(metric), statistic_name(statistic));
}

std::string noise_table(const Comparison& c, size_t recordings) {
  std::string out = fmt::format(
      "\nHow far {} recordings differ from each other (vLLM above is their mean; inside: within {} standard "
      "deviations)\n{:<25}{:>12}{:>12}{:>10}{:>10}  {}\n{}\n",
      recordings, kNoiseWidth, "Metric", "vLLM sd", "sd%", "Diff%", "Diff/sd", "Simulator",
      std::string(80, '-'));
  for (size_t m = 0; m < kNumMetrics; ++m) {
    for (size_t s = 0; s < kNumStatistics; ++s) {
      const StatisticComparison& x = c.metrics[m].statistics[s];
      out += fmt::format("{:<25}{:>12.2f}{:>11.1f}%{:>10}{:>10}  {}\n", row_name(m, s), x.real_spread.sd,
                         x.real_spread.sd_pct, percent(x.diff_pct),
                         x.distance_sd ? fmt::format("{:.1f}", *x.distance_sd) : "-",
                         !x.inside_noise   ? "-"
                         : *x.inside_noise ? "inside"
                                           : "OUTSIDE");
    }
  }
  return out;
}

std::string distribution_table(const Comparison& c, size_t recordings) {
  std::string out = fmt::format("\n{:<25}{:>8}{:>10}{:>12}{:>10}{:>14}\n{}\n", "Request by request", "KS",
                                "matched", "|error| ms", "|error|%", "bias ms", std::string(79, '-'));
  for (size_t m = 0; m < kNumMetrics; ++m) {
    const MetricComparison& x = c.metrics[m];
    out += fmt::format("{:<25}{:>8.3f}{:>10}{:>12.1f}{:>9.2f}%{:>+14.1f}\n", metric_name(m), x.ks,
                       x.matched.count, x.matched.mean_abs, x.matched.mean_abs_pct, x.matched.bias);
    if (recordings > 1 && x.real_ks && x.real_matched) {
      out += fmt::format("{:<25}{:>8.3f}{:>10}{:>12.1f}{:>9.2f}%\n", "  real against real", *x.real_ks,
                         x.real_matched->count, x.real_matched->mean_abs, x.real_matched->mean_abs_pct);
    }
  }
  return out;
}

std::string load_line(const Comparison& c) {
  if (!c.real_load.duration_s || !c.sim_load.duration_s) return {};
  const double real = c.real_load.output_throughput(), sim = c.sim_load.output_throughput();
  return fmt::format(
      "\nFirst arrival to last token: vLLM {:.2f} s, sim {:.2f} s ({}); output tokens/s: vLLM {:.1f}, sim "
      "{:.1f} "
      "({})\n",
      *c.real_load.duration_s, *c.sim_load.duration_s,
      percent(difference_pct(*c.real_load.duration_s, *c.sim_load.duration_s)), real, sim,
      percent(difference_pct(real, sim)));
}

Json error_json(const MatchedError& e) {
  return Json{
      {"count", e.count}, {"mean_abs_ms", e.mean_abs}, {"mean_abs_pct", e.mean_abs_pct}, {"bias_ms", e.bias}};
}

Json statistic_json(const StatisticComparison& x) {
  Json out{{"real", x.real}, {"sim", x.sim}, {"diff_pct", x.diff_pct}};
  if (x.real_spread.count > 1) {
    out["real_sd"] = x.real_spread.sd;
    out["real_sd_pct"] = x.real_spread.sd_pct;
    out["distance_sd"] = x.distance_sd ? Json(*x.distance_sd) : Json();
    out["inside_noise"] = x.inside_noise ? Json(*x.inside_noise) : Json();
  }
  return out;
}

Json metric_json(const MetricComparison& x) {
  Json out = Json::object();
  for (size_t s = 0; s < kNumStatistics; ++s) out[statistic_key(s)] = statistic_json(x.statistics[s]);
  out["ks_distance"] = x.ks;
  out["matched"] = error_json(x.matched);
  if (x.real_ks) out["real_ks_distance"] = *x.real_ks;
  if (x.real_matched) out["real_matched"] = error_json(*x.real_matched);
  return out;
}

Json load_json(const LoadFigures& load) {
  return Json{{"requests", load.requests},
              {"input_tokens", load.input_toks},
              {"output_tokens", load.output_toks},
              {"duration_s", load.duration_s ? Json(*load.duration_s) : Json()},
              {"output_throughput", load.output_throughput()}};
}

const char* check_key(CheckResult result) {
  switch (result) {
    case CheckResult::kGood:
      return "equal";
    case CheckResult::kBad:
      return "refused";
    case CheckResult::kDiffers:
      return "differs";
    case CheckResult::kUnknown:
      break;
  }
  return "unknown";
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json run_json(const RealRun& run) {
  Json blocks;
  for (const EngineCapacity& engine : run.capacity.engines) blocks.push_back(engine.num_blocks);
  return Json{{"dir", run.dir},
              {"engine", text_or_null(run.engine)},
              {"model", text_or_null(run.model)},
              {"hardware", text_or_null(run.hardware)},
              {"dataset", text_or_null(run.dataset_path)},
              {"dataset_hash", text_or_null(run.dataset_hash)},
              {"kv_blocks_per_engine", blocks},
              {"requests_without_stamps", run.without_stamps},
              {"timeseries", run.timeseries_derived ? "derived from requests.jsonl" : "recorded"}};
}

Json sim_json(const SimRun& sim) {
  Json blocks;
  for (const SimLogPool& pool : sim.log.pools) blocks.push_back(pool.blocks);
  return Json{{"csv", sim.csv_path},
              {"log", sim.log_path},
              {"model", text_or_null(sim.model)},
              {"dataset", text_or_null(sim.dataset_path)},
              {"dataset_hash", text_or_null(sim.dataset_hash)},
              {"kv_blocks_per_instance", blocks}};
}

}  // namespace

std::string summary_text(const Comparison& c) {
  std::string out =
      fmt::format("{:<25}{:>12}{:>12}{:>10}\n{}\n", "Metric", "vLLM", "Sim", "Diff%", std::string(59, '-'));
  for (size_t m = 0; m < kNumMetrics; ++m) {
    if (m > 0) out += '\n';
    for (size_t s = 0; s < kNumStatistics; ++s) {
      const StatisticComparison& x = c.metrics[m].statistics[s];
      out += fmt::format("{:<25}{:>12.1f}{:>12.1f}{:>+9.1f}%\n", row_name(m, s), x.real, x.sim, x.diff_pct);
    }
  }
  if (!c.refusals.empty()) out += '\n';
  for (const std::string& why : c.refusals) out += "NOT COMPARABLE (--force): " + why + "\n";
  return out;
}

std::string comparison_report(const Comparison& c, size_t recordings) {
  std::string out = summary_text(c);
  if (recordings > 1) out += noise_table(c, recordings);
  out += distribution_table(c, recordings);
  out += load_line(c);
  if (!c.notes.empty()) out += '\n';
  for (const std::string& note : c.notes) out += "note: " + note + "\n";
  return out;
}

Json summary_json(const Comparison& c, const std::vector<RealRun>& real, const SimRun& sim) {
  Json out{
      {"schema_version", 1},           {"title", c.title},       {"arrival_anchor", anchor_name(c.anchor)},
      {"forced", !c.refusals.empty()}, {"refusals", c.refusals}, {"notes", c.notes}};
  for (size_t m = 0; m < kNumMetrics; ++m) out[metric_key(m)] = metric_json(c.metrics[m]);
  out["load"] = Json{{"real", load_json(c.real_load)}, {"sim", load_json(c.sim_load)}};
  Json checks = Json::array();
  for (const Check& check : c.checks) {
    checks.push_back(Json{{"name", check.name}, {"result", check_key(check.result)}, {"text", check.text}});
  }
  out["checks"] = checks;
  Json settings = Json::array();
  for (const AlignedSetting& s : c.settings) {
    settings.push_back(Json{{"name", s.name},
                            {"real", text_or_null(s.real)},
                            {"sim", text_or_null(s.sim)},
                            {"result", check_key(s.result)}});
  }
  out["settings"] = settings;
  Json runs = Json::array();
  for (const RealRun& run : real) runs.push_back(run_json(run));
  out["real_runs"] = runs;
  out["simulation"] = sim_json(sim);
  return out;
}

}  // namespace vllm
