#pragma once

// The generator that Python's random.Random(seed) is, as far as the reference simulator draws from it: the
// same numbers in the same order. Not for anything of our own (base/random.h is). One thread owns it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vllm {

class PythonRandom {
 public:
  explicit PythonRandom(uint32_t seed);

  // random.randrange(n), n > 0.
  uint32_t below(uint32_t n);
  // random.sample(range(n), k), k <= n, into `out` (cleared first).
  void sample(uint32_t n, uint32_t k, std::vector<uint32_t>& out);

 private:
  static constexpr size_t kWords = 624;
  uint32_t next();
  void refill();

  std::array<uint32_t, kWords> state_{};
  size_t used_ = kWords;
  std::vector<uint32_t> pool_;
};

}  // namespace vllm
