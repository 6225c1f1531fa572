#pragma once

// `vllm-bench run`: strict replay of a workload, with every number of the run on disk (docs/bench.md).

#include <atomic>

#include "base/clock.h"
#include "base/status.h"
#include "config/options.h"

namespace vllm {

// Runs to its end and prints the table to stdout. Everything that can be refused is refused before the engine
// allocates (exit code 2). `interrupted` may be set from a signal handler at any time: the run ends with
// aborted.json and kAborted. `clock` must be safe to use from several threads, as the real one is.
Status bench_run(const ParsedOptions& parsed, Clock& clock, const std::atomic<bool>& interrupted);

}  // namespace vllm
