#include "base/clock.h"
#include "common/interrupt.h"
#include "common/program.h"
#include "sim/simulate.h"

namespace vllm {
namespace {

Status run(const ParsedOptions& parsed) {
  RealClock clock;
  return simulate(parsed, clock, install_interrupt_flag());
}

}  // namespace
}  // namespace vllm

int main(int argc, char** argv) {
  return vllm::guarded_main("vllm-sim", argc, argv, [](const std::vector<std::string>& args) {
    return vllm::run_program(vllm::Program::kSim, args, vllm::run);
  });
}
