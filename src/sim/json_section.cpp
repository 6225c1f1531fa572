#include "sim/json_section.h"

#include <cmath>

#include "formats/json.h"
#include "formats/printable.h"

namespace vllm {
namespace {

const Json& empty_object() {
  static const Json object = Json::object();
  return object;
}

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

JsonSection::JsonSection(const Json& json, std::string path, std::string field,
                         std::shared_ptr<Status> status)
    : json_(json.is_object() ? &json : &empty_object()),
      path_(std::move(path)),
      field_(std::move(field)),
      status_(std::move(status)) {
  if (json.is_object() || !status_->is_ok()) return;
  if (field_.empty()) {
    *status_ = bad_input("{}: is not a JSON object", path_);
  } else {
    *status_ = bad_input("{}: '{}' is {}; accepted is an object", path_, field_, shown(json));
  }
}

std::string JsonSection::name(const std::string& key) const {
  return field_.empty() ? key : field_ + "." + key;
}

void JsonSection::fail(const std::string& key, const std::string& why) {
  if (status_->is_ok()) *status_ = bad_input("{}: '{}' {}", path_, name(key), why);
}

void JsonSection::refuse(const std::string& key, const std::string& why) {
  if (status_->is_ok()) *status_ = refused("{}: '{}' {}", path_, name(key), why);
}

void JsonSection::reject(const std::string& key, const Json& value, const std::string& accepted) {
  fail(key, fmt::format("is {}; accepted is {}", shown(value), accepted));
}

const Json* JsonSection::raw(const std::string& key) {
  read_.insert(key);
  const auto it = json_->find(key);
  return it == json_->end() ? nullptr : &*it;
}

bool JsonSection::has(const std::string& key) {
  const Json* value = raw(key);
  return value != nullptr && !value->is_null();
}

int64_t JsonSection::integer(const std::string& key, int64_t absent, int64_t low, int64_t high) {
  const Json* value = raw(key);
  if (value == nullptr || value->is_null()) return absent;
  // 2.0 is a whole number too.
  const double real = value->is_number() ? value->get<double>() : std::nan("");
  if (!(real >= static_cast<double>(low) && real <= static_cast<double>(high)) || real != std::floor(real)) {
    reject(key, *value, fmt::format("a whole number from {} to {}", low, high));
    return absent;
  }
  return static_cast<int64_t>(real);
}

double JsonSection::number(const std::string& key, double absent, double low, double high) {
  const Json* value = raw(key);
  if (value == nullptr || value->is_null()) return absent;
  const double real = value->is_number() ? value->get<double>() : std::nan("");
  if (real >= low && real <= high) return real;
  reject(key, *value, fmt::format("a number from {} to {}", low, high));
  return absent;
}

bool JsonSection::boolean(const std::string& key, bool absent) {
  const Json* value = raw(key);
  if (value == nullptr || value->is_null()) return absent;
  if (value->is_boolean()) return value->get<bool>();
  reject(key, *value, "true or false");
  return absent;
}

std::string JsonSection::text(const std::string& key, const std::string& absent) {
  const Json* value = raw(key);
  if (value == nullptr || value->is_null()) return absent;
  if (value->is_string()) return value->get<std::string>();
  reject(key, *value, "a text");
  return absent;
}

int64_t JsonSection::needed_integer(const std::string& key, int64_t low, int64_t high) {
  if (!has(key)) fail(key, fmt::format("is missing; a whole number from {} to {} is needed", low, high));
  return integer(key, low, low, high);
}

double JsonSection::needed_number(const std::string& key, double low, double high) {
  if (!has(key)) fail(key, fmt::format("is missing; a number from {} to {} is needed", low, high));
  return number(key, low, low, high);
}

std::string JsonSection::needed_text(const std::string& key) {
  const std::string value = text(key, "");
  if (value.empty()) fail(key, "is missing or empty; a text is needed");
  return value;
}

JsonSection JsonSection::object(const std::string& key) {
  return has(key) ? JsonSection(*raw(key), path_, name(key), status_)
                  : JsonSection(empty_object(), path_, name(key), status_);
}

JsonSection JsonSection::needed_object(const std::string& key) {
  if (!has(key)) fail(key, "is missing; an object is needed");
  return object(key);
}

std::vector<std::string> JsonSection::unread() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : json_->items()) {
    if (read_.count(key) == 0) out.push_back(name(printable(key)));
  }
  return out;
}

}  // namespace vllm
