#include "config/architectures/reader.h"

#include <cmath>

#include "formats/json.h"

namespace vllm {
namespace {

const Json& empty_object() {
  static const Json object = Json::object();
  return object;
}

// What a file says, short enough for a sentence.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr size_t kLongest = 60;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace

ConfigReader::ConfigReader(const Json& json, std::string source)
    : json_(json.is_object() ? &json : &empty_object()),
      source_(std::move(source)),
      status_(std::make_shared<Status>()) {
  if (!json.is_object()) {
    *status_ = bad_input("{}: the document is not a JSON object; accepted is a model's config.json", source_);
  }
}

const Json* ConfigReader::find(const std::string& key) const {
  const auto it = json_->find(key);
  return it == json_->end() ? nullptr : &*it;
}

bool ConfigReader::has(const std::string& key) const { return find(key) != nullptr; }

bool ConfigReader::is_null(const std::string& key) const {
  const Json* value = find(key);
  return value != nullptr && value->is_null();
}

bool ConfigReader::is_object(const std::string& key) const {
  const Json* value = find(key);
  return value != nullptr && value->is_object();
}

void ConfigReader::fail(const std::string& key, const std::string& why) {
  if (status_->is_ok()) *status_ = bad_input("{}: \"{}\" {}", source_, path(key), why);
}

void ConfigReader::reject(const std::string& key, const Json& value, const std::string& accepted) {
  fail(key, fmt::format("is {}; accepted is {}", shown(value), accepted));
}

std::optional<int64_t> ConfigReader::integer_value(const std::string& key, const Json& value, int64_t low,
                                                   int64_t high) {
  const bool fits_signed =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (fits_signed) {
    const auto number = value.get<int64_t>();
    if (number >= low && number <= high) return number;
  }
  reject(key, value, fmt::format("an integer from {} to {}", low, high));
  return std::nullopt;
}

std::optional<double> ConfigReader::number_value(const std::string& key, const Json& value, double low,
                                                 double high) {
  if (value.is_number()) {
    const auto number = value.get<double>();
    if (std::isfinite(number) && number >= low && number <= high) return number;
  }
  reject(key, value, fmt::format("a number from {} to {}", low, high));
  return std::nullopt;
}

int64_t ConfigReader::integer(const std::string& key, int64_t absent, int64_t low, int64_t high) {
  const Json* value = find(key);
  return value == nullptr ? absent : integer_value(key, *value, low, high).value_or(absent);
}

double ConfigReader::number(const std::string& key, double absent, double low, double high) {
  const Json* value = find(key);
  return value == nullptr ? absent : number_value(key, *value, low, high).value_or(absent);
}

bool ConfigReader::boolean(const std::string& key, bool absent) {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (value->is_boolean()) return value->get<bool>();
  reject(key, *value, "true or false");
  return absent;
}

std::string ConfigReader::text(const std::string& key, const std::string& absent) {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (value->is_string()) return value->get<std::string>();
  reject(key, *value, "a string");
  return absent;
}

std::optional<int64_t> ConfigReader::optional_integer(const std::string& key, std::optional<int64_t> absent,
                                                      int64_t low, int64_t high) {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (value->is_null()) return std::nullopt;
  return integer_value(key, *value, low, high);
}

std::optional<double> ConfigReader::optional_number(const std::string& key, std::optional<double> absent,
                                                    double low, double high) {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (value->is_null()) return std::nullopt;
  return number_value(key, *value, low, high);
}

std::optional<std::string> ConfigReader::optional_text(const std::string& key) {
  if (!has(key) || is_null(key)) return std::nullopt;
  return text(key, "");
}

std::vector<int64_t> ConfigReader::integers(const std::string& key, const std::vector<int64_t>& absent,
                                            int64_t low, int64_t high) {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  std::vector<int64_t> out;
  if (value->is_null()) return out;
  if (!value->is_array()) {
    if (const auto number = integer_value(key, *value, low, high)) out.push_back(*number);
    return out;
  }
  for (const Json& element : *value) {
    const auto number = integer_value(key, element, low, high);
    if (!number) return absent;
    out.push_back(*number);
  }
  return out;
}

std::vector<double> ConfigReader::numbers(const std::string& key, double low, double high) {
  std::vector<double> out;
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return out;
  if (!value->is_array()) {
    reject(key, *value, "a list of numbers");
    return out;
  }
  for (const Json& element : *value) {
    const auto number = number_value(key, element, low, high);
    if (!number) return {};
    out.push_back(*number);
  }
  return out;
}

std::optional<std::vector<std::string>> ConfigReader::texts(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  std::vector<std::string> out;
  bool good = value->is_array();
  for (size_t i = 0; good && i < value->size(); ++i) {
    good = (*value)[i].is_string();
    if (good) out.push_back((*value)[i].get<std::string>());
  }
  if (good) return out;
  reject(key, *value, "a list of strings");
  return std::nullopt;
}

ConfigReader ConfigReader::object(const std::string& key) {
  const Json* value = find(key);
  const bool none = value == nullptr || value->is_null();
  if (!none && !value->is_object()) reject(key, *value, "an object");
  ConfigReader inner(none || !value->is_object() ? empty_object() : *value, source_);
  inner.prefix_ = path(key) + ".";
  inner.status_ = status_;
  return inner;
}

}  // namespace vllm
