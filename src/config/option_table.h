#pragma once

// The table of options, for parsing, help and documentation; programs use config/options.h. A table is bound
// to one Options object: each declaration reads and writes its field there, so the object must outlive the
// table.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "config/options.h"

namespace vllm {

class ProgramSet {
 public:
  ProgramSet() = default;
  ProgramSet(std::initializer_list<Program> programs) {
    for (const Program p : programs) bits_ |= bit(p);
  }
  bool has(Program p) const { return (bits_ & bit(p)) != 0; }
  bool empty() const { return bits_ == 0; }
  ProgramSet operator|(ProgramSet other) const {
    other.bits_ |= bits_;
    return other;
  }
  bool operator==(const ProgramSet&) const = default;

 private:
  static uint32_t bit(Program p) { return uint32_t{1} << static_cast<int>(p); }
  uint32_t bits_ = 0;
};

// In the order of documentation.
inline constexpr Program kAllPrograms[] = {
    Program::kServer,    Program::kCli,           Program::kBenchRun,
    Program::kBenchLoad, Program::kBenchValidate, Program::kBenchCheckSchedule,
    Program::kSim,       Program::kProfile,       Program::kWorkload,
};
// Programs that run an engine or plan for one: the same model, KV, scheduler and runtime options in all of
// them.
const ProgramSet& engine_programs();
const ProgramSet& all_programs();

enum class OptionShape {
  kFlag,           // --x
  kNegatable,      // --x and --no-x
  kValue,          // --x VALUE or --x=VALUE
  kOptionalValue,  // --x or --x=VALUE
  kList,           // --x A B, --x "A B", --x A --x B: every value is added
};

struct OptionDeclaration {
  std::string name;  // without dashes
  std::vector<std::string> aliases;
  std::string group;
  OptionShape shape = OptionShape::kValue;
  std::string value_name;    // "auto|N"; empty for flags
  std::string accepted;      // ends the sentence "accepted is ..."
  std::string bare_value;    // kOptionalValue: what --x alone means
  std::string help;          // what it does and what larger and smaller values change
  std::string default_note;  // a default that depends on something
  ProgramSet programs;
  ProgramSet required;
  bool secret = false;  // not to be written into files

  // Sets the field. The error says what is wrong with the value and what is accepted; the caller names the
  // option.
  std::function<Status(std::string_view)> assign;
  std::function<void()> clear;        // kList: forgets the values so far
  std::function<std::string()> text;  // the field's value as one would write it

  bool is_flag() const { return shape == OptionShape::kFlag || shape == OptionShape::kNegatable; }

  OptionDeclaration& alias(std::string other) { return aliases.push_back(std::move(other)), *this; }
  OptionDeclaration& required_by(ProgramSet set) { return required = set, *this; }
  OptionDeclaration& note(std::string text_) { return default_note = std::move(text_), *this; }
  OptionDeclaration& keep_secret() { return secret = true, *this; }
};

// Whole numbers from `min` to `max`; `words` says it better where there are few.
struct IntRange {
  int64_t min = 0;
  int64_t max = std::numeric_limits<int64_t>::max();
  const char* words = nullptr;
};

// Numbers between `min` and `max`; infinity only where `infinity` says so.
struct NumberRange {
  double min = 0;
  double max = std::numeric_limits<double>::max();
  bool above_min = false;  // min itself is not accepted
  bool below_max = false;
  bool infinity = false;
};

template <typename T>
using Choices = std::vector<std::pair<std::string, T>>;

// Values from text; the errors are complete but for the option's name.
Result<int64_t> parse_int_option(std::string_view text, IntRange range, const std::string& accepted);
Result<double> parse_number_option(std::string_view text, NumberRange range, const std::string& accepted);
Result<bool> parse_bool_option(std::string_view text);
std::string number_text(double value);
std::string accepted_text(IntRange range);
std::string accepted_text(NumberRange range);

class OptionTable {
 public:
  explicit OptionTable(Options& options);
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  const std::vector<OptionDeclaration>& all() const { return declarations_; }
  std::vector<const OptionDeclaration*> of(Program program) const;
  // By name or alias among the options of `program`.
  const OptionDeclaration* find(Program program, std::string_view name) const;

  // What declarations are made with. The reference is good until the next one is made.
  void group(std::string name) { group_ = std::move(name); }
  OptionDeclaration& flag(std::string name, bool& field, ProgramSet programs, std::string help);
  OptionDeclaration& negatable(std::string name, bool& field, ProgramSet programs, std::string help);
  template <typename T>
  OptionDeclaration& integer(std::string name, T& field, IntRange range, ProgramSet programs,
                             std::string help);
  template <typename T>
  OptionDeclaration& integer_or_auto(std::string name, std::optional<T>& field, IntRange range,
                                     ProgramSet programs, std::string help);
  OptionDeclaration& number(std::string name, double& field, NumberRange range, ProgramSet programs,
                            std::string help);
  OptionDeclaration& number_or_auto(std::string name, std::optional<double>& field, NumberRange range,
                                    ProgramSet programs, std::string help);
  OptionDeclaration& size_or_auto(std::string name, std::optional<int64_t>& field, ProgramSet programs,
                                  std::string help);
  template <typename T>
  OptionDeclaration& choice(std::string name, T& field, Choices<T> choices, ProgramSet programs,
                            std::string help);
  template <typename T>
  OptionDeclaration& choice_or_auto(std::string name, std::optional<T>& field, Choices<T> choices,
                                    ProgramSet programs, std::string help);
  // `accepted` says what the text is, for an empty value: "the path of a file".
  OptionDeclaration& text(std::string name, std::string& field, std::string value_name, std::string accepted,
                          ProgramSet programs, std::string help);
  OptionDeclaration& add(std::string name, OptionShape shape, ProgramSet programs, std::string help);

 private:
  void declare_engine(Options& options);    // options_engine.cpp: model, parallel, KV, scheduler
  void declare_bench(Options& options);     // options_bench.cpp: the subcommands of vllm-bench
  void declare_sim(Options& options);       // options_sim.cpp: vllm-sim
  void declare_step(Options& options);      // options_step.cpp: step bundles, vllm-profile and vllm-sim
  void declare_programs(Options& options);  // options_programs.cpp: runtime, server, workload

  std::string group_;
  std::vector<OptionDeclaration> declarations_;
};

// Where `name` is meant to be one of `candidates`: the nearest by edit distance, '_' and '-' alike; empty
// when none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// Index of the choice with this name, in any case where `ignore_case`; -1 when there is none.
template <typename T>
int find_choice(const Choices<T>& choices, std::string_view text, bool ignore_case = false);

// ---- templates ----

bool equal_ignoring_case(std::string_view a, std::string_view b);
std::string join_names(const std::vector<std::string>& names);  // "a, b or c"
Status choice_error(std::string_view text, const std::vector<std::string>& names,
                    const std::string& accepted);

template <typename T>
int find_choice(const Choices<T>& choices, std::string_view text, bool ignore_case) {
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].first == text || (ignore_case && equal_ignoring_case(choices[i].first, text))) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

template <typename T>
std::vector<std::string> choice_names(const Choices<T>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) names.push_back(name);
  return names;
}

template <typename T>
std::string choice_name(const Choices<T>& choices, T value) {
  for (const auto& [name, candidate] : choices) {
    if (candidate == value) return name;
  }
  return "?";
}

std::string join_with_bar(const std::vector<std::string>& names);  // "a|b|c"

template <typename T>
OptionDeclaration& OptionTable::integer(std::string name, T& field, IntRange range, ProgramSet programs,
                                        std::string help) {
  OptionDeclaration& d = add(std::move(name), OptionShape::kValue, programs, std::move(help));
  range.max = std::min<int64_t>(range.max, std::numeric_limits<T>::max());
  d.value_name = std::string("N");
  d.accepted = accepted_text(range);
  d.assign = [&field, range, accepted = d.accepted](std::string_view text) -> Status {
    VLLM_ASSIGN_OR_RETURN(const int64_t value, parse_int_option(text, range, accepted));
    field = static_cast<T>(value);
    return Status::ok();
  };
  d.text = [&field] { return fmt::format("{}", field); };
  return d;
}

template <typename T>
OptionDeclaration& OptionTable::integer_or_auto(std::string name, std::optional<T>& field, IntRange range,
                                                ProgramSet programs, std::string help) {
  OptionDeclaration& d = add(std::move(name), OptionShape::kValue, programs, std::move(help));
  range.max = std::min<int64_t>(range.max, std::numeric_limits<T>::max());
  d.value_name = "auto|N";
  d.accepted = accepted_text(range) + ", or auto";
  d.assign = [&field, range, accepted = d.accepted](std::string_view text) -> Status {
    if (text == "auto") {
      field.reset();
      return Status::ok();
    }
    VLLM_ASSIGN_OR_RETURN(const int64_t value, parse_int_option(text, range, accepted));
    field = static_cast<T>(value);
    return Status::ok();
  };
  d.text = [&field] { return field ? fmt::format("{}", *field) : std::string("auto"); };
  return d;
}

template <typename T>
OptionDeclaration& OptionTable::choice(std::string name, T& field, Choices<T> choices, ProgramSet programs,
                                       std::string help) {
  OptionDeclaration& d = add(std::move(name), OptionShape::kValue, programs, std::move(help));
  const bool ignore_case = std::is_same_v<T, LogLevel>;
  d.value_name = join_with_bar(choice_names(choices));
  d.accepted = join_names(choice_names(choices));
  d.assign = [&field, choices, ignore_case, accepted = d.accepted](std::string_view text) -> Status {
    const int index = find_choice(choices, text, ignore_case);
    if (index < 0) return choice_error(text, choice_names(choices), accepted);
    field = choices[static_cast<size_t>(index)].second;
    return Status::ok();
  };
  d.text = [&field, choices] { return choice_name(choices, field); };
  return d;
}

template <typename T>
OptionDeclaration& OptionTable::choice_or_auto(std::string name, std::optional<T>& field, Choices<T> choices,
                                               ProgramSet programs, std::string help) {
  OptionDeclaration& d = add(std::move(name), OptionShape::kValue, programs, std::move(help));
  std::vector<std::string> names = choice_names(choices);
  names.insert(names.begin(), "auto");
  d.value_name = join_with_bar(names);
  d.accepted = join_names(names);
  d.assign = [&field, choices, names, accepted = d.accepted](std::string_view text) -> Status {
    if (text == "auto") {
      field.reset();
      return Status::ok();
    }
    const int index = find_choice(choices, text);
    if (index < 0) return choice_error(text, names, accepted);
    field = choices[static_cast<size_t>(index)].second;
    return Status::ok();
  };
  d.text = [&field, choices] { return field ? choice_name(choices, *field) : std::string("auto"); };
  return d;
}

}  // namespace vllm
