#pragma once

// What both simulators do alike with their run's name, their files' names and stdout.

#include <string>

#include "base/status.h"
#include "config/options.h"

namespace vllm {

// --run-id, else a name made of what was asked for, so that two equal runs have one name.
std::string sim_run_id(const ParsedOptions& parsed);
// Every "{run_id}" in a path replaced.
std::string with_run_id(std::string path, const std::string& run_id);
// The log goes to stdout; a closed pipe or a full disk is an error.
Status print_log(const std::string& text);

}  // namespace vllm
