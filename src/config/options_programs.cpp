// Options of every program (runtime, logging) and of the server and the workload generator.

#include "config/option_table.h"

namespace vllm {
namespace {

void declare_server(OptionTable& t, Options& o) {
  const ProgramSet server = {Program::kServer};
  t.group("Server");
  t.text("host", o.server.host, "ADDRESS", "an address or a host name", server,
         "Address to listen on. 0.0.0.0 answers the whole network; mind --api-key then.");
  t.integer("port", o.server.port, {0, 65535}, server,
            "Port to listen on. 0: any free one, which is printed.");
  t.text("served-model-name", o.server.served_model_name, "NAME", "a name", server,
         "Name of the model in the API.")
      .note("the last part of --model");
  t.text("api-key", o.server.api_key, "KEY", "a key", server, "Key that clients must send.")
      .note("none is asked for")
      .keep_secret();
}

void declare_workload(OptionTable& t, Options& o) {
  const ProgramSet workload = {Program::kWorkload};
  WorkloadOptions& w = o.workload;
  t.group("Workload");
  t.text("output", w.output, "FILE", "the path of a file to write", workload,
         "The workload file to write (JSON lines).")
      .required_by(workload);
  t.integer("num-reqs", w.num_reqs, {1, 100000000}, workload, "Requests to make.");
  t.number("rate", w.rate, {.min = 0, .above_min = true, .infinity = true}, workload,
           "Mean arrivals a second. Larger is more load; inf lets all arrive at once.");
  t.number("burstiness", w.burstiness, {.min = 0, .above_min = true}, workload,
           "Shape of the gaps between arrivals: 1 is Poisson, smaller comes in bursts, larger is more even.");
  t.number("first-arrival", w.first_arrival_s, {.min = 0, .max = 1e6}, workload,
           "Seconds before the first request arrives.");
  t.choice("length-distribution", w.length_distribution,
           Choices<std::string>{{"lognormal", "lognormal"}, {"uniform", "uniform"}, {"fixed", "fixed"}},
           workload,
           "How lengths lie between minimum and maximum: lognormal, many short and few long ones; uniform; "
           "or fixed, "
           "all at the maximum.");
  t.integer("input-len-min", w.input_len_min, {1, 100000000}, workload, "Shortest prompt in tokens.");
  t.integer("input-len-max", w.input_len_max, {1, 100000000}, workload, "Longest prompt in tokens.");
  t.integer("output-len-min", w.output_len_min, {1, 100000000}, workload, "Shortest output in tokens.");
  t.integer("output-len-max", w.output_len_max, {1, 100000000}, workload, "Longest output in tokens.");
  OptionDeclaration& vocabulary =
      t.integer("vocab-size", w.vocab_size, {0, std::numeric_limits<int32_t>::max()}, workload,
                "Token ids are below this number. 0: the vocabulary of --model.");
  vocabulary.note("from --model");
  t.number("prefix-share", w.prefix_share, {.min = 0, .max = 1}, workload,
           "Fraction of requests that begin with one of a few shared prefixes. Larger gives the prefix cache "
           "more to "
           "do.");
  t.integer("prefix-len", w.prefix_len, {1, 100000000}, workload, "Tokens of a shared prefix.");
  t.integer("num-prefixes", w.num_prefixes, {1, 1000000}, workload,
            "How many different shared prefixes there are.");
}

void declare_runtime(OptionTable& t, Options& o) {
  const ProgramSet engines = engine_programs();
  RuntimeOptions& r = o.runtime;
  t.group("Runtime");
  t.choice("device", r.device,
           Choices<DeviceKind>{
               {"auto", DeviceKind::kAuto}, {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}},
           engines, "What computes. auto takes the best that this build can run: the CPU.");
  t.integer_or_auto(
      "threads", r.threads, {1, 4096}, engines,
      "Threads that compute. auto: the cores that this process may use; more than that makes everything "
      "slower.");
  t.flag("pin-threads", r.pin_threads, engines,
         "Bind each computing thread to one core. Steadier times on a machine of one's own, worse ones "
         "beside others.");
  t.flag("enforce-eager", r.enforce_eager, engines,
         "Capture no graphs. Accepted and recorded; a CPU has no graphs, so it changes nothing.");
  t.integer("seed", r.seed, {0},
            ProgramSet{Program::kServer, Program::kCli, Program::kBenchRun, Program::kSim, Program::kProfile,
                       Program::kWorkload},
            "Seed of everything random: sampling, dummy weights, generated workloads. Equal seeds give equal "
            "results.")
      .note("in vllm-bench's load mode fresh for each run");
  t.group("General");
  t.text("config", o.config_file, "FILE", "the path of a YAML file", all_programs(),
         "Read options from a YAML file: one 'name: value' a line, names as here with - or _. The command "
         "line wins.");
  t.choice("log-level", r.log_level,
           Choices<LogLevel>{{"DEBUG", LogLevel::kDebug},
                             {"INFO", LogLevel::kInfo},
                             {"WARNING", LogLevel::kWarning},
                             {"ERROR", LogLevel::kError}},
           all_programs(),
           "The least important lines that are logged, in any case of letters. Logs go to stderr.");
  t.choice("log-format", r.log_format,
           Choices<LogFormat>{{"text", LogFormat::kText}, {"json", LogFormat::kJson}}, all_programs(),
           "Log lines for people, or one JSON object a line for machines.");
  OptionDeclaration& plan =
      t.add("print-plan", OptionShape::kOptionalValue, engines,
            "Print the KV plan on stdout and end, without loading weights; exit code 2 when it "
            "cannot fit. Needs only --model.");
  const Choices<PrintPlan> forms = {
      {"text", PrintPlan::kText}, {"json", PrintPlan::kJson}, {"no", PrintPlan::kNo}};
  plan.value_name = "text|json";
  plan.accepted = "text or json";
  plan.bare_value = "text";
  plan.assign = [&r, forms](std::string_view text) -> Status {
    const int index = find_choice(forms, text);
    if (index < 0) return choice_error(text, {"text", "json"}, "text or json");
    r.print_plan = forms[static_cast<size_t>(index)].second;
    return Status::ok();
  };
  plan.text = [&r, forms] { return choice_name(forms, r.print_plan); };
}

}  // namespace

void OptionTable::declare_programs(Options& options) {
  declare_server(*this, options);
  declare_workload(*this, options);
  declare_runtime(*this, options);
}

}  // namespace vllm
