#pragma once

// Names out of files in messages: a hostile one must not steer a terminal or fill a log.

#include <string>
#include <string_view>

namespace vllm {

// At most 80 bytes of `text`, what is not printable ASCII escaped as \xNN, "..." after what was cut.
std::string printable(std::string_view text);

// All of `text`, with line feeds and what is beyond ASCII as they are and every other control character
// escaped as \xNN: for a whole message.
std::string without_control_characters(std::string_view text);

}  // namespace vllm
