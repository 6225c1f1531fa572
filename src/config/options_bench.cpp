// The options of vllm-bench's own: run, check-schedule, validate and the load mode.

#include <algorithm>

#include "config/option_table.h"

namespace vllm {
namespace {

ProgramSet one(Program p) { return ProgramSet{p}; }

// "ttft:500": a metric that an objective may be set for and its limit in milliseconds.
Status check_goodput(std::string_view text) {
  static const std::vector<std::string> kMetrics = {"ttft", "tpot", "e2el"};
  const std::string accepted = "metric:milliseconds with ttft, tpot or e2el, like ttft:500";
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return usage_error("'{}' has no limit; accepted is {}", text, accepted);
  const std::string metric(text.substr(0, colon));
  if (std::find(kMetrics.begin(), kMetrics.end(), metric) == kMetrics.end()) {
    return usage_error("'{}' names an unknown metric; accepted is {}", text, accepted);
  }
  return parse_number_option(text.substr(colon + 1), {.min = 0, .above_min = true}, accepted).status();
}

// The words of a list: separated by spaces or commas.
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : std::string(text) + " ") {
    if (c != ' ' && c != ',') {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::move(word));
      word.clear();
    }
  }
  return out;
}

void declare_run(OptionTable& t, Options& o) {
  const ProgramSet run = one(Program::kBenchRun);
  const ProgramSet run_and_load = run | one(Program::kBenchLoad);
  BenchRunOptions& b = o.bench_run;
  t.group("Replay");
  t.text("dataset", b.dataset, "FILE", "the path of a workload file (JSON lines)", run,
         "The workload: one request a line with input_tok_ids, output_toks and arrival_time_ns. It is "
         "replayed as it "
         "is, never changed.")
      .required_by(run);
  t.text("output-dir", b.output_dir, "DIR", "the path of a folder that holds no run yet", run,
         "Where meta.json, requests.jsonl, timeseries.csv and the plots go. It is made; a folder that "
         "already holds a "
         "run is refused.")
      .required_by(run);
  t.integer("num-reqs", b.num_reqs, {0}, run, "Replay only the first N requests of the dataset. 0: all.");
  t.number("speed", b.speed, {.min = 0, .max = 1e6, .above_min = true}, run,
           "Compress the arrivals: 2 issues them in half the time. It raises the load; lengths stay.");
  t.choice("on-session", b.on_session,
           Choices<SessionPolicy>{{"skip", SessionPolicy::kSkip}, {"replay", SessionPolicy::kReplay}}, run,
           "What to do with rows that hold a session of several calls: leave them out (they are counted), or "
           "release "
           "each call when the one before it is done and its tool time is over.");
  t.integer(
      "warmup", b.warmup, {0, 10000}, run,
      "Requests of our own before the first one counts; then caches and counters are reset. They are in no "
      "file.");
  t.flag("resolve-only", b.resolve_only, run,
         "Load, plan, write meta.json and end: no request is issued. For matching a simulator to the real "
         "pool.");
  t.flag("null-executor", b.null_executor, run,
         "Answer at once in place of computing: measures what replaying and scheduling themselves cost.");
  t.group("Recording");
  // Rows say their time in milliseconds.
  t.number("tick-seconds", b.tick_seconds, {.min = 0.001, .max = 86400}, run,
           "Time between rows of timeseries.csv. Smaller shows more and writes more.");
  t.flag("record-steps", b.record_steps, run,
         "Write every step that was planned, with its times (steps.bin): enough to rebuild each decision.");
  t.flag("record-itl", b.record_itl, run,
         "Add the time of every token (itl_s) to requests.jsonl. Large files.");
  t.flag(
      "record-gate-stats", b.record_gate_stats, run,
      "Count the distinct experts of each step of a mixture-of-experts model. No such model can run in this "
      "build.");
  t.flag("no-plots", b.no_plots, run | one(Program::kBenchValidate), "Draw nothing: no PNG and SVG files.");
  t.group("Remote");
  t.text("base-url", b.base_url, "URL", "an address like http://127.0.0.1:8000", run_and_load,
         "Send the requests over HTTP to this server in place of an engine of our own. Not in this build.");
  t.text("api-key", b.api_key, "KEY", "the server's key", run_and_load,
         "Key that --base-url asks for. Not in this build.")
      .keep_secret();
  t.integer("max-connections", b.max_connections, {0, 65536}, run_and_load,
            "Connections to --base-url at once; further requests wait. 0: no limit. Not in this build.");
}

void declare_check_schedule(OptionTable& t, Options& o) {
  const ProgramSet check = one(Program::kBenchCheckSchedule);
  CheckScheduleOptions& c = o.check_schedule;
  t.group("Recording to check");
  t.text("bench-dir", c.bench_dir, "DIR", "a folder with meta.json and a step log", check,
         "The recorded run: meta.json, requests.jsonl and a step log (steps.jsonl.gz, steps.jsonl or "
         "steps.bin).")
      .required_by(check);
  t.text("dataset", c.dataset, "FILE", "the path of a workload file (JSON lines)", check,
         "The workload that was recorded, for the tokens of its prompts.")
      .required_by(check);
  OptionDeclaration& d =
      t.integer_or_auto("scheduling-depth", c.scheduling_depth, {1, 2, "1 or 2"}, check,
                        "Steps that were planned ahead in the recording; auto is what it says.");
  d.alias("depth");
  d.value_name = "auto|1|2";
  t.integer("max-deviations", c.max_deviations, {0, 1000000}, check,
            "How many of the first deviations are printed. All are counted.");
}

void declare_validate(OptionTable& t, Options& o) {
  const ProgramSet validate = one(Program::kBenchValidate);
  ValidateOptions& v = o.validate;
  t.group("Validation");
  OptionDeclaration& dirs =
      t.add("bench-dir", OptionShape::kList, validate,
            "A finished run's folder. Given several times, how far real runs differ from each "
            "other is reported as the noise floor.");
  dirs.required_by(validate);
  dirs.value_name = "DIR...";
  dirs.accepted = "a folder with a finished run";
  dirs.assign = [&v](std::string_view text) -> Status {
    if (text.empty()) return usage_error("'' is empty; accepted is a folder with a finished run");
    v.bench_dirs.emplace_back(text);
    return Status::ok();
  };
  dirs.clear = [&v] { v.bench_dirs.clear(); };
  dirs.text = [&v] { return fmt::format("{}", fmt::join(v.bench_dirs, " ")); };
  t.text("sim-csv", v.sim_csv, "FILE", "the simulator's per-request CSV", validate,
         "The simulator's per-request file of the same workload.")
      .required_by(validate);
  t.text("sim-log", v.sim_log, "FILE", "the simulator's log", validate,
         "The simulator's log, for its running and waiting counts over time.")
      .required_by(validate);
  t.text("output-subdir", v.output_subdir, "NAME", "the name of a folder", validate,
         "Folder below --bench-dir that plots and summary go to.");
  OptionDeclaration& prefix = t.text("prefix", v.prefix, "TEXT", "the beginning of file names", validate,
                                     "Begins the names of the written files; empty is allowed.");
  prefix.assign = [&v](std::string_view text) {
    v.prefix = std::string(text);
    return Status::ok();
  };
  t.text("title", v.title, "TEXT", "a title", validate, "Ends the titles of the plots.");
  t.text(
      "workloads-root", v.workloads_root, "DIR", "a folder with workload files", validate,
      "Where the dataset that the simulator's log names is looked up by its file name, if it is not at its "
      "path; its hash is compared with the recorded one.");
  t.choice("arrival-anchor", v.arrival_anchor,
           Choices<ArrivalAnchor>{{"pickup", ArrivalAnchor::kPickup}, {"queued", ArrivalAnchor::kQueued}},
           validate,
           "How the workload's arrivals are put on the engine's clock: by the smallest gap between arrival "
           "and queue of "
           "the run (pickup), or by each request's queue time, as older summaries did.");
  t.flag("force", v.force, validate,
         "Compare although a check says that the two runs do not belong together.");
}

void declare_load(OptionTable& t, Options& o) {
  const ProgramSet load = one(Program::kBenchLoad);
  LoadOptions& l = o.load;
  t.group("Load");
  t.text("dataset-path", l.dataset_path, "FILE", "the path of a ShareGPT JSON or a workload file", load,
         "Prompts from this file; without it they are random tokens.");
  t.integer("num-prompts", l.num_prompts, {1}, load, "Requests to send.");
  t.integer("input-len", l.input_len, {1}, load,
            "Tokens of a random prompt. Longer costs more prefill and more blocks.");
  t.integer("output-len", l.output_len, {1}, load, "Tokens that each request asks for.");
  t.integer_or_auto(
       "concurrency", l.concurrency, {1, 1 << 20}, load,
       "Requests in flight at once; further ones wait in the client, and that wait is reported. auto: no "
       "limit. Without a KV option the pool moves with it.")
      .alias("max-concurrency");
  t.number("request-rate", l.request_rate, {.min = 0, .above_min = true, .infinity = true}, load,
           "Mean arrivals a second; inf sends all at once.");
  t.number("burstiness", l.burstiness, {.min = 0, .above_min = true}, load,
           "Shape of the gaps between arrivals: 1 is Poisson, smaller comes in bursts, larger is more even.");
  t.number("temperature", l.temperature, {.min = 0, .max = 100}, load,
           "Randomness of sampling; 0 takes the likeliest token.");
  t.flag("ignore-eos", l.ignore_eos, load,
         "Go on to --output-len past an end token. Always on for random prompts.");
  t.integer("num-warmups", l.num_warmups, {0, 10000}, load,
            "Requests before the measured ones; they are in no number.");
  OptionDeclaration& goodput =
      t.add("goodput", OptionShape::kList, load,
            "Limits in milliseconds, like ttft:500 tpot:50: requests that keep all of them are "
            "counted as goodput.");
  goodput.value_name = "METRIC:MS...";
  goodput.accepted = "metric:milliseconds with ttft, tpot or e2el, like ttft:500";
  goodput.assign = [&l](std::string_view text) -> Status {
    for (const std::string& word : words(text)) {
      VLLM_RETURN_IF_ERROR(check_goodput(word));
      l.goodput.push_back(word);
    }
    return Status::ok();
  };
  goodput.clear = [&l] { l.goodput.clear(); };
  goodput.text = [&l] { return fmt::format("{}", fmt::join(l.goodput, " ")); };
  OptionDeclaration& percentiles =
      t.add("percentiles", OptionShape::kList, load, "Percentiles that the report shows.");
  percentiles.value_name = "P...";
  percentiles.accepted = "numbers above 0 and below 100, like 50,90,99";
  percentiles.assign = [&l, accepted = percentiles.accepted](std::string_view text) -> Status {
    for (const std::string& word : words(text)) {
      const NumberRange range = {.min = 0, .max = 100, .above_min = true, .below_max = true};
      VLLM_ASSIGN_OR_RETURN(const double value, parse_number_option(word, range, accepted));
      l.percentiles.push_back(value);
    }
    return Status::ok();
  };
  percentiles.clear = [&l] { l.percentiles.clear(); };
  percentiles.text = [&l] { return fmt::format("{}", fmt::join(l.percentiles, ",")); };
  t.text("output-json", l.output_json, "FILE", "the path of a file", load, "Write the report as JSON, too.");
  t.integer_or_auto("seed", l.seed, {0}, load,
                    "Seed of prompts, arrivals and sampling. auto: fresh for each run, and saved.");
}

}  // namespace

void OptionTable::declare_bench(Options& options) {
  declare_run(*this, options);
  declare_check_schedule(*this, options);
  declare_validate(*this, options);
  declare_load(*this, options);
}

}  // namespace vllm
