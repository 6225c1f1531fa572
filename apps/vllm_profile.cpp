#include "common/program.h"
#include "profile/from_steps.h"

int main(int argc, char** argv) {
  return vllm::guarded_main("vllm-profile", argc, argv, [](const std::vector<std::string>& args) {
    return vllm::run_program(vllm::Program::kProfile, args, vllm::profile_from_steps);
  });
}
