#pragma once

// The machine that a run was made on, for meta.json. What cannot be known here is null with a reason beside
// it.

#include <string>

#include "formats/json_fwd.h"

namespace vllm {

// `root` stands before /proc and /sys, so that tests can lay out a machine of their own.
Json hardware_json(const std::string& root = "");

// How steps were executed: on a CPU there are no graphs to capture.
Json execution_json(const std::string& executor, int threads);

// The three load averages; null where the system does not tell.
Json load_average_json(const std::string& root = "");

}  // namespace vllm
