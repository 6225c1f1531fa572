#pragma once

// Building and reading small JSON documents. `Json` keeps the order of insertion. Large or hostile files are
// parsed with simdjson by their own readers.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace vllm {

using Json = nlohmann::ordered_json;

// Parses a whole document; errors name `what` (a path) and the position. Refuses nesting deeper than 256.
Result<Json> parse_json(std::string_view text, const std::string& what);
Result<Json> read_json_file(const std::string& path);
// Indent 2 and a final newline; doubles in the shortest form that reads back equal, NaN and infinity as null.
std::string json_text(const Json& value);

// One number as json_text writes it, laid out as Python's repr: 1.0, 0.0001, 1e-05, 1e+16.
std::string json_double(double value);
// A quoted and escaped string; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace vllm
