#pragma once

// What the readers of JSON lines share: the members of one object, each read by its kind, with errors that
// name the key. Private to formats: only its .cpp files include it (simdjson stays out of the other headers).

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "base/status.h"
#include "formats/line_reader.h"
#include "formats/printable.h"
#include "formats/simdjson_no_throw.h"

namespace vllm {

static_assert(LineReader::kPadding >= simdjson::SIMDJSON_PADDING);

// An integer, also one written as a float that is exactly one (1e9, 5.0).
inline Result<int64_t> read_integer(simdjson::ondemand::value value, std::string_view key) {
  const auto bad = [&](std::string_view why) {
    return bad_input("'{}' {}, a whole number is needed", key, why);
  };
  simdjson::ondemand::json_type type{};
  if (value.type().get(type) || type != simdjson::ondemand::json_type::number) return bad("is not a number");
  simdjson::ondemand::number number;
  if (value.get_number().get(number)) return bad("is not a number that fits 64 bits");
  if (number.is_int64()) return number.get_int64();
  if (number.is_uint64()) return bad_input("'{}' is {}, more than 63 bits", key, number.get_uint64());
  const double real = number.get_double();
  if (real != std::floor(real)) return bad(fmt::format("is {}", real));
  // Beyond 2^53 a double does not say which integer was meant.
  if (std::abs(real) > 9007199254740992.0) return bad(fmt::format("is {}, not exact as a float", real));
  return static_cast<int64_t>(real);
}

inline Result<int64_t> read_integer_in(simdjson::ondemand::value value, std::string_view key, int64_t low,
                                       int64_t high) {
  VLLM_ASSIGN_OR_RETURN(const int64_t number, read_integer(value, key));
  if (number < low || number > high) {
    return bad_input("'{}' is {}, accepted is {} to {}", key, number, low, high);
  }
  return number;
}

inline Result<double> read_number(simdjson::ondemand::value value, std::string_view key) {
  double number = 0;
  if (value.get_double().get(number)) return bad_input("'{}' is not a number", key);
  return number;
}

inline Result<std::string_view> read_text(simdjson::ondemand::value value, std::string_view key) {
  std::string_view text;
  if (value.get_string().get(text)) return bad_input("'{}' is not a string", key);
  return text;
}

inline bool is_null(simdjson::ondemand::value value) {
  bool null = false;
  return !value.is_null().get(null) && null;
}

// Reads a value to its end, so that a malformed one behind a key that is not ours is found too.
inline bool is_well_formed(simdjson::ondemand::value value, int depth = 0) {
  constexpr int kMaxDepth = 64;
  if (depth > kMaxDepth) return false;
  simdjson::ondemand::json_type type{};
  if (value.type().get(type)) return false;
  switch (type) {
    case simdjson::ondemand::json_type::object: {
      simdjson::ondemand::object object;
      if (value.get_object().get(object)) return false;
      for (auto field : object) {
        std::string_view key;
        simdjson::ondemand::value member;
        if (field.unescaped_key().get(key) || field.value().get(member) ||
            !is_well_formed(member, depth + 1)) {
          return false;
        }
      }
      return true;
    }
    case simdjson::ondemand::json_type::array: {
      simdjson::ondemand::array array;
      if (value.get_array().get(array)) return false;
      for (auto item : array) {
        simdjson::ondemand::value member;
        if (item.get(member) || !is_well_formed(member, depth + 1)) return false;
      }
      return true;
    }
    case simdjson::ondemand::json_type::number: {
      double number = 0;
      return !value.get_double().get(number);
    }
    case simdjson::ondemand::json_type::string: {
      std::string_view text;
      return !value.get_string().get(text);
    }
    case simdjson::ondemand::json_type::boolean: {
      bool truth = false;
      return !value.get_bool().get(truth);
    }
    case simdjson::ondemand::json_type::null:
      return is_null(value);
  }
  return false;
}

// Which of a row's known keys were seen; a second one of the same name is an error.
class SeenKeys {
 public:
  Status add(unsigned bit, std::string_view key) {
    if ((seen_ & (1u << bit)) != 0) return bad_input("key '{}' is given twice", key);
    seen_ |= 1u << bit;
    return Status::ok();
  }
  bool has(unsigned bit) const { return (seen_ & (1u << bit)) != 0; }

 private:
  unsigned seen_ = 0;
};

// Calls member(key, value) for every member of the object in `line`, which has LineReader::kPadding bytes
// behind it. `member` returns a Status; what is behind the object is an error.
template <typename Member>
Status for_each_member(simdjson::ondemand::parser& parser, std::string_view line, Member&& member) {
  const auto not_json = [](simdjson::error_code error) {
    return bad_input("is not a JSON object: {}", simdjson::error_message(error));
  };
  simdjson::ondemand::document document;
  const simdjson::padded_string_view padded(line.data(), line.size(), line.size() + LineReader::kPadding);
  if (const auto error = parser.iterate(padded).get(document)) return not_json(error);
  simdjson::ondemand::object object;
  if (const auto error = document.get_object().get(object)) return not_json(error);
  for (auto field : object) {
    std::string_view key;
    simdjson::ondemand::value value;
    if (const auto error = field.unescaped_key().get(key)) return not_json(error);
    if (const auto error = field.value().get(value)) return not_json(error);
    VLLM_RETURN_IF_ERROR(member(key, value));
  }
  // OUT_OF_BOUNDS says that no token is left.
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return bad_input("is not one JSON object: something follows it");
  return Status::ok();
}

}  // namespace vllm
