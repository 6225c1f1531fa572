#include "common/program.h"

int main(int argc, char** argv) {
  return vllm::guarded_main("vllm-server", argc, argv, [](const std::vector<std::string>& args) {
    return vllm::run_program(vllm::Program::kServer, args,
                             nullptr);  // not_built_yet() answers before a job is called
  });
}
