// Plain C++ for every processor: four lanes in the compilers' own vector type, no fused operations.

#include "backend/cpu/kernels_template.h"

namespace vllm {
namespace {

struct GenericVector {
  using Reg = float __attribute__((vector_size(16)));
  using Ints = int32_t __attribute__((vector_size(16)));
  static constexpr int64_t kLanes = 4;
  static constexpr int kTileTokens = 3;

  static Reg zero() { return Reg{}; }
  static Reg set1(float f) { return Reg{f, f, f, f}; }
  static Reg load(const float* p) {
    Reg r;
    __builtin_memcpy(&r, p, sizeof(r));
    return r;
  }
  static void store(float* p, Reg r) { __builtin_memcpy(p, &r, sizeof(r)); }
  static Reg load_partial(const float* p, int64_t n) {
    Reg r{};
    __builtin_memcpy(&r, p, static_cast<size_t>(n) * sizeof(float));
    return r;
  }
  static void store_partial(float* p, Reg r, int64_t n) {
    __builtin_memcpy(p, &r, static_cast<size_t>(n) * sizeof(float));
  }
  static Reg add(Reg a, Reg b) { return a + b; }
  static Reg sub(Reg a, Reg b) { return a - b; }
  static Reg mul(Reg a, Reg b) { return a * b; }
  static Reg div(Reg a, Reg b) { return a / b; }
  static Reg fma(Reg a, Reg b, Reg c) { return a * b + c; }
  static Reg min(Reg a, Reg b) { return a < b ? a : b; }
  static Reg max(Reg a, Reg b) { return a > b ? a : b; }
  static Reg round(Reg r) {
    const Reg magic = set1(12582912.0f);  // 1.5 * 2^23: no fraction bits are left
    return (r + magic) - magic;
  }
  static Reg pow2(Reg n) {
    const Ints bits = (__builtin_convertvector(n, Ints) + 127) << 23;
    Reg r;
    __builtin_memcpy(&r, &bits, sizeof(r));
    return r;
  }
  static float sum(Reg r) { return (r[0] + r[1]) + (r[2] + r[3]); }
  static Reg from_i8(const std::byte* p) {
    Reg r;
    for (int i = 0; i < 4; ++i) r[i] = static_cast<float>(static_cast<int8_t>(p[i]));
    return r;
  }
  static void split_nibbles(const std::byte* p, std::byte* digits) {
    using Bytes = uint8_t __attribute__((vector_size(16)));
    Bytes both;
    __builtin_memcpy(&both, p, sizeof(both));
    const Bytes low = both & 15, high = both >> 4;
    __builtin_memcpy(digits, &low, sizeof(low));
    __builtin_memcpy(digits + 16, &high, sizeof(high));
  }
  static float half(const std::byte* p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, sizeof(bits));
    return f16_to_f32(bits);
  }
  static Reg from_f16(const std::byte* p) { return Reg{half(p), half(p + 2), half(p + 4), half(p + 6)}; }
  static Reg from_bf16(const std::byte* p) {
    Reg r;
    for (int i = 0; i < 4; ++i) {
      uint16_t bits;
      __builtin_memcpy(&bits, p + 2 * i, sizeof(bits));
      r[i] = bf16_to_f32(bits);
    }
    return r;
  }
};

}  // namespace

const CpuKernels kGenericKernels = KernelTemplates<GenericVector>::table();

}  // namespace vllm
