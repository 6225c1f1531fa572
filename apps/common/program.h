#pragma once

// What all programs do alike: read options, answer --help and --version, set up logging, print the KV plan,
// say what is not built yet, run their job, and turn its status into a message on stderr and an exit code.
// One thread.

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/options.h"

namespace vllm {

// The job of a program whose options are parsed, supported and not about a plan.
using Job = std::function<Status(const ParsedOptions&)>;

// `args` without the names of program and subcommand. Returns the exit code.
int run_program(Program program, const std::vector<std::string>& args, const Job& job);

// For main(): calls `body` with the words after the program's name. Nothing of ours throws; what a library
// throws past every boundary ends here with a message and exit code 1.
int guarded_main(const char* name, int argc, char** argv,
                 const std::function<int(const std::vector<std::string>&)>& body);

// Writes a whole result to stdout and flushes it, so that a closed pipe or a full disk is an error.
Status write_stdout(const std::string& text);
// "<name>: <message>" on stderr; returns the status's exit code.
int report_error(const std::string& name, const Status& status);

std::string version_text(Program program);

}  // namespace vllm
