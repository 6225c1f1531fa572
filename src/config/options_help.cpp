// --help and docs/options.md, both from the table.

#include <algorithm>

#include "config/option_table.h"

namespace vllm {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kHelpColumn = 34;

struct ProgramText {
  const char* about;
  const char* usage;
  const char* example;
};

ProgramText text_of(Program program) {
  switch (program) {
    case Program::kServer:
      return {
          "Serves a model over HTTP with the OpenAI protocol. In this build it takes its options and prints "
          "the KV "
          "plan (--print-plan); serving itself comes with a later release.",
          "vllm-server --model PATH [options]",
          "vllm-server --model models/SmolLM2-135M-Instruct.Q4_1.gguf --kv-cache-memory 1GiB --print-plan"};
    case Program::kCli:
      return {
          "Generates text from the command line: one answer, or a chat. In this build it takes its options "
          "and "
          "prints the KV plan (--print-plan); generating text comes with a later release.",
          "vllm-cli --model PATH [options]",
          "vllm-cli --model models/SmolLM2-135M-Instruct.Q4_1.gguf --max-model-len 2048 --print-plan"};
    case Program::kBenchRun:
      return {
          "Replays a workload through an engine strictly: request i is issued at its arrival with exactly "
          "its prompt "
          "tokens, and generates exactly its output tokens. Every number of the run is written to "
          "--output-dir and "
          "drawn; a summary table ends the run.",
          "vllm-bench run --model PATH --dataset FILE --output-dir DIR [options]",
          "vllm-bench run --model models/SmolLM2-135M-Instruct.Q4_1.gguf --dataset workload.jsonl "
          "--output-dir results/first --record-steps"};
    case Program::kBenchLoad:
      return {
          "Measures serving. A subcommand says how; without one it is the load mode, which sends prompts at "
          "a rate or "
          "at a fixed number in flight.",
          "vllm-bench [SUBCOMMAND] [options]", "vllm-bench run --help"};
    case Program::kBenchValidate:
      return {
          "Compares a recorded run with a simulated one: summaries, plots and verdicts. Not in this build.",
          "vllm-bench validate --bench-dir DIR --sim-csv FILE --sim-log FILE [options]",
          "vllm-bench validate --bench-dir results/first --sim-csv sim.csv --sim-log sim.log"};
    case Program::kBenchCheckSchedule:
      return {
          "Reads a recorded run with a step log, gives our scheduler the same arrivals and ends, and prints "
          "the "
          "fraction of steps that it plans equally, field by field, with the first deviations. Exit code 0 "
          "only at "
          "100 %.",
          "vllm-bench check-schedule --bench-dir DIR --dataset FILE [options]",
          "vllm-bench check-schedule --bench-dir results/first --dataset workload.jsonl --depth 2"};
    case Program::kSim:
      return {
          "Predicts a serving run without the hardware: the engine's own scheduler and block pool, and step "
          "times "
          "from a profile bundle. The log is on stdout, one line for each request in --output.",
          "vllm-sim --cluster-config FILE --dataset FILE --output FILE [options]",
          "vllm-sim --cluster-config configs/cluster/single_node_single_instance.json --dataset "
          "workload.jsonl "
          "--output sim.csv"};
    case Program::kProfile:
      return {
          "Fits a step bundle for vllm-sim to recordings with step logs, ours or vLLM's: what a step costs, "
          "as "
          "a "
          "function of its plan. Measuring a device layer by layer comes with a later release.",
          "vllm-profile --from-steps DIR... [--clean DIR...] --output BUNDLE [options]",
          "vllm-profile --from-steps results/first results/second --clean results/third --output bundle"};
    case Program::kWorkload:
      return {
          "Makes a workload file for vllm-bench run: lengths, arrivals and token ids, all from --seed. Equal "
          "options "
          "give an equal file.",
          "vllm-workload --output FILE [options]",
          "vllm-workload --model models/SmolLM2-135M-Instruct.Q4_1.gguf --num-reqs 64 --rate 4 "
          "--output workload.jsonl"};
  }
  return {"", "", ""};
}

constexpr const char* kSubcommands[][2] = {
    {"run", "Replay a workload through an engine and record it."},
    {"check-schedule", "Compare our scheduler's plans with a recorded step log."},
    {"validate", "Compare a recorded run with a simulated one."},
    {"(none)", "The load mode with the options below. Not built yet, but for --print-plan."},
};

// Appends `text` in lines of at most kWidth, broken at spaces, every line but the first indented; `column` is
// where the first one begins.
void wrap(std::string& out, const std::string& text, size_t indent, size_t column) {
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find(' ', begin);
    if (end == std::string::npos) end = text.size();
    const size_t length = end - begin;
    if (column + length > kWidth && column > indent) {
      out.pop_back();  // the space before the word
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
    out.append(text, begin, length);
    out += ' ';
    column += length + 1;
    begin = end + 1;
  }
  if (!text.empty()) out.pop_back();
  out += '\n';
}

std::string spelling(const OptionDeclaration& d) {
  switch (d.shape) {
    case OptionShape::kFlag:
      return "--" + d.name;
    case OptionShape::kNegatable:
      return "--[no-]" + d.name;
    case OptionShape::kOptionalValue:
      return fmt::format("--{}[={}]", d.name, d.value_name);
    case OptionShape::kValue:
    case OptionShape::kList:
      break;
  }
  return fmt::format("--{} {}", d.name, d.value_name);
}

std::string alias_text(const OptionDeclaration& d) {
  std::string out;
  for (const std::string& alias : d.aliases) out += (out.empty() ? "--" : ", --") + alias;
  return out;
}

std::string default_text(const OptionDeclaration& d) {
  const std::string value = d.text();
  if (d.name == "print-plan") return "";
  if (d.shape == OptionShape::kFlag) return value == "true" ? "on" : "off";
  if (d.shape == OptionShape::kNegatable) return value == "true" ? "on" : "off";
  return value;
}

// "default 16; a whole number from 1 to 65536; also --x".
std::string facts_text(const OptionDeclaration& d, Program program) {
  std::string out;
  const auto add = [&](const std::string& fact) {
    if (!fact.empty()) out += (out.empty() ? "" : "; ") + fact;
  };
  if (d.required.has(program)) {
    add("required");
  } else {
    std::string value = default_text(d);
    if (!d.default_note.empty()) value += (value.empty() ? "" : "; ") + d.default_note;
    if (!value.empty()) add("default " + value);
  }
  if (!d.is_flag() && d.value_name.find('|') == std::string::npos) add(d.accepted);
  if (d.value_name == "auto|N" || d.value_name == "auto|F") add(d.accepted);
  if (!d.aliases.empty()) add("also " + alias_text(d));
  return out.empty() ? "" : " [" + out + "]";
}

void append_option(std::string& out, const std::string& left, const std::string& right) {
  std::string line = "  " + left;
  if (line.size() + 2 > kHelpColumn) {
    line += '\n' + std::string(kHelpColumn, ' ');
  } else {
    line.resize(kHelpColumn, ' ');
  }
  out += line;
  wrap(out, right, kHelpColumn, kHelpColumn);
}

std::vector<std::string> groups_of(const std::vector<const OptionDeclaration*>& options) {
  std::vector<std::string> groups;
  for (const OptionDeclaration* d : options) {
    if (std::find(groups.begin(), groups.end(), d->group) == groups.end()) groups.push_back(d->group);
  }
  return groups;
}

// "engines" stands for the six that run an engine or plan for one.
std::string programs_text(const OptionDeclaration& d) {
  if (d.programs == all_programs()) return "all";
  std::string out;
  ProgramSet rest = d.programs;
  if ((d.programs | engine_programs()) == d.programs) {
    out = "engines";
    rest = ProgramSet{};
    for (const Program p : kAllPrograms) {
      if (d.programs.has(p) && !engine_programs().has(p)) rest = rest | ProgramSet{p};
    }
  }
  for (const Program p : kAllPrograms) {
    if (rest.has(p)) out += (out.empty() ? "" : ", ") + std::string(program_name(p) + 5);
  }
  return out;
}

// Inside a table a bar would end the cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string code(const std::string& text) { return text.empty() ? "" : fmt::format("`{}`", cell(text)); }

void append_markdown_row(std::string& out, const OptionDeclaration& d) {
  std::string names = code(spelling(d));
  for (const std::string& alias : d.aliases) names += ", " + code("--" + alias);
  std::string value = code(default_text(d));
  if (!d.required.empty()) value = "required";
  if (d.required == ProgramSet{} && !d.default_note.empty())
    value += (value.empty() ? "" : "; ") + cell(d.default_note);
  std::string accepted = d.is_flag() ? "" : d.accepted;
  out += fmt::format("| {} | {} | {} | {} | {} |\n", names, value, cell(accepted), programs_text(d),
                     cell(d.help));
}

constexpr const char* kMarkdownHead = R"(# Options

Every option is declared once, in `src/config/`, and means the same in every program that takes it. This page is made from those
declarations by `vllm-bench --options-markdown`; a test compares the two.

* `--name value` and `--name=value` are the same. Switches with `[no-]` are turned off by `--no-name`.
* `--config FILE` reads options from a YAML file: one `name: value` a line, names as here with `-` or `_`, switches with
  `true` or `false`, lists as `[a, b]`. The command line wins over the file, the file over the defaults.
* `auto` is a value like others. Sizes are bytes or carry a suffix: `1GiB`, `1.5GiB`, `512MiB` (powers of 1024), `1GB` (powers of 1000).
* An unknown option, a value that is not accepted, an option given twice with different values and a word that belongs to no option
  are errors, exit code 2; the message names the option, the value and what is accepted, and for an unknown name the nearest one.
* An option that this build cannot honour is refused by name, never ignored.
* `--help` shows a program's options with their groups, `--version` the version, the commit and the libraries.

In the column "programs", *engines* are `vllm-server`, `vllm-cli`, `vllm-bench run`, `vllm-bench` (load mode, without a subcommand),
`vllm-sim` and `vllm-profile`; the others stand without `vllm-`. Defaults are the same in all of them, except where the table says so.
)";

}  // namespace

std::string help_text(Program program) {
  Options defaults;
  defaults.program = program;
  const OptionTable table(defaults);
  const std::vector<const OptionDeclaration*> options = table.of(program);
  const ProgramText text = text_of(program);

  std::string out;
  wrap(out, fmt::format("{}: {}", program_name(program), text.about), 0, 0);
  out += fmt::format("\nUsage: {}\n\nExample:\n  ", text.usage);
  wrap(out, text.example, 4, 2);
  if (program == Program::kBenchLoad) {
    out += "\nSubcommands (each has its own --help):\n";
    for (const auto& [name, help] : kSubcommands) append_option(out, name, help);
  }
  for (const std::string& group : groups_of(options)) {
    out += fmt::format("\n{}:\n", group);
    for (const OptionDeclaration* d : options) {
      if (d->group == group) append_option(out, spelling(*d), d->help + facts_text(*d, program));
    }
  }
  append_option(out, "-h, --help", "Show this text and end.");
  append_option(out, "-V, --version", "Show version, commit, instruction set and libraries, and end.");
  out += "\nExit codes: 0 done, 1 tried and failed, 2 wrong use or refused.\n";
  return out;
}

std::string options_markdown() {
  Options defaults;
  const OptionTable table(defaults);
  std::vector<const OptionDeclaration*> all;
  for (const OptionDeclaration& d : table.all()) all.push_back(&d);

  std::string out = kMarkdownHead;
  for (const std::string& group : groups_of(all)) {
    out += fmt::format(
        "\n## {}\n\n| option | default | accepted | programs | meaning |\n|---|---|---|---|---|\n", group);
    for (const OptionDeclaration* d : all) {
      if (d->group == group) append_markdown_row(out, *d);
    }
  }
  out += "\n## Not built yet\n\nThese programs take their options and say so, with exit code 2:\n\n";
  for (const Program p : kAllPrograms) {
    if (const auto reason = not_built_yet(p)) out += fmt::format("* `{}`: {}.\n", program_name(p), *reason);
  }
  return out;
}

}  // namespace vllm
