// Eight lanes with fused multiply-add. Compiled with -mavx2 -mfma -mf16c (src/CMakeLists.txt).

#include <immintrin.h>

#include "backend/cpu/kernels_template.h"

namespace vllm {
namespace {

struct Avx2Vector {
  using Reg = __m256;
  static constexpr int64_t kLanes = 8;
  static constexpr int kTileTokens = 3;  // 4 x 3 sums, 3 tokens and a weight: all 16 registers

  static Reg zero() { return _mm256_setzero_ps(); }
  static Reg set1(float f) { return _mm256_set1_ps(f); }
  static Reg load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Reg r) { _mm256_storeu_ps(p, r); }
  static __m256i mask(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Reg load_partial(const float* p, int64_t n) { return _mm256_maskload_ps(p, mask(n)); }
  static void store_partial(float* p, Reg r, int64_t n) { _mm256_maskstore_ps(p, mask(n), r); }
  static Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
  static Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  static Reg round(Reg r) { return _mm256_round_ps(r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Reg pow2(Reg n) {
    const __m256i bits = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 23));
  }
  static float sum(Reg r) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(r), _mm256_extractf128_ps(r, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
  }
  static Reg from_i8(const std::byte* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static void split_nibbles(const std::byte* p, std::byte* digits) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), mask = _mm_set1_epi8(0x0f);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(digits), _mm_and_si128(both, mask));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(digits + 16), _mm_and_si128(_mm_srli_epi16(both, 4), mask));
  }
  static float half(const std::byte* p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, sizeof(bits));
    return _cvtsh_ss(bits);
  }
  static Reg from_f16(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Reg from_bf16(const std::byte* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
};

}  // namespace

const CpuKernels kAvx2Kernels = KernelTemplates<Avx2Vector>::table();

}  // namespace vllm
