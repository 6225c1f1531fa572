#pragma once

// Seeded random numbers that are the same on every machine, compiler and library: xoshiro256++, its state
// filled by splitmix64 from the seed and a stream number; the transforms are ours and use only exactly
// rounded operations
// (+ - * / sqrt), since the standard library's distributions and the C library's log and exp differ between
// systems.

#include <array>
#include <cstdint>

namespace vllm {

// One step of splitmix64: advances `state` and returns 64 well-mixed bits.
uint64_t splitmix64(uint64_t& state);

// Natural logarithm (x > 0) and exponential, within 2 units in the last place, equal bit for bit everywhere.
double portable_log(double x);
double portable_exp(double x);

// Not thread-safe: one thread owns a generator. Different streams of one seed are independent.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0);

  uint64_t next();                        // 64 bits
  uint64_t below(uint64_t n);             // uniform in [0, n), n > 0, without bias
  int64_t between(int64_t a, int64_t b);  // uniform in [a, b], a <= b
  double uniform();                       // [0, 1), 53 bits
  double uniform_positive();              // (0, 1]
  double normal();                        // mean 0, variance 1
  double exponential();                   // mean 1
  double gamma(double shape);             // scale 1, shape > 0

 private:
  std::array<uint64_t, 4> state_;
  double spare_normal_ = 0;
  bool has_spare_normal_ = false;
};

}  // namespace vllm
