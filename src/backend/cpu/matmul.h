#pragma once

// Products of activations with weights that are dequantised row by row.

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/tasks.h"
#include "model/weights.h"

namespace vllm {

// y[t * ldy + r] = weights[r] . x[t] + bias[r] for every row r of the weights and every token t.
struct Product {
  const Parameter* weights = nullptr;
  const std::vector<float>* bias = nullptr;  // empty: none
  float* y = nullptr;
  int64_t ldy = 0;
};

// Floats that one thread needs for rows of `columns` elements.
int64_t matmul_scratch_floats(int64_t columns);

// All products share x [tokens, ldx]. A panel of rows is dequantised once for the whole batch, into a
// thread's scratch
// (`scratch[thread]`), and stays in that core's cache while the tokens pass by.
void multiply(const CpuKernels& kernels, const TaskRunner& tasks, std::span<const Product> products,
              const float* x, int64_t ldx, int64_t tokens, std::span<float* const> scratch);

}  // namespace vllm
