// From arguments and a YAML file to Options. The splitter is our own and short: the library that was tried
// (CLI11 2.1) takes the option after "--num-blocks=" or after a forgotten value as the value, cannot tell
// which spelling was used, and adds ten seconds to a build, while all that it would be used for here is
// cutting words apart.

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>

#include "base/file.h"
#include "config/model_config.h"
#include "config/option_table.h"
#include "formats/printable.h"

namespace vllm {
namespace {

constexpr int64_t kMaxConfigFileBytes = 1 << 20;

// One option as it was given.
struct Given {
  const OptionDeclaration* option = nullptr;
  std::string where;  // "--num-blocks", or "engine.yaml:3: num-blocks"
  std::string value;
};

// Every spelling that a program takes, negated ones included.
std::vector<std::string> spellings(const OptionTable& table, Program program) {
  std::vector<std::string> names;
  for (const OptionDeclaration* d : table.of(program)) {
    names.push_back(d->name);
    names.insert(names.end(), d->aliases.begin(), d->aliases.end());
    if (d->shape == OptionShape::kNegatable) names.push_back("no-" + d->name);
  }
  names.insert(names.end(), {"help", "version"});
  return names;
}

std::string bare(const std::string& spelling) {
  const size_t begin = spelling.find_first_not_of('-');
  return begin == std::string::npos ? "" : spelling.substr(begin);
}

// Ends the sentence "unknown option --x": whose option it is, or the nearest name.
std::string hint_for(const OptionTable& table, Program program, const std::string& name,
                     const std::string& dashes) {
  std::vector<std::string> owners;
  if (table.find(program, name) == nullptr) {
    for (const Program other : kAllPrograms) {
      if (table.find(other, name) != nullptr) owners.emplace_back(program_name(other));
    }
  }
  if (owners.size() > 3) return fmt::format("; it is not an option of {}", program_name(program));
  if (!owners.empty()) {
    return fmt::format("; it is an option of {}, not of {}", join_names(owners), program_name(program));
  }
  const std::string near = nearest_name(name, spellings(table, program));
  if (!near.empty()) return fmt::format("; did you mean {}{}?", dashes, near);
  return fmt::format("; {} --help lists the options", program_name(program));
}

// The words of the command line, cut into options and values.
class ArgumentSplitter {
 public:
  ArgumentSplitter(const OptionTable& table, Program program, const std::vector<std::string>& args)
      : table_(table), program_(program), args_(args) {}

  Result<std::vector<Given>> split() {
    while (next_ < args_.size()) VLLM_RETURN_IF_ERROR(take(args_[next_++]));
    return std::move(given_);
  }

 private:
  Status take(const std::string& word) {
    if (word.size() < 2 || word[0] != '-') return positional(word);
    if (word == "--")
      return usage_error("'--' is not taken: every value belongs to an option (--name value)");
    const size_t equals = word.find('=');
    const std::string spelling = word.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);

    bool negated = false;
    const OptionDeclaration* option = find(spelling, negated);
    if (option == nullptr) {
      return usage_error("unknown option {}{}", printable(spelling),
                         hint_for(table_, program_, bare(spelling), "--"));
    }
    if (option->is_flag()) return take_flag(*option, spelling, value, negated);
    if (option->shape == OptionShape::kOptionalValue) {
      given_.push_back({option, spelling, value.value_or(option->bare_value)});
      return Status::ok();
    }
    if (value) {
      given_.push_back({option, spelling, *value});
      return Status::ok();
    }
    return take_values(*option, spelling);
  }

  Status take_flag(const OptionDeclaration& option, const std::string& spelling,
                   const std::optional<std::string>& value, bool negated) {
    if (negated && value)
      return usage_error("{} takes no value, but '{}' was given", spelling, printable(*value));
    given_.push_back({&option, spelling, negated ? "false" : value.value_or("true")});
    return Status::ok();
  }

  Status take_values(const OptionDeclaration& option, const std::string& spelling) {
    if (next_ == args_.size())
      return usage_error("{} has no value; accepted is {}", spelling, option.accepted);
    // What looks like a long option is one that follows a forgotten value; "--name=--text" still gives such a
    // text.
    if (args_[next_].starts_with("--")) {
      return usage_error("{} has no value, {} follows it; accepted is {}", spelling, printable(args_[next_]),
                         option.accepted);
    }
    given_.push_back({&option, spelling, args_[next_++]});
    while (option.shape == OptionShape::kList && next_ < args_.size() && !args_[next_].starts_with("-")) {
      given_.push_back({&option, spelling, args_[next_++]});
    }
    return Status::ok();
  }

  const OptionDeclaration* find(const std::string& spelling, bool& negated) const {
    if (!spelling.starts_with("--")) return nullptr;
    const std::string name = spelling.substr(2);
    if (const OptionDeclaration* option = table_.find(program_, name)) return option;
    if (!name.starts_with("no-")) return nullptr;
    const OptionDeclaration* option = table_.find(program_, name.substr(3));
    negated = option != nullptr && option->shape == OptionShape::kNegatable;
    return negated ? option : nullptr;
  }

  Status positional(const std::string& word) const {
    std::string hint = "every value belongs to an option (--name value)";
    if (!given_.empty() && given_.back().option->is_flag()) hint = given_.back().where + " takes no value";
    if (!given_.empty() && given_.back().option->shape == OptionShape::kOptionalValue) {
      hint = fmt::format("write {}={}", given_.back().where, printable(word));
    }
    return usage_error("'{}' is not taken: {}", printable(word), hint);
  }

  const OptionTable& table_;
  Program program_;
  const std::vector<std::string>& args_;
  size_t next_ = 0;
  std::vector<Given> given_;
};

// No option needs more than the longest path, nor a control character, which would steer the terminal that
// shows an error or break its one line.
Status check_value_text(const std::string& value) {
  constexpr size_t kMaxBytes = 4096;
  if (value.size() > kMaxBytes) {
    return usage_error("the value '{}' has {} bytes; accepted are at most {}", printable(value), value.size(),
                       kMaxBytes);
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(value.begin(), value.end(), is_control)) {
    return usage_error("the value '{}' has a control character; accepted is text of one line",
                       printable(value));
  }
  return Status::ok();
}

// Assigns what one source gave. Twice the same option is an error unless both mean the same.
Status assign_all(const std::vector<Given>& given) {
  std::map<const OptionDeclaration*, const Given*> first;
  for (const Given& g : given) {
    VLLM_RETURN_IF_ERROR(check_value_text(g.value).with_context(g.where));
    const auto [seen, is_new] = first.emplace(g.option, &g);
    if (g.option->shape == OptionShape::kList) {
      if (is_new) g.option->clear();
      VLLM_RETURN_IF_ERROR(g.option->assign(g.value).with_context(g.where));
      continue;
    }
    const std::string before = g.option->text();
    VLLM_RETURN_IF_ERROR(g.option->assign(g.value).with_context(g.where));
    if (!is_new && g.option->text() != before) {
      const Given& other = *seen->second;
      return usage_error("{} '{}' and {} '{}' contradict each other; give one of them", other.where,
                         other.value, g.where, g.value);
    }
  }
  return Status::ok();
}

// ---- YAML ----

class ConfigFile {
 public:
  ConfigFile(const OptionTable& table, Program program, std::string path)
      : table_(table), program_(program), path_(std::move(path)) {}

  Result<std::vector<Given>> read() {
    auto text = read_file(path_, kMaxConfigFileBytes);
    if (!text) return usage_error("--config: {}; accepted is a readable YAML file", text.status().message());
    try {
      const std::vector<YAML::Node> documents = YAML::LoadAll(*text);
      if (documents.size() > 1) {
        return bad_input("{}:{}: a second document begins; accepted is one", path_, line_of(documents[1]));
      }
      if (documents.empty() || documents[0].IsNull())
        return std::vector<Given>{};  // empty, or comments alone
      const YAML::Node& root = documents[0];
      if (!root.IsMap()) {
        return bad_input("{}:{}: not a list of options; accepted is 'name: value', one a line", path_,
                         line_of(root));
      }
      for (const auto& entry : root) VLLM_RETURN_IF_ERROR(take(entry.first, entry.second));
    } catch (const YAML::Exception& error) {
      return bad_input("{}:{}: not YAML ({}); accepted is 'name: value', one a line", path_,
                       error.mark.line + 1, error.msg);
    } catch (const std::exception& error) {
      return bad_input("{}: not YAML ({})", path_, error.what());
    }
    return std::move(given_);
  }

 private:
  static int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

  Status take(const YAML::Node& key, const YAML::Node& value) {
    const std::string at = fmt::format("{}:{}", path_, line_of(key));
    if (!key.IsScalar()) return bad_input("{}: an option's name is expected before the colon", at);
    std::string name = key.Scalar();
    std::replace(name.begin(), name.end(), '_', '-');
    const OptionDeclaration* option = table_.find(program_, name);
    if (option == nullptr || name == "config") return unknown(at, key.Scalar(), name);
    const std::string where = fmt::format("{}: {}", at, key.Scalar());
    if (const auto first = lines_.find(option); first != lines_.end()) {
      return bad_input("{} is given twice, first in line {}; give it once", where, first->second);
    }
    lines_[option] = line_of(key);
    if (option->shape == OptionShape::kList && value.IsSequence()) {
      for (const YAML::Node& item : value) VLLM_RETURN_IF_ERROR(take_scalar(*option, where, item));
      return Status::ok();
    }
    return take_scalar(*option, where, value);
  }

  Status take_scalar(const OptionDeclaration& option, const std::string& where, const YAML::Node& value) {
    if (value.IsScalar()) {
      given_.push_back({&option, where, value.Scalar()});
      return Status::ok();
    }
    const char* kind = value.IsSequence() ? "a list" : value.IsMap() ? "a group of values" : "no value";
    return bad_input("{} has {}; accepted is {}", where, kind, option.accepted);
  }

  Status unknown(const std::string& at, const std::string& written, const std::string& name) const {
    if (name == "config") return bad_input("{}: {} cannot stand in a file that --config reads", at, written);
    if (name.starts_with("no-")) {
      const OptionDeclaration* option = table_.find(program_, name.substr(3));
      if (option != nullptr && option->is_flag()) {
        return bad_input("{}: unknown option {}; write '{}: false'", at, written, option->name);
      }
    }
    return bad_input("{}: unknown option {}{}", at, written, hint_for(table_, program_, name, ""));
  }

  const OptionTable& table_;
  Program program_;
  std::string path_;
  std::vector<Given> given_;
  std::map<const OptionDeclaration*, int> lines_;
};

// ---- after both ----

Status check_required(const OptionTable& table, Program program, const ParsedOptions& parsed) {
  const bool planning = parsed.options.runtime.print_plan != PrintPlan::kNo;
  std::vector<std::string> missing;
  for (const OptionDeclaration* d : table.of(program)) {
    if (!d->required.has(program) || parsed.set(d->name)) continue;
    const bool waived = planning ? d->name != "model" : not_built_yet(program).has_value();
    if (!waived) missing.push_back("--" + d->name);
  }
  if (missing.empty()) return Status::ok();
  std::string list;
  for (size_t i = 0; i < missing.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == missing.size() ? " and " : ", ") + missing[i];
  }
  return usage_error("{} {} missing; {} --help explains {}", list, missing.size() == 1 ? "is" : "are",
                     program_name(program), missing.size() == 1 ? "it" : "them");
}

Status check_sim_together(const Options& o) {
  const bool planning = o.runtime.print_plan != PrintPlan::kNo;
  if (planning && o.model.model.empty()) {
    return usage_error("--model is missing; --print-plan plans for it (vllm-sim --help explains it)");
  }
  if (planning && o.sim.dtype && (*o.sim.dtype == SimDType::kFp8 || *o.sim.dtype == SimDType::kInt8)) {
    return usage_error(
        "--dtype '{}' with --print-plan: no engine computes in it; accepted is auto, bfloat16, float16 or "
        "float32",
        sim_dtype_name(*o.sim.dtype));
  }
  const auto& npu = o.sim.npu_memory_utilization;
  if (npu && o.kv.gpu_memory_utilization && *npu != *o.kv.gpu_memory_utilization) {
    return usage_error(
        "--npu-memory-utilization '{}' and --gpu-memory-utilization '{}' contradict each other; give one of "
        "them",
        *npu, *o.kv.gpu_memory_utilization);
  }
  return Status::ok();
}

Status check_profile_together(const Options& o) {
  const ProfileOptions& p = o.profile;
  if (o.runtime.print_plan != PrintPlan::kNo) {
    if (!o.model.model.empty()) return Status::ok();
    return usage_error("--model is missing; --print-plan plans for it (vllm-profile --help explains it)");
  }
  if (p.from_steps.empty()) {
    if (p.clean.empty()) return Status::ok();
    return usage_error("--clean rescales what --from-steps fits; give --from-steps too");
  }
  if (p.output.empty()) {
    return usage_error("--output is missing: the folder that --from-steps writes its step bundle to");
  }
  return Status::ok();
}

Status check_step_sim_together(const Options& o, const ParsedOptions& parsed) {
  const StepSimOptions& s = o.step_sim;
  if (s.step_bundle.empty()) {
    for (const char* name : {"host-scale-from", "speed", "seeds"}) {
      if (parsed.set(name)) return usage_error("--{} belongs to --step-bundle, which is not given", name);
    }
    return Status::ok();
  }
  if (o.sim.match_capacity.empty()) {
    return usage_error(
        "--match-capacity is missing: --step-bundle takes block count, block size and maximum length from a "
        "recording");
  }
  if (o.sim.dataset.empty()) return usage_error("--dataset is missing: --step-bundle simulates a workload");
  for (const char* name : {"cluster-config", "model", "num-blocks", "kv-cache-memory",
                           "gpu-memory-utilization", "npu-memory-utilization", "block-size", "max-model-len",
                           "device-memory", "host-overhead-us", "pickup-delay-us", "trace"}) {
    if (!parsed.set(name)) continue;
    return usage_error(
        "--{} has no meaning with --step-bundle, which takes costs from the bundle and capacity from "
        "--match-capacity; leave it out",
        name);
  }
  if (o.sim.mode != SimMode::kNative) {
    return usage_error("--mode compat has no meaning with --step-bundle; accepted is native");
  }
  return Status::ok();
}

// Options that depend on each other, whatever their order.
Status check_together(const Options& o, const ParsedOptions& parsed) {
  const WorkloadOptions& w = o.workload;
  if (o.program == Program::kWorkload) {
    if (w.input_len_min > w.input_len_max) {
      return usage_error("--input-len-min {} is above --input-len-max {}", w.input_len_min, w.input_len_max);
    }
    if (w.output_len_min > w.output_len_max) {
      return usage_error("--output-len-min {} is above --output-len-max {}", w.output_len_min,
                         w.output_len_max);
    }
    if (w.vocab_size == 0 && o.model.model.empty()) {
      return usage_error("--vocab-size or --model is needed, to know which token ids there are");
    }
  }
  if (o.program == Program::kSim) {
    VLLM_RETURN_IF_ERROR(check_sim_together(o));
    VLLM_RETURN_IF_ERROR(check_step_sim_together(o, parsed));
  }
  if (o.program == Program::kProfile) VLLM_RETURN_IF_ERROR(check_profile_together(o));
  if (o.kv.device_memory && o.runtime.print_plan == PrintPlan::kNo && o.program != Program::kSim) {
    return usage_error(
        "--device-memory plans for a device that is not here; accepted with --print-plan or in vllm-sim");
  }
  return Status::ok();
}

void fill_resolved(const OptionTable& table, Program program, const std::vector<Given>& from_file,
                   const std::vector<Given>& from_line, ParsedOptions& parsed) {
  const auto gives = [](const std::vector<Given>& given, const OptionDeclaration* d) {
    return std::any_of(given.begin(), given.end(), [d](const Given& g) { return g.option == d; });
  };
  for (const OptionDeclaration* d : table.of(program)) {
    ResolvedOption r = {d->name, d->group, d->text(), OptionSource::kDefault};
    if (gives(from_file, d)) r.source = OptionSource::kConfigFile;
    if (gives(from_line, d)) r.source = OptionSource::kCommandLine;
    if (d->secret && r.source != OptionSource::kDefault) r.value = "***";
    parsed.resolved.push_back(std::move(r));
  }
}

// The simulator logs what is wrong alone, as the program does whose log it writes. In native mode an NPU's
// utilisation is the engine's option by another name; a plan alone takes its type from the simulator's
// --dtype.
void apply_sim_defaults(Options& o, const std::vector<Given>& from_file,
                        const std::vector<Given>& from_line) {
  const auto sets_level = [](const Given& g) { return g.option->name == "log-level"; };
  if (std::none_of(from_file.begin(), from_file.end(), sets_level) &&
      std::none_of(from_line.begin(), from_line.end(), sets_level)) {
    o.runtime.log_level = LogLevel::kWarning;
  }
  if (o.sim.mode == SimMode::kNative && o.sim.npu_memory_utilization && !o.kv.gpu_memory_utilization) {
    o.kv.gpu_memory_utilization = o.sim.npu_memory_utilization;
  }
  if (!o.sim.dtype) return;
  switch (*o.sim.dtype) {
    case SimDType::kBFloat16:
      o.model.dtype = DType::kBF16;
      break;
    case SimDType::kFloat16:
      o.model.dtype = DType::kF16;
      break;
    case SimDType::kFloat32:
      o.model.dtype = DType::kF32;
      break;
    case SimDType::kFp8:
    case SimDType::kInt8:
      break;  // no type of the engine; check_together refuses them for --print-plan
  }
}

// Replay computes in bfloat16 unless told otherwise, as the harness does whose files it writes; a GGUF file
// brings its own types. An explicit "auto" is kept.
void apply_program_defaults(Options& o, const std::vector<Given>& from_file,
                            const std::vector<Given>& from_line) {
  const auto sets_dtype = [](const Given& g) { return g.option->name == "dtype"; };
  const bool given = std::any_of(from_file.begin(), from_file.end(), sets_dtype) ||
                     std::any_of(from_line.begin(), from_line.end(), sets_dtype);
  if (o.program == Program::kBenchRun && !given && !is_gguf_path(o.model.model)) o.model.dtype = DType::kBF16;
  if (o.program == Program::kSim) apply_sim_defaults(o, from_file, from_line);
}

// --help and --version are answered whatever else is wrong with the line.
bool asks_for(const std::vector<std::string>& args, const char* name, const char* short_name) {
  return std::any_of(args.begin(), args.end(),
                     [&](const std::string& a) { return a == name || a == short_name; });
}

}  // namespace

const char* program_name(Program program) {
  switch (program) {
    case Program::kServer:
      return "vllm-server";
    case Program::kCli:
      return "vllm-cli";
    case Program::kBenchRun:
      return "vllm-bench run";
    case Program::kBenchLoad:
      return "vllm-bench";
    case Program::kBenchValidate:
      return "vllm-bench validate";
    case Program::kBenchCheckSchedule:
      return "vllm-bench check-schedule";
    case Program::kSim:
      return "vllm-sim";
    case Program::kProfile:
      return "vllm-profile";
    case Program::kWorkload:
      return "vllm-workload";
  }
  return "vllm";
}

bool ParsedOptions::set(const std::string& name) const {
  return std::any_of(resolved.begin(), resolved.end(), [&](const ResolvedOption& r) {
    return r.name == name && r.source != OptionSource::kDefault;
  });
}

Result<ParsedOptions> parse_options(Program program, const std::vector<std::string>& args) {
  ParsedOptions parsed;
  parsed.options.program = program;
  const OptionTable table(parsed.options);
  parsed.help = asks_for(args, "--help", "-h");
  parsed.version = !parsed.help && asks_for(args, "--version", "-V");
  if (parsed.help || parsed.version) {
    fill_resolved(table, program, {}, {}, parsed);
    return parsed;
  }

  VLLM_ASSIGN_OR_RETURN(const std::vector<Given> from_line, ArgumentSplitter(table, program, args).split());
  VLLM_RETURN_IF_ERROR(assign_all(from_line));
  std::vector<Given> from_file;
  if (!parsed.options.config_file.empty()) {
    VLLM_ASSIGN_OR_RETURN(from_file, ConfigFile(table, program, parsed.options.config_file).read());
    VLLM_RETURN_IF_ERROR(assign_all(from_file));
    VLLM_RETURN_IF_ERROR(assign_all(from_line));  // again: the command line wins
  }
  apply_program_defaults(parsed.options, from_file, from_line);
  fill_resolved(table, program, from_file, from_line, parsed);
  VLLM_RETURN_IF_ERROR(check_required(table, program, parsed));
  VLLM_RETURN_IF_ERROR(check_together(parsed.options, parsed));
  return parsed;
}

}  // namespace vllm
