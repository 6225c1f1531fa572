#pragma once

// The kernels, as templates over a vector type V that one file for each instruction set defines:
//   Reg, kLanes; zero, set1, load, store, load_partial, store_partial (n < kLanes; loads fill with zero);
//   add, sub, mul, div, fma(a, b, c) = a * b + c, min, max (the second operand when either is NaN);
//   round (to nearest even), pow2 (2^n for integral n), sum (of all lanes);
//   from_i8, from_f16, from_bf16 (kLanes elements from unaligned bytes), half (one float16),
//   split_nibbles (16 bytes into their 16 low halves and then their 16 high halves).
// Only templates and always-inlined functions may stand here, and nothing of the standard library: whatever
// the linker could share between files must not contain one instruction set's code.

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "model/float_convert.h"

namespace vllm {

template <class V>
struct KernelTemplates {
  using Reg = typename V::Reg;
  static constexpr int64_t kLanes = V::kLanes;
  // Weight rows in a register tile; with one token more of them, to hide the latency of the sums.
  static constexpr int kTileRows = 4;
  static constexpr int kSingleRows = 8;

  template <int kRows, int kTokens>
  static VLLM_ALWAYS_INLINE void dot_tile(const float* w, int64_t ldw, const float* x, int64_t ldx, int64_t k,
                                          float* y, int64_t ldy) {
    Reg sums[kRows][kTokens];
    for (auto& row : sums) {
      for (Reg& sum : row) sum = V::zero();
    }
    int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes) {
      Reg xs[kTokens];
      for (int t = 0; t < kTokens; ++t) xs[t] = V::load(x + t * ldx + i);
      for (int r = 0; r < kRows; ++r) {
        const Reg ws = V::load(w + r * ldw + i);
        for (int t = 0; t < kTokens; ++t) sums[r][t] = V::fma(ws, xs[t], sums[r][t]);
      }
    }
    if (i < k) {
      for (int r = 0; r < kRows; ++r) {
        const Reg ws = V::load_partial(w + r * ldw + i, k - i);
        for (int t = 0; t < kTokens; ++t) {
          sums[r][t] = V::fma(ws, V::load_partial(x + t * ldx + i, k - i), sums[r][t]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int t = 0; t < kTokens; ++t) y[t * ldy + r] = V::sum(sums[r][t]);
    }
  }

  template <int kRows, int kTokens>
  static void dot_rows(const float* w, int64_t ldw, int64_t rows, const float* x, int64_t ldx, int64_t k,
                       float* y, int64_t ldy) {
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows) dot_tile<kRows, kTokens>(w + r * ldw, ldw, x, ldx, k, y + r, ldy);
    for (; r < rows; ++r) dot_tile<1, kTokens>(w + r * ldw, ldw, x, ldx, k, y + r, ldy);
  }

  static void dots(const float* w, int64_t ldw, int64_t rows, const float* x, int64_t ldx, int64_t tokens,
                   int64_t k, float* y, int64_t ldy) {
    int64_t t = 0;
    for (; t + V::kTileTokens <= tokens; t += V::kTileTokens) {
      dot_rows<kTileRows, V::kTileTokens>(w, ldw, rows, x + t * ldx, ldx, k, y + t * ldy, ldy);
    }
    for (; t + 2 <= tokens; t += 2) {
      dot_rows<kTileRows, 2>(w, ldw, rows, x + t * ldx, ldx, k, y + t * ldy, ldy);
    }
    if (t < tokens) dot_rows<kSingleRows, 1>(w, ldw, rows, x + t * ldx, ldx, k, y + t * ldy, ldy);
  }

  static void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* y) {
    Reg squares = V::zero();
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Reg v = V::load(x + i);
      squares = V::fma(v, v, squares);
    }
    if (i < n) {
      const Reg v = V::load_partial(x + i, n - i);
      squares = V::fma(v, v, squares);
    }
    const float mean = V::sum(squares) / static_cast<float>(n);
    const Reg factor = V::set1(1.0f / __builtin_sqrtf(mean + eps));
    for (i = 0; i + kLanes <= n; i += kLanes) {
      V::store(y + i, V::mul(V::mul(V::load(x + i), factor), V::load(weight + i)));
    }
    if (i < n) {
      const Reg v = V::mul(V::mul(V::load_partial(x + i, n - i), factor), V::load_partial(weight + i, n - i));
      V::store_partial(y + i, v, n - i);
    }
  }

  // exp within 2e-7 relative; arguments outside [-87, 88] are moved to these bounds, NaN stays NaN.
  static VLLM_ALWAYS_INLINE Reg exp(Reg x) {
    x = V::max(V::set1(-87.0f), x);
    x = V::min(V::set1(88.0f), x);
    const Reg n = V::round(V::mul(x, V::set1(1.44269504f)));
    // ln 2 in two parts: the first has few enough bits that its product with n is exact.
    Reg r = V::fma(n, V::set1(-0.693359375f), x);
    r = V::fma(n, V::set1(2.12194440e-4f), r);
    Reg p = V::set1(1.9875691500e-4f);
    p = V::fma(p, r, V::set1(1.3981999507e-3f));
    p = V::fma(p, r, V::set1(8.3334519073e-3f));
    p = V::fma(p, r, V::set1(4.1665795894e-2f));
    p = V::fma(p, r, V::set1(1.6666665459e-1f));
    p = V::fma(p, r, V::set1(5.0000001201e-1f));
    const Reg tail = V::fma(p, V::mul(r, r), r);
    return V::mul(V::add(tail, V::set1(1.0f)), V::pow2(n));
  }

  static VLLM_ALWAYS_INLINE Reg silu_times(Reg gate, Reg up) {
    const Reg one = V::set1(1.0f);
    return V::mul(V::div(gate, V::add(one, exp(V::sub(V::zero(), gate)))), up);
  }

  static void silu_multiply(float* gate, const float* up, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) V::store(gate + i, silu_times(V::load(gate + i), V::load(up + i)));
    if (i < n) {
      const Reg v = silu_times(V::load_partial(gate + i, n - i), V::load_partial(up + i, n - i));
      V::store_partial(gate + i, v, n - i);
    }
  }

  static void add(float* y, const float* x, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) V::store(y + i, V::add(V::load(y + i), V::load(x + i)));
    for (; i < n; ++i) y[i] += x[i];
  }

  static float largest(const float* x, int64_t n) {
    float best = x[0];
    int64_t i = 0;
    if (n >= kLanes) {
      Reg lanes = V::load(x);
      for (i = kLanes; i + kLanes <= n; i += kLanes) lanes = V::max(lanes, V::load(x + i));
      float each[V::kLanes];
      V::store(each, lanes);
      for (const float f : each) best = f > best ? f : best;
    }
    for (; i < n; ++i) best = x[i] > best ? x[i] : best;
    return best;
  }

  static float exponentials(float* scores, float greatest, int64_t n) {
    const Reg shift = V::set1(greatest);
    Reg sum = V::zero();
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Reg e = exp(V::sub(V::load(scores + i), shift));
      V::store(scores + i, e);
      sum = V::add(sum, e);
    }
    float total = V::sum(sum);
    if (i < n) {
      V::store_partial(scores + i, exp(V::sub(V::load_partial(scores + i, n - i), shift)), n - i);
      for (; i < n; ++i) total += scores[i];
    }
    return total;
  }

  template <int kRegs>
  static VLLM_ALWAYS_INLINE void weighted_columns(float* sum, Reg scale, const float* weights,
                                                  const float* values, int64_t rows, int64_t width) {
    Reg sums[kRegs];
    for (int c = 0; c < kRegs; ++c) sums[c] = V::mul(V::load(sum + c * kLanes), scale);
    for (int64_t r = 0; r < rows; ++r) {
      const Reg weight = V::set1(weights[r]);
      for (int c = 0; c < kRegs; ++c)
        sums[c] = V::fma(weight, V::load(values + r * width + c * kLanes), sums[c]);
    }
    for (int c = 0; c < kRegs; ++c) V::store(sum + c * kLanes, sums[c]);
  }

  static void weighted_sum(float* sum, float scale, const float* weights, const float* values, int64_t rows,
                           int64_t width) {
    const Reg factor = V::set1(scale);
    int64_t c = 0;
    for (; c + 8 * kLanes <= width; c += 8 * kLanes) {
      weighted_columns<8>(sum + c, factor, weights, values + c, rows, width);
    }
    for (; c + 4 * kLanes <= width; c += 4 * kLanes) {
      weighted_columns<4>(sum + c, factor, weights, values + c, rows, width);
    }
    for (; c + kLanes <= width; c += kLanes) {
      weighted_columns<1>(sum + c, factor, weights, values + c, rows, width);
    }
    if (c < width) {
      Reg rest = V::mul(V::load_partial(sum + c, width - c), factor);
      for (int64_t r = 0; r < rows; ++r) {
        rest = V::fma(V::set1(weights[r]), V::load_partial(values + r * width + c, width - c), rest);
      }
      V::store_partial(sum + c, rest, width - c);
    }
  }

  static void copy_f32(const std::byte* source, float* out, int64_t n) {
    __builtin_memcpy(out, source, static_cast<size_t>(n) * sizeof(float));
  }

  static void expand_f16(const std::byte* source, float* out, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) V::store(out + i, V::from_f16(source + 2 * i));
    for (; i < n; ++i) out[i] = V::half(source + 2 * i);
  }

  static void expand_bf16(const std::byte* source, float* out, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) V::store(out + i, V::from_bf16(source + 2 * i));
    for (; i < n; ++i) {
      uint16_t bits;
      __builtin_memcpy(&bits, source + 2 * i, 2);
      out[i] = bf16_to_f32(bits);
    }
  }

  static void expand_e4m3(const std::byte* source, float* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = e4m3_to_f32(static_cast<uint8_t>(source[i]));
  }

  // Blocks of 32: a float16 scale, 32 signed bytes.
  static void expand_q8_0(const std::byte* source, float* out, int64_t n) {
    for (int64_t block = 0; block < n / 32; ++block, source += 34, out += 32) {
      const Reg scale = V::set1(V::half(source));
      for (int64_t i = 0; i < 32; i += kLanes) V::store(out + i, V::mul(V::from_i8(source + 2 + i), scale));
    }
  }

  // Blocks of 32: a float16 scale, a float16 minimum, 16 bytes: low halves are elements 0-15, high halves
  // 16-31. Multiplied and added in two rounded steps, as the format's reference does.
  static void expand_q4_1(const std::byte* source, float* out, int64_t n) {
    std::byte digits[32];
    for (int64_t block = 0; block < n / 32; ++block, source += 20, out += 32) {
      const Reg scale = V::set1(V::half(source)), minimum = V::set1(V::half(source + 2));
      V::split_nibbles(source + 4, digits);
      for (int64_t i = 0; i < 32; i += kLanes) {
        V::store(out + i, V::add(V::mul(V::from_i8(digits + i), scale), minimum));
      }
    }
  }

  static void dequantise_row(DType type, const std::byte* source, float* out, int64_t n) {
    switch (type) {
      case DType::kF32:
        return copy_f32(source, out, n);
      case DType::kF16:
        return expand_f16(source, out, n);
      case DType::kBF16:
        return expand_bf16(source, out, n);
      case DType::kF8E4M3:
        return expand_e4m3(source, out, n);
      case DType::kQ8_0:
        return expand_q8_0(source, out, n);
      case DType::kQ4_1:
        return expand_q4_1(source, out, n);
      default:
        __builtin_unreachable();  // loaders refuse every other type
    }
  }

  static constexpr CpuKernels table() {
    return {.dequantise_row = dequantise_row,
            .dots = dots,
            .rms_norm = rms_norm,
            .silu_multiply = silu_multiply,
            .add = add,
            .largest = largest,
            .exponentials = exponentials,
            .weighted_sum = weighted_sum};
  }
};

}  // namespace vllm
