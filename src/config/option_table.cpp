#include "config/option_table.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/units.h"

namespace vllm {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// The form in which names are compared: "Max_Num_Seqs" and "max-num-seqs" are the same.
std::string normalised(std::string_view name) {
  while (!name.empty() && name.front() == '-') name.remove_prefix(1);
  std::string out(name);
  for (char& c : out) c = c == '_' ? '-' : lower(c);
  return out;
}

// Insertions, deletions, replacements and swaps of neighbours that turn a into b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

const ProgramSet& engine_programs() {
  static const ProgramSet kSet = {Program::kServer,    Program::kCli, Program::kBenchRun,
                                  Program::kBenchLoad, Program::kSim, Program::kProfile};
  return kSet;
}

const ProgramSet& all_programs() {
  static const ProgramSet kSet = [] {
    ProgramSet set;
    for (const Program p : kAllPrograms) set = set | ProgramSet{p};
    return set;
  }();
  return kSet;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string join_names(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

std::string join_with_bar(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : "|") + name;
  return out;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string wanted = normalised(name);
  if (wanted.empty()) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(2, wanted.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(wanted, normalised(candidate));
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty()) return best;
  // No near one: a beginning of exactly one name is meant to be that name.
  for (const std::string& candidate : candidates) {
    if (!normalised(candidate).starts_with(wanted)) continue;
    if (!best.empty()) return "";
    best = candidate;
  }
  return best;
}

Status choice_error(std::string_view text, const std::vector<std::string>& names,
                    const std::string& accepted) {
  const std::string near = nearest_name(text, names);
  const std::string hint = near.empty() ? "" : fmt::format(" (did you mean {}?)", near);
  return usage_error("'{}' is not known{}; accepted is {}", text, hint, accepted);
}

std::string accepted_text(IntRange range) {
  if (range.words != nullptr) return range.words;
  if (range.max == std::numeric_limits<int64_t>::max()) {
    return fmt::format("a whole number of at least {}", range.min);
  }
  return fmt::format("a whole number from {} to {}", range.min, range.max);
}

std::string accepted_text(NumberRange range) {
  const std::string low =
      fmt::format("{} {}", range.above_min ? "above" : "of at least", number_text(range.min));
  std::string out = "a number " + low;
  if (range.max < std::numeric_limits<double>::max()) {
    out += fmt::format(" and {} {}", range.below_max ? "below" : "at most", number_text(range.max));
  }
  if (range.infinity) out += ", or inf";
  return out;
}

std::string number_text(double value) { return fmt::format("{}", value); }

Result<int64_t> parse_int_option(std::string_view text, IntRange range, const std::string& accepted) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && end == text.data() + text.size();
  if (error == std::errc::result_out_of_range && whole) {
    return usage_error("'{}' does not fit 64 bits; accepted is {}", text, accepted);
  }
  if (error != std::errc() || !whole)
    return usage_error("'{}' is not a whole number; accepted is {}", text, accepted);
  if (value < range.min) return usage_error("'{}' is too small; accepted is {}", text, accepted);
  if (value > range.max) return usage_error("'{}' is too large; accepted is {}", text, accepted);
  return value;
}

Result<double> parse_number_option(std::string_view text, NumberRange range, const std::string& accepted) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && end == text.data() + text.size();
  if (error == std::errc::result_out_of_range && whole) {
    return usage_error("'{}' is out of a number's range; accepted is {}", text, accepted);
  }
  if (error != std::errc() || !whole || std::isnan(value)) {
    return usage_error("'{}' is not a number; accepted is {}", text, accepted);
  }
  if (std::isinf(value) && value > 0 && range.infinity) return value;
  if (value < range.min || (range.above_min && value <= range.min)) {
    return usage_error("'{}' is too small; accepted is {}", text, accepted);
  }
  if (value > range.max || (range.below_max && value >= range.max)) {
    return usage_error("'{}' is too large; accepted is {}", text, accepted);
  }
  return value;
}

Result<bool> parse_bool_option(std::string_view text) {
  for (const char* yes : {"true", "yes", "on", "1"}) {
    if (equal_ignoring_case(text, yes)) return true;
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    if (equal_ignoring_case(text, no)) return false;
  }
  return usage_error("'{}' is neither true nor false; accepted is true or false", text);
}

OptionTable::OptionTable(Options& options) {
  declare_bench(options);
  declare_engine(options);
  declare_sim(options);
  declare_step(options);
  declare_programs(options);
}

std::vector<const OptionDeclaration*> OptionTable::of(Program program) const {
  std::vector<const OptionDeclaration*> out;
  for (const OptionDeclaration& d : declarations_) {
    if (d.programs.has(program)) out.push_back(&d);
  }
  return out;
}

const OptionDeclaration* OptionTable::find(Program program, std::string_view name) const {
  for (const OptionDeclaration& d : declarations_) {
    if (!d.programs.has(program)) continue;
    if (d.name == name || std::find(d.aliases.begin(), d.aliases.end(), name) != d.aliases.end()) return &d;
  }
  return nullptr;
}

OptionDeclaration& OptionTable::add(std::string name, OptionShape shape, ProgramSet programs,
                                    std::string help) {
  OptionDeclaration& d = declarations_.emplace_back();
  d.name = std::move(name);
  d.group = group_;
  d.shape = shape;
  d.programs = programs;
  d.help = std::move(help);
  return d;
}

OptionDeclaration& OptionTable::flag(std::string name, bool& field, ProgramSet programs, std::string help) {
  OptionDeclaration& d = add(std::move(name), OptionShape::kFlag, programs, std::move(help));
  d.accepted = "true or false";
  d.assign = [&field](std::string_view text) -> Status {
    VLLM_ASSIGN_OR_RETURN(field, parse_bool_option(text));
    return Status::ok();
  };
  d.text = [&field] { return std::string(field ? "true" : "false"); };
  return d;
}

OptionDeclaration& OptionTable::negatable(std::string name, bool& field, ProgramSet programs,
                                          std::string help) {
  OptionDeclaration& d = flag(std::move(name), field, programs, std::move(help));
  d.shape = OptionShape::kNegatable;
  return d;
}

OptionDeclaration& OptionTable::number(std::string name, double& field, NumberRange range,
                                       ProgramSet programs, std::string help) {
  OptionDeclaration& d = add(std::move(name), OptionShape::kValue, programs, std::move(help));
  d.value_name = std::string("F");
  d.accepted = accepted_text(range);
  d.assign = [&field, range, accepted = d.accepted](std::string_view text) -> Status {
    VLLM_ASSIGN_OR_RETURN(field, parse_number_option(text, range, accepted));
    return Status::ok();
  };
  d.text = [&field] { return number_text(field); };
  return d;
}

OptionDeclaration& OptionTable::number_or_auto(std::string name, std::optional<double>& field,
                                               NumberRange range, ProgramSet programs, std::string help) {
  OptionDeclaration& d = add(std::move(name), OptionShape::kValue, programs, std::move(help));
  d.value_name = "auto|F";
  d.accepted = accepted_text(range) + ", or auto";
  d.assign = [&field, range, accepted = d.accepted](std::string_view text) -> Status {
    if (text == "auto") {
      field.reset();
      return Status::ok();
    }
    VLLM_ASSIGN_OR_RETURN(field, parse_number_option(text, range, accepted));
    return Status::ok();
  };
  d.text = [&field] { return field ? number_text(*field) : std::string("auto"); };
  return d;
}

OptionDeclaration& OptionTable::size_or_auto(std::string name, std::optional<int64_t>& field,
                                             ProgramSet programs, std::string help) {
  OptionDeclaration& d = add(std::move(name), OptionShape::kValue, programs, std::move(help));
  d.value_name = "auto|SIZE";
  d.accepted = "a positive number of bytes or a size like 512MiB or 1.5GiB, or auto";
  d.assign = [&field](std::string_view text) -> Status {
    if (text == "auto") {
      field.reset();
      return Status::ok();
    }
    VLLM_ASSIGN_OR_RETURN(field, parse_size(text));
    return Status::ok();
  };
  d.text = [&field] { return field ? fmt::format("{}", *field) : std::string("auto"); };
  return d;
}

OptionDeclaration& OptionTable::text(std::string name, std::string& field, std::string value_name,
                                     std::string accepted, ProgramSet programs, std::string help) {
  OptionDeclaration& d = add(std::move(name), OptionShape::kValue, programs, std::move(help));
  d.value_name = std::move(value_name);
  d.accepted = std::move(accepted);
  d.assign = [&field, wanted = d.accepted](std::string_view value) -> Status {
    if (value.empty()) return usage_error("'' is empty; accepted is {}", wanted);
    field = std::string(value);
    return Status::ok();
  };
  d.text = [&field] { return field; };
  return d;
}

}  // namespace vllm
