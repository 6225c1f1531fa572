#include "sim/python_random.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace vllm {

// Mersenne twister with 32-bit words, seeded by an array of one word (Matsumoto and Nishimura, 2002).
PythonRandom::PythonRandom(uint32_t seed) {
  state_[0] = 19650218u;
  for (uint32_t i = 1; i < kWords; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
  size_t i = 1;
  const auto previous = [&] { return state_[i - 1] ^ (state_[i - 1] >> 30); };
  const auto step = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (size_t k = 0; k < kWords; ++k) {
    state_[i] = (state_[i] ^ (previous() * 1664525u)) + seed;
    step();
  }
  for (size_t k = 0; k + 1 < kWords; ++k) {
    state_[i] = (state_[i] ^ (previous() * 1566083941u)) - static_cast<uint32_t>(i);
    step();
  }
  state_[0] = 0x80000000u;
}

void PythonRandom::refill() {
  for (size_t k = 0; k < kWords; ++k) {
    const uint32_t y = (state_[k] & 0x80000000u) | (state_[(k + 1) % kWords] & 0x7FFFFFFFu);
    state_[k] = state_[(k + 397) % kWords] ^ (y >> 1) ^ ((y & 1u) != 0 ? 0x9908B0DFu : 0u);
  }
  used_ = 0;
}

uint32_t PythonRandom::next() {
  if (used_ == kWords) refill();
  uint32_t y = state_[used_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680u;
  y ^= (y << 15) & 0xEFC60000u;
  return y ^ (y >> 18);
}

uint32_t PythonRandom::below(uint32_t n) {
  const int bits = std::bit_width(n);
  uint32_t r = next() >> (32 - bits);
  while (r >= n) r = next() >> (32 - bits);
  return r;
}

void PythonRandom::sample(uint32_t n, uint32_t k, std::vector<uint32_t>& out) {
  out.clear();
  // Few of many: drawn again when drawn before. Else from a shrinking pool. The limit is CPython's.
  uint64_t set_size = 21;
  if (k > 5) {
    uint64_t power = 1;
    while (power < uint64_t{3} * k) power *= 4;
    set_size += power;
  }
  if (n > set_size) {
    while (out.size() < k) {
      const uint32_t drawn = below(n);
      if (std::find(out.begin(), out.end(), drawn) == out.end()) out.push_back(drawn);
    }
    return;
  }
  pool_.resize(n);
  std::iota(pool_.begin(), pool_.end(), 0u);
  for (uint32_t i = 0; i < k; ++i) {
    const uint32_t j = below(n - i);
    out.push_back(pool_[j]);
    pool_[j] = pool_[n - i - 1];
  }
}

}  // namespace vllm
