#pragma once

// SIGINT and SIGTERM as a flag, for jobs that end in order when they see it.

#include <atomic>

namespace vllm {

// Installs the handlers and returns the flag, which lives as long as the process: a signal handler reaches
// nothing else. The first signal sets it; the second ends the process at once, as it would have without
// handlers. SIGPIPE is ignored, so that a closed stdout is an error of a write and not the end of a run. Call
// once, before threads start.
const std::atomic<bool>& install_interrupt_flag();

}  // namespace vllm
