#pragma once

// The arithmetic of the plain forward, once for each instruction set. All paths are the same templates over a
// vector type (kernels_template.h), so they differ in the number of lanes, and so in the order of sums, and
// in whether a multiply-add is fused. Within one path a result depends on its own operands only: a dot
// product sums in one fixed order whatever is computed beside it.

#include <cstddef>
#include <cstdint>

#include "base/cpu_features.h"
#include "formats/dtype.h"

namespace vllm {

struct CpuKernels {
  // n elements of a row of type F32, F16, BF16, Q8_0, Q4_1 or F8E4M3, exactly as their formats define them.
  // `source` need not be aligned; n fills whole blocks.
  void (*dequantise_row)(DType type, const std::byte* source, float* out, int64_t n);
  // y[t * ldy + r] = w[r * ldw ...] . x[t * ldx ...] over k elements, for r < rows and t < tokens.
  void (*dots)(const float* w, int64_t ldw, int64_t rows, const float* x, int64_t ldx, int64_t tokens,
               int64_t k, float* y, int64_t ldy);
  // y = x / sqrt(mean(x^2) + eps) * weight. y may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, int64_t n, float* y);
  // gate = gate / (1 + exp(-gate)) * up
  void (*silu_multiply)(float* gate, const float* up, int64_t n);
  // y += x
  void (*add)(float* y, const float* x, int64_t n);
  float (*largest)(const float* x, int64_t n);  // n > 0
  // scores = exp(scores - greatest); returns their sum.
  float (*exponentials)(float* scores, float greatest, int64_t n);
  // sum = sum * scale + the rows of `values` [rows, width], each times its weight, in order.
  void (*weighted_sum)(float* sum, float scale, const float* weights, const float* values, int64_t rows,
                       int64_t width);
};

// The path must be one that this processor has (best_isa() and those before it).
const CpuKernels& cpu_kernels(Isa isa);

extern const CpuKernels kGenericKernels, kAvx2Kernels, kAvx512Kernels;

}  // namespace vllm
