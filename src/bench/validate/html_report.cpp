#include "bench/validate/html_report.h"

#include <cmath>

#include "base/version.h"
#include "bench/validate/figures.h"
#include "bench/validate/markup.h"

namespace vllm {
namespace {

// Without a noise floor, what the contributors' guide of the reference project takes for a regression.
constexpr double kNear_pct = 5;

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --ink: #23272e; --soft: #5b626d; --line: #e3e6ea; --paper: #ffffff; --box: #f6f7f9;
  --real: #1f6feb; --other: #a9c8f7; --sim: #d9480f; --good: #1b7f3b; --bad: #c92a2a; --mind: #a35c00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #9aa2ad; --line: #343a43; --paper: #16191d;
  --box: #1f242a; --real: #6ea8ff; --other: #33547f; --sim: #ff8a4c; --good: #57c27a; --bad: #ff7b72; --mind: #e3a84a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 28px 24px 60px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 Inter, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
h1 { font-size: 25px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 38px 0 10px; } p { margin: 6px 0; }
.soft { color: var(--soft); } .mono, td.value { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, monospace; font-size: 13px; }
.banner { border-left: 5px solid var(--good); background: var(--box); padding: 10px 16px; margin: 18px 0; border-radius: 4px; }
.banner.bad { border-color: var(--bad); } .banner.mind { border-color: var(--mind); }
.banner b { font-size: 17px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(235px, 1fr)); gap: 14px; }
.card { background: var(--box); border-radius: 8px; padding: 14px 16px; }
.card .big { font-size: 27px; font-weight: 600; } .card h3 { margin: 0; font-size: 14px; color: var(--soft); font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); } .mind { color: var(--mind); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; color: var(--soft); font-weight: 600; font-size: 13px; border-bottom: 2px solid var(--line); }
th, td { padding: 4px 10px; } td { text-align: right; border-bottom: 1px solid var(--line); }
th.l, td.l, td.value { text-align: left; } td.value { overflow-wrap: anywhere; } tr.group td { border-top: 2px solid var(--line); }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 20px; align-items: start; }
@media (max-width: 800px) { .two { grid-template-columns: 1fr; } }
.two table { table-layout: fixed; } details summary { cursor: pointer; color: var(--soft); margin: 8px 0; }
svg.figure { width: 100%; height: auto; margin: 8px 0 18px; display: block; }
svg text { font: 12px Inter, system-ui, sans-serif; fill: var(--ink); } svg text.tic { fill: var(--soft); font-size: 11.5px; }
svg text.label { font-size: 13px; } svg text.title { font-size: 16px; font-weight: 600; } svg text.panel { font-size: 14px; font-weight: 600; }
svg .grid { stroke: var(--line); stroke-width: 1; } svg path { fill: none; stroke-width: 1.9; stroke-linejoin: round; }
svg path.real { stroke: var(--real); } svg path.other { stroke: var(--other); stroke-width: 1.2; }
svg path.sim { stroke: var(--sim); stroke-dasharray: 7 4; } svg path.diagonal { stroke: var(--soft); stroke-width: 1; }
svg circle.pairs { fill: var(--real); fill-opacity: .45; }
)css";

std::string percent(double value) { return std::isnan(value) ? "n/a" : fmt::format("{:+.1f} %", value); }

std::string number(double value, int decimals) {
  return std::isnan(value) ? "n/a" : fmt::format("{:.{}f}", value, decimals);
}

struct Verdict {
  const char* css_class;
  std::string text;
};

Verdict verdict_of(const StatisticComparison& x) {
  if (std::isnan(x.diff_pct)) return {"soft", "cannot be compared"};
  if (x.inside_noise) {
    const std::string distance = x.distance_sd ? fmt::format(" ({:.1f} sd)", *x.distance_sd) : "";
    return *x.inside_noise ? Verdict{"good", "inside the noise" + distance}
                           : Verdict{"bad", "outside the noise" + distance};
  }
  return std::abs(x.diff_pct) <= kNear_pct ? Verdict{"good", fmt::format("within {:.0f} %", kNear_pct)}
                                           : Verdict{"mind", fmt::format("beyond {:.0f} %", kNear_pct)};
}

std::string banner(const char* css_class, const std::string& head, const std::string& body) {
  return fmt::format("<div class=\"banner {}\"><b>{}</b>{}</div>\n", css_class, escaped_markup(head), body);
}

std::string paragraphs(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "<p>" + escaped_markup(line) + "</p>";
  return out;
}

std::string comparability(const Comparison& c) {
  if (!c.refusals.empty()) {
    return banner("bad", "Not comparable; compared by force (--force)", paragraphs(c.refusals));
  }
  std::vector<std::string> open;
  bool differs = false;
  for (const Check& check : c.checks) {
    differs = differs || check.result == CheckResult::kDiffers;
    if (check.result == CheckResult::kUnknown || check.result == CheckResult::kDiffers) {
      open.push_back(check.name + ": " + check.text);
    }
  }
  if (open.empty()) return banner("", "Comparable: every check that could be made is equal", "");
  return banner(differs ? "mind" : "",
                differs ? "Comparable, but the sides differ in part" : "Comparable as far as is known",
                paragraphs(open));
}

// "12 of 15 statistics are inside the noise", and the worst one.
std::string overall(const Comparison& c) {
  int good = 0, all = 0;
  double worst = -1;
  std::string worst_name;
  bool noise = false;
  for (size_t m = 0; m < kNumMetrics; ++m) {
    for (size_t s = 0; s < kNumStatistics; ++s) {
      const StatisticComparison& x = c.metrics[m].statistics[s];
      if (std::isnan(x.diff_pct)) continue;
      ++all;
      noise = noise || x.inside_noise.has_value();
      good += std::string_view(verdict_of(x).css_class) == "good" ? 1 : 0;
      if (std::abs(x.diff_pct) <= worst) continue;
      worst = std::abs(x.diff_pct);
      worst_name = fmt::format("{} {}, {}", metric_name(m), statistic_name(s), percent(x.diff_pct));
    }
  }
  if (all == 0) return banner("mind", "No statistic could be compared", "");
  const std::string what =
      noise ? fmt::format("inside the noise of the recordings ({:.0f} standard deviations)", kNoiseWidth)
            : fmt::format("within {:.0f} %", kNear_pct);
  return banner(good == all ? "" : "mind", fmt::format("{} of {} statistics are {}", good, all, what),
                "<p>Largest difference: " + escaped_markup(worst_name) + "</p>");
}

std::string card(const std::string& head, const std::string& big, const char* css_class,
                 const std::vector<std::string>& lines) {
  std::string out = fmt::format("<div class=\"card\"><h3>{}</h3><div class=\"big {}\">{}</div>",
                                escaped_markup(head), css_class, escaped_markup(big));
  for (const std::string& line : lines) out += "<div class=\"soft\">" + escaped_markup(line) + "</div>";
  return out + "</div>\n";
}

std::string cards(const Comparison& c) {
  std::string out = "<div class=\"cards\">\n";
  for (size_t m = 0; m < kNumMetrics; ++m) {
    const MetricComparison& x = c.metrics[m];
    const StatisticComparison& mean = x.statistics[0];
    const Verdict verdict = verdict_of(mean);
    out += card(fmt::format("{} mean", metric_name(m)), percent(mean.diff_pct), verdict.css_class,
                {fmt::format("{} \u2192 {} ms, {}", number(mean.real, 1), number(mean.sim, 1), verdict.text),
                 fmt::format("KS distance {}{}", number(x.ks, 3),
                             x.real_ks ? fmt::format(" (real against real {})", number(*x.real_ks, 3)) : ""),
                 fmt::format("request by request {} %", number(x.matched.mean_abs_pct, 2))});
  }
  const double real = c.real_load.output_throughput(), sim = c.sim_load.output_throughput();
  const double diff = difference_pct(real, sim);
  if (!std::isnan(diff)) {
    out += card("Output tokens/s", percent(diff), std::abs(diff) <= kNear_pct ? "good" : "mind",
                {fmt::format("{} \u2192 {}", number(real, 1), number(sim, 1)),
                 fmt::format("first arrival to last token {} \u2192 {} s", number(*c.real_load.duration_s, 2),
                             number(*c.sim_load.duration_s, 2))});
  }
  return out + "</div>\n";
}

std::string statistics_table(const Comparison& c, size_t recordings) {
  const bool noise = recordings > 1;
  std::string out =
      "<div class=\"scroll\"><table><tr><th class=\"l\">Metric</th><th>vLLM (ms)</th><th>Sim "
      "(ms)</th><th>Difference</th>";
  if (noise) out += "<th>Real sd</th><th>Real sd %</th><th>Difference / sd</th>";
  out += "<th class=\"l\">Verdict</th></tr>\n";
  for (size_t m = 0; m < kNumMetrics; ++m) {
    for (size_t s = 0; s < kNumStatistics; ++s) {
      const StatisticComparison& x = c.metrics[m].statistics[s];
      const Verdict verdict = verdict_of(x);
      out += fmt::format("<tr{}><td class=\"l\">{} {}</td><td>{}</td><td>{}</td><td>{}</td>",
                         m > 0 && s == 0 ? " class=\"group\"" : "", metric_name(m), statistic_name(s),
                         number(x.real, 1), number(x.sim, 1), percent(x.diff_pct));
      if (noise) {
        out += fmt::format("<td>{}</td><td>{} %</td><td>{}</td>", number(x.real_spread.sd, 2),
                           number(x.real_spread.sd_pct, 1),
                           x.distance_sd ? fmt::format("{:.1f}", *x.distance_sd) : "n/a");
      }
      out +=
          fmt::format("<td class=\"l {}\">{}</td></tr>\n", verdict.css_class, escaped_markup(verdict.text));
    }
  }
  return out + "</table></div>\n";
}

std::string distribution_table(const Comparison& c) {
  std::string out =
      "<div class=\"scroll\"><table><tr><th class=\"l\">Metric</th><th>KS distance</th><th>Requests "
      "matched</th>"
      "<th>Mean |error| (ms)</th><th>Mean |error| %</th><th>Bias (ms)</th></tr>\n";
  const auto row = [&](const std::string& name, double ks, const MatchedError& e, bool with_bias) {
    out += fmt::format(
        "<tr><td class=\"l\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{} %</td><td>{}</td></tr>\n", name,
        number(ks, 3), e.count, number(e.mean_abs, 1), number(e.mean_abs_pct, 2),
        with_bias ? fmt::format("{:+.1f}", e.bias) : "");
  };
  for (size_t m = 0; m < kNumMetrics; ++m) {
    const MetricComparison& x = c.metrics[m];
    row(metric_name(m), x.ks, x.matched, true);
    if (x.real_ks && x.real_matched) {
      row(std::string("<span class=\"soft\">") + metric_name(m) + ", real against real</span>", *x.real_ks,
          *x.real_matched, false);
    }
  }
  return out + "</table></div>\n";
}

const char* check_class(CheckResult result) {
  switch (result) {
    case CheckResult::kGood:
      return "good";
    case CheckResult::kBad:
      return "bad";
    case CheckResult::kDiffers:
      return "mind";
    case CheckResult::kUnknown:
      break;
  }
  return "soft";
}

const char* check_word(CheckResult result) {
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
  return "not known";
}

std::string checks_table(const Comparison& c) {
  std::string out =
      "<table><tr><th class=\"l\">Check</th><th class=\"l\">Result</th><th class=\"l\">What was "
      "found</th></tr>\n";
  for (const Check& check : c.checks) {
    out += fmt::format("<tr><td class=\"l\">{}</td><td class=\"l {}\">{}</td><td class=\"l\">{}</td></tr>\n",
                       escaped_markup(check.name), check_class(check.result), check_word(check.result),
                       escaped_markup(check.text));
  }
  return out + "</table>\n";
}

std::string settings_table(const Comparison& c) {
  std::string out =
      "<table><tr><th class=\"l\">Setting</th><th class=\"l\">Recorded</th><th class=\"l\">Simulated</th><th "
      "class=\"l\"></th></tr>\n";
  for (const AlignedSetting& s : c.settings) {
    out += fmt::format(
        "<tr><td class=\"l\">{}</td><td class=\"value\">{}</td><td class=\"value\">{}</td><td class=\"l "
        "{}\">{}</td></tr>\n",
        escaped_markup(s.name), escaped_markup(s.real), escaped_markup(s.sim), check_class(s.result),
        check_word(s.result));
  }
  return out + "</table>\n";
}

std::string setting_rows(const std::vector<ConfigEntry>& entries) {
  std::string out = "<table>\n";
  for (const ConfigEntry& e : entries) {
    out += fmt::format("<tr><td class=\"value\">{}</td><td class=\"value\">{}</td></tr>\n",
                       escaped_markup(e.key), escaped_markup(e.value));
  }
  return out + "</table>\n";
}

std::string configurations(const RealRun& real, const SimRun& sim) {
  std::vector<ConfigEntry> simulated;
  for (const SimLogSetting& s : sim.log.configuration) simulated.push_back({s.label, s.value});
  for (const SimLogPool& p : sim.log.pools) {
    simulated.push_back(
        {fmt::format("Instance [{}]", p.instance), fmt::format("{} tokens / {} blocks", p.tokens, p.blocks)});
  }
  const std::string missing = "<p class=\"soft\">nothing is known</p>";
  return fmt::format(
      "<details open><summary>All settings of both sides</summary><div "
      "class=\"two\"><div><h3>Recorded</h3>{}</div>"
      "<div><h3>Simulated</h3>{}</div></div></details>\n",
      real.configuration.empty() ? missing : setting_rows(real.configuration),
      simulated.empty() ? missing : setting_rows(simulated));
}

std::string sources(const Comparison& c, const std::vector<RealRun>& real, const SimRun& sim) {
  std::string out = "<p class=\"soft\">";
  for (const RealRun& run : real) {
    std::string about;
    for (const std::string& part : {run.engine, run.model, run.hardware}) {
      if (!part.empty()) about += (about.empty() ? "" : ", ") + part;
    }
    out += fmt::format("Recording <span class=\"mono\">{}</span>{}<br>", escaped_markup(run.dir),
                       about.empty() ? "" : " (" + escaped_markup(about) + ")");
  }
  out +=
      fmt::format("Simulation <span class=\"mono\">{}</span><br>Arrivals: {}, compared by vllm-twin {}</p>\n",
                  escaped_markup(sim.csv_path), anchor_name(c.anchor), version_string());
  return out;
}

std::string definitions(const Comparison& c) {
  const char* anchor = c.anchor == ArrivalAnchor::kPickup
                           ? "the recorded submission, moved to the engine\u2019s clock by the run\u2019s "
                             "smallest queued \u2212 submitted"
                           : "the instant at which the engine took the request into its queue";
  return fmt::format(
      "<p class=\"soft\">TTFT: first token \u2212 arrival. TPOT: (last \u2212 first token) / (output tokens "
      "\u2212 1). Latency: last "
      "token \u2212 arrival. Arrival is {}. Percentiles by linear interpolation. Difference: (sim \u2212 "
      "vLLM) / vLLM. KS: the "
      "largest distance between the two distribution functions. Sd: standard deviation of the recordings (n "
      "\u2212 1). A "
      "recording counts a prompt whole when its prefill ends, a simulation as it is computed, so their "
      "curves of prompt "
      "tokens differ within a few ticks.</p>\n",
      anchor);
}

}  // namespace

std::string html_report(const Comparison& c, const std::vector<RealRun>& real, const SimRun& sim) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, "
      "initial-scale=1\">\n<title>{}</title>\n<style>{}</style></head><body>\n<h1>{}</h1>\n",
      escaped_markup(c.title), kStyle, escaped_markup(c.title));
  out += sources(c, real, sim);
  out += comparability(c) + overall(c) + cards(c);
  if (!c.notes.empty()) out += "<h2>To keep in mind</h2>\n" + paragraphs(c.notes);
  out += "<h2>Over time</h2>\n" + figure_svg(throughput_figure(c, real, sim)) +
         figure_svg(requests_figure(c, real, sim));
  out +=
      "<h2>Distributions</h2>\n" + figure_svg(latency_figure(c)) + figure_svg(pairs_figure(c, real[0], sim));
  out += "<h2>Statistics</h2>\n" + statistics_table(c, real.size());
  out += "<h2>Distributions and matched requests</h2>\n" + distribution_table(c);
  out += "<h2>Checks</h2>\n" + checks_table(c);
  out += "<h2>Configurations</h2>\n" + settings_table(c) + configurations(real[0], sim);
  out += "<h2>Definitions</h2>\n" + definitions(c);
  return out + "</body></html>\n";
}

}  // namespace vllm
