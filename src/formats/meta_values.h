#pragma once

// Values out of a recording's meta.json, whose dialects differ in where a value stands and how it is written.
// Private to formats.

#include <charconv>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "formats/json.h"
#include "formats/printable.h"

namespace vllm {

inline const Json* find_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// "a.b.c"; nullptr when a step is absent or null.
inline const Json* find_path(const Json& root, std::string_view path) {
  const Json* at = &root;
  while (at != nullptr && !path.empty()) {
    const size_t dot = path.find('.');
    at = find_member(*at, path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return at;
}

// Values are typed, or text as Python prints them ("128", "True", "0.0", "None").
class MetaValues {
 public:
  MetaValues(const Json& root, const std::string& path) : root_(root), path_(path) {}

  // The first place that says anything.
  const Json* first(std::initializer_list<std::string_view> places, std::string& found) const {
    for (const std::string_view place : places) {
      const Json* value = find_path(root_, place);
      if (value == nullptr || (value->is_string() && value->get_ref<const std::string&>() == "None"))
        continue;
      found = std::string(place);
      return value;
    }
    return nullptr;
  }

  Result<std::optional<double>> number(std::initializer_list<std::string_view> places) const {
    std::string place;
    const Json* value = first(places, place);
    if (value == nullptr) return std::optional<double>();
    double number = NAN;
    if (value->is_number()) {
      number = value->get<double>();
    } else if (value->is_string()) {
      const auto& text = value->get_ref<const std::string&>();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) number = NAN;
    }
    if (!std::isfinite(number)) return wrong(place, *value, "a number");
    return std::optional(number);
  }

  Result<std::optional<int64_t>> integer(std::initializer_list<std::string_view> places, int64_t low,
                                         int64_t high) const {
    VLLM_ASSIGN_OR_RETURN(const auto value, number(places));
    if (!value) return std::optional<int64_t>();
    std::string place;
    const Json* json = first(places, place);
    if (*value != std::floor(*value) || *value < static_cast<double>(low) ||
        *value > static_cast<double>(high)) {
      return wrong(place, *json, fmt::format("a whole number from {} to {}", low, high));
    }
    return std::optional(static_cast<int64_t>(*value));
  }

  Result<std::optional<bool>> truth(std::initializer_list<std::string_view> places) const {
    std::string place;
    const Json* value = first(places, place);
    if (value == nullptr) return std::optional<bool>();
    if (value->is_boolean()) return std::optional(value->get<bool>());
    if (value->is_string()) {
      const auto& text = value->get_ref<const std::string&>();
      if (text == "True" || text == "true") return std::optional(true);
      if (text == "False" || text == "false") return std::optional(false);
    }
    return wrong(place, *value, "true or false");
  }

  Status missing(std::string_view what, std::string_view places) const {
    return bad_input("{}: does not say {}: it should stand in {}", path_, what, places);
  }

 private:
  Status wrong(const std::string& place, const Json& value, std::string_view accepted) const {
    return bad_input("{}: '{}' is {}, {} is needed", path_, place,
                     printable(value.dump(-1, ' ', false, Json::error_handler_t::replace)), accepted);
  }

  const Json& root_;
  const std::string& path_;
};

}  // namespace vllm
