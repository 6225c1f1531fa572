#include "backend/cpu/kernels.h"

namespace vllm {

const CpuKernels& cpu_kernels(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return kGenericKernels;
    case Isa::kAvx2:
      return kAvx2Kernels;
    case Isa::kAvx512:
      return kAvx512Kernels;
  }
  return kGenericKernels;
}

}  // namespace vllm
