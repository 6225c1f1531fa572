#pragma once

// Text inside HTML and SVG.

#include <string>
#include <string_view>

namespace vllm {

// &, <, >, and quotes as entities; control characters, and bytes that are not UTF-8, as U+FFFD.
std::string escaped_markup(std::string_view text);

}  // namespace vllm
