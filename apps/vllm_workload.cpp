#include "common/program.h"
#include "workload/generate.h"

int main(int argc, char** argv) {
  return vllm::guarded_main("vllm-workload", argc, argv, [](const std::vector<std::string>& args) {
    return vllm::run_program(vllm::Program::kWorkload, args, vllm::generate_workload);
  });
}
