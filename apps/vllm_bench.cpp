#include "base/clock.h"
#include "bench/check_schedule.h"
#include "bench/run.h"
#include "bench/validate.h"
#include "common/interrupt.h"
#include "common/program.h"
#include "config/option_table.h"

namespace vllm {
namespace {

Status replay(const ParsedOptions& parsed) {
  RealClock clock;
  return bench_run(parsed, clock, install_interrupt_flag());
}

int bench_main(const std::vector<std::string>& args) {
  if (args.empty()) {
    return report_error("vllm-bench",
                        usage_error("a subcommand is missing: run, check-schedule or validate (without one "
                                    "it is the load mode, which is not built yet); see --help"));
  }
  const std::string& first = args[0];
  // For docs/options.md alone, therefore in no help.
  if (first == "--options-markdown") return report_error("vllm-bench", write_stdout(options_markdown()));
  if (first.starts_with("-")) return run_program(Program::kBenchLoad, args, nullptr);

  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (first == "run") return run_program(Program::kBenchRun, rest, replay);
  if (first == "check-schedule") return run_program(Program::kBenchCheckSchedule, rest, check_schedule);
  if (first == "validate") return run_program(Program::kBenchValidate, rest, validate);
  const std::string near = nearest_name(first, {"run", "check-schedule", "validate"});
  return report_error("vllm-bench",
                      usage_error("unknown subcommand '{}'{}; accepted is run, check-schedule, validate, "
                                  "or none for the load mode",
                                  first, near.empty() ? "" : ", did you mean " + near + "?"));
}

}  // namespace
}  // namespace vllm

int main(int argc, char** argv) { return vllm::guarded_main("vllm-bench", argc, argv, vllm::bench_main); }
