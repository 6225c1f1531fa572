#include "formats/profile_bundle.h"
#include "fuzz_file.h"

// A bundle's meta.yaml.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::map<int, vllm::ProfileTables> skew;
  const auto meta = vllm::parse_profile_meta({reinterpret_cast<const char*>(data), size}, "fuzz", &skew);
  if (!meta) return 0;
  for (const vllm::SkewAxis* axis :
       {&meta->skew.n, &meta->skew.skew_rate, &meta->skew.kv_big, &meta->skew.kp}) {
    if (axis->labels.empty()) continue;  // no skew_fit
    for (const double value : {-1e18, 0.0, 3.5, 1e18}) {
      const int bin = axis->bin(value);
      vllm::fuzzing::require(bin >= 0 && bin < static_cast<int>(axis->labels.size()));
    }
  }
  return 0;
}
