// Sixteen lanes. Compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl (src/CMakeLists.txt).

#include <immintrin.h>

#include "backend/cpu/kernels_template.h"

namespace vllm {
namespace {

struct Avx512Vector {
  using Reg = __m512;
  static constexpr int64_t kLanes = 16;
  static constexpr int kTileTokens = 6;  // 4 x 6 sums, 6 tokens and a weight: 31 of 32 registers

  static Reg zero() { return _mm512_setzero_ps(); }
  static Reg set1(float f) { return _mm512_set1_ps(f); }
  static Reg load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Reg r) { _mm512_storeu_ps(p, r); }
  static __mmask16 mask(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static Reg load_partial(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(mask(n), p); }
  static void store_partial(float* p, Reg r, int64_t n) { _mm512_mask_storeu_ps(p, mask(n), r); }
  static Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
  static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  static Reg round(Reg r) { return _mm512_roundscale_ps(r, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Reg pow2(Reg n) {
    const __m512i bits = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
  }
  static float sum(Reg r) {
    const __m256 half_sum = _mm256_add_ps(_mm512_castps512_ps256(r), _mm512_extractf32x8_ps(r, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half_sum), _mm256_extractf128_ps(half_sum, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
  }
  static Reg from_i8(const std::byte* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static void split_nibbles(const std::byte* p, std::byte* digits) {
    const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), mask = _mm_set1_epi8(0x0f);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(digits), _mm_and_si128(both, mask));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(digits + 16), _mm_and_si128(_mm_srli_epi16(both, 4), mask));
  }
  static float half(const std::byte* p) {
    uint16_t bits;
    __builtin_memcpy(&bits, p, sizeof(bits));
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
  }
  static Reg from_f16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Reg from_bf16(const std::byte* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
};

}  // namespace

const CpuKernels kAvx512Kernels = KernelTemplates<Avx512Vector>::table();

}  // namespace vllm
