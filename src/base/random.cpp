#include "base/random.h"

#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

namespace vllm {
namespace {

constexpr double kLn2High = 0x1.62e42fee00000p-1;  // the upper bits: times a small integer it is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInvLn2 = 0x1.71547652b82fep+0;
constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;

}  // namespace

uint64_t splitmix64(uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

double portable_log(double x) {
  assert(x > 0);
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < kSqrtHalf) {
    m *= 2;
    --exponent;
  }
  // log(m) = 2 atanh(s) with |s| <= 0.172: eleven odd terms reach the last bit.
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 3; k -= 2) sum = (sum + 1.0 / k) * s2;
  const double e = exponent;
  return e * kLn2High + (2 * s + (2 * s * sum + e * kLn2Low));
}

double portable_exp(double x) {
  if (x > 709.7) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0;
  const double k = std::floor(x * kInvLn2 + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;  // |r| <= 0.347
  double sum = 0;
  for (int n = 14; n >= 1; --n) sum = (sum + 1) * r / n;
  return std::ldexp(1 + sum, static_cast<int>(k));
}

Random::Random(uint64_t seed, uint64_t stream) {
  // The stream is mixed before it meets the seed, so that seed 1 stream 0 and seed 0 stream 1 have nothing in
  // common.
  uint64_t mixed_stream = stream;
  uint64_t state = seed ^ (stream == 0 ? 0 : splitmix64(mixed_stream));
  for (uint64_t& word : state_) word = splitmix64(state);
}

uint64_t Random::next() {
  auto& s = state_;
  const uint64_t result = std::rotl(s[0] + s[3], 23) + s[0];
  const uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = std::rotl(s[3], 45);
  return result;
}

uint64_t Random::below(uint64_t n) {
  assert(n > 0);
  // Multiply and keep the upper half; the few low halves that would make some results likelier are drawn
  // again.
  unsigned __int128 product = static_cast<unsigned __int128>(next()) * n;
  if (static_cast<uint64_t>(product) < n) {
    const uint64_t threshold = -n % n;
    while (static_cast<uint64_t>(product) < threshold) product = static_cast<unsigned __int128>(next()) * n;
  }
  return static_cast<uint64_t>(product >> 64);
}

int64_t Random::between(int64_t a, int64_t b) {
  assert(a <= b);
  const uint64_t width = static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
  const uint64_t offset = width == std::numeric_limits<uint64_t>::max() ? next() : below(width + 1);
  return static_cast<int64_t>(static_cast<uint64_t>(a) + offset);
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

double Random::uniform_positive() { return static_cast<double>((next() >> 11) + 1) * 0x1p-53; }

double Random::normal() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  // Marsaglia's polar method: two independent values from a point in the unit disc.
  while (true) {
    const double u = 2 * uniform() - 1;
    const double v = 2 * uniform() - 1;
    const double r2 = u * u + v * v;
    if (r2 >= 1 || r2 == 0) continue;
    const double factor = std::sqrt(-2 * portable_log(r2) / r2);
    spare_normal_ = v * factor;
    has_spare_normal_ = true;
    return u * factor;
  }
}

double Random::exponential() { return -portable_log(uniform_positive()); }

double Random::gamma(double shape) {
  assert(shape > 0);
  if (shape == 1) return exponential();
  if (shape < 1) {
    // Gamma(a) = Gamma(a + 1) * U^(1/a).
    const double u = uniform_positive();
    return gamma(shape + 1) * portable_exp(portable_log(u) / shape);
  }
  // Marsaglia and Tsang, 2000.
  const double d = shape - 1.0 / 3.0;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double t = 1 + c * x;
    if (t <= 0) continue;
    const double v = t * t * t;
    if (portable_log(uniform_positive()) < 0.5 * x * x + d - d * v + d * portable_log(v)) return d * v;
  }
}

}  // namespace vllm
