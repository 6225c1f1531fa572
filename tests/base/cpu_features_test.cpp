#include "base/cpu_features.h"

#include <algorithm>

namespace vllm {
namespace {

TEST(CpuFeatures, TheBestIsaHasTheFeaturesThatItNeeds) {
  const auto names = cpu_feature_names();
  const auto has = [&](const std::string& n) {
    return std::find(names.begin(), names.end(), n) != names.end();
  };
  EXPECT_TRUE(best_isa() < Isa::kAvx2 || (has("avx2") && has("fma") && has("f16c")));
  EXPECT_TRUE(best_isa() < Isa::kAvx512 || (has("avx512f") && has("avx512bw") && has("avx512vl")));
  EXPECT_STREQ(isa_name(Isa::kAvx512), "avx512");
}

}  // namespace
}  // namespace vllm
