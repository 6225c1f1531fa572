#pragma once

// vllm-profile --from-steps: recordings in, a step bundle and its tables out.

#include "base/status.h"
#include "config/options.h"

namespace vllm {

Status profile_from_steps(const ParsedOptions& parsed);

}  // namespace vllm
