#include "config/architectures/registry.h"

namespace vllm {

std::vector<Architecture> architectures() {
  std::vector<Architecture> out;
#define VLLM_ADD_ARCHITECTURE(name) out.push_back(name##_architecture());
  VLLM_ARCHITECTURES(VLLM_ADD_ARCHITECTURE)
#undef VLLM_ADD_ARCHITECTURE
  return out;
}

}  // namespace vllm
