#pragma once

// The name of Json for headers. formats/json.h, which defines it, costs seconds of compilation; files that
// touch a Json's contents include that.

#include <nlohmann/json_fwd.hpp>

namespace vllm {

using Json = nlohmann::ordered_json;

}  // namespace vllm
