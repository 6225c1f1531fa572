#pragma once

// Instruction sets of this machine's processor, asked at run time: nothing that ships is built for one
// machine.

#include <string>
#include <vector>

namespace vllm {

// Levels that have kernels of their own, each including those before it.
enum class Isa { kGeneric, kAvx2, kAvx512 };

Isa best_isa();
const char* isa_name(Isa isa);  // "generic", "avx2", "avx512"

// Features that matter here and that this processor has: "avx2", "fma", "f16c", "avx512f", "avx512_vnni", ...
std::vector<std::string> cpu_feature_names();

}  // namespace vllm
