#include "formats/json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/file.h"

namespace vllm {
namespace {

constexpr int kMaxDepth = 256;
// A member is looked up by a walk over its object, so that a huge object would take quadratic time.
constexpr int64_t kMaxMembers = 10'000;
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

std::string position(std::string_view text, size_t offset) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return fmt::format("{}:{}", line, column);
}

// Bounds nesting and the size of objects before the document is built. What is malformed is left to the
// parser.
Status check_bounds(std::string_view text, const std::string& what) {
  std::vector<int64_t> members;  // of each open object, commas seen
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') {
      // A list has no bound but the file's: it counts down from far below.
      members.push_back(c == '{' ? 0 : INT64_MIN / 2);
      if (static_cast<int>(members.size()) > kMaxDepth) {
        return bad_input("{}:{}: is nested deeper than {} levels", what, position(text, i), kMaxDepth);
      }
    }
    if ((c == '}' || c == ']') && !members.empty()) members.pop_back();
    if (c == ',' && !members.empty() && ++members.back() >= kMaxMembers) {
      return bad_input("{}:{}: an object has more than {} members", what, position(text, i), kMaxMembers);
    }
  }
  return Status::ok();
}

// nlohmann's message without its own prefix and position, which ours replaces.
std::string reason(const char* message) {
  std::string text = message;
  static constexpr std::string_view kColumn = "column ";
  const size_t column = text.find(kColumn);
  if (column != std::string::npos) {
    const size_t colon = text.find(": ", column);
    if (colon != std::string::npos) return text.substr(colon + 2);
  }
  const size_t bracket = text.find("] ");
  return bracket == std::string::npos ? text : text.substr(bracket + 2);
}

void append_json(const Json& value, int indent, std::string& out) {
  const auto newline = [&](int depth) {
    out += '\n';
    out.append(static_cast<size_t>(depth) * 2, ' ');
  };
  if (value.is_object() && !value.empty()) {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : value.items()) {
      if (!std::exchange(first, false)) out += ',';
      newline(indent + 1);
      out += json_string(key);
      out += ": ";
      append_json(member, indent + 1, out);
    }
    newline(indent);
    out += '}';
  } else if (value.is_array() && !value.empty()) {
    out += '[';
    bool first = true;
    for (const Json& member : value) {
      if (!std::exchange(first, false)) out += ',';
      newline(indent + 1);
      append_json(member, indent + 1, out);
    }
    newline(indent);
    out += ']';
  } else if (value.is_number_float()) {
    out += json_double(value.get<double>());
  } else if (value.is_string()) {
    out += json_string(value.get_ref<const std::string&>());
  } else {
    out += value.dump();
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& what) {
  VLLM_RETURN_IF_ERROR(check_bounds(text, what));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const size_t offset = error.byte == 0 ? 0 : error.byte - 1;
    return bad_input("{}:{}: is not valid JSON: {}", what, position(text, offset), reason(error.what()));
  } catch (const Json::exception& error) {
    // A number beyond the range of a double, for one: the library does not tell where.
    return bad_input("{}: is not valid JSON: {}", what, reason(error.what()));
  }
}

Result<Json> read_json_file(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_json(text, path);
}

std::string json_double(double value) {
  if (!std::isfinite(value)) return "null";
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  // d[.ddd]e[+-]dd: the shortest digits that read back equal. They are laid out as Python does.
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string out = value < 0 ? "-" : "";
  if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    return out;
  }
  const auto point = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= point) return out + digits + std::string(point - digits.size(), '0') + ".0";
  return out + digits.substr(0, point) + "." + digits.substr(point);
}

std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_text(const Json& value) {
  std::string out;
  append_json(value, 0, out);
  out += '\n';
  return out;
}

}  // namespace vllm
