#pragma once

// The in-process engine as a system under test.

#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "bench/system_under_test.h"
#include "config/options.h"

namespace vllm {

// Loads and starts the engine of `options`. `clock` outlives the target.
Result<std::unique_ptr<SystemUnderTest>> start_engine_target(const Options& options, Clock& clock);

}  // namespace vllm
