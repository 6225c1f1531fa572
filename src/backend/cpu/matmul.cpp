#include "backend/cpu/matmul.h"

#include <algorithm>

#include "base/units.h"

namespace vllm {
namespace {

constexpr int64_t kLargestPanelRows = 32;
constexpr int64_t kPanelFloats = 48 * 1024;  // 192 KiB: well inside a core's second-level cache

int64_t largest_panel_rows(int64_t columns) {
  return std::clamp<int64_t>(kPanelFloats / std::max<int64_t>(columns, 1) / 8 * 8, 8, kLargestPanelRows);
}

// Smaller panels where the matrix is small and the threads are many, so that all of them get some.
int64_t panel_rows(const Parameter& weights, int threads) {
  const int64_t fair = weights.rows / (4 * threads) / 8 * 8;
  return std::clamp<int64_t>(fair, 8, largest_panel_rows(weights.cols));
}

void multiply_panel(const CpuKernels& kernels, const Product& product, int64_t first, int64_t rows,
                    const float* x, int64_t ldx, int64_t tokens, float* panel) {
  const Parameter& w = *product.weights;
  for (int64_t r = 0; r < rows; ++r) {
    kernels.dequantise_row(w.dtype, w.data + (first + r) * w.row_bytes, panel + r * w.cols, w.cols);
  }
  float* y = product.y + first;
  kernels.dots(panel, w.cols, rows, x, ldx, tokens, w.cols, y, product.ldy);
  if (product.bias == nullptr || product.bias->empty()) return;
  for (int64_t t = 0; t < tokens; ++t) kernels.add(y + t * product.ldy, product.bias->data() + first, rows);
}

}  // namespace

int64_t matmul_scratch_floats(int64_t columns) { return largest_panel_rows(columns) * columns; }

void multiply(const CpuKernels& kernels, const TaskRunner& tasks, std::span<const Product> products,
              const float* x, int64_t ldx, int64_t tokens, std::span<float* const> scratch) {
  int64_t panels = 0;
  for (const Product& p : products)
    panels += ceil_div(p.weights->rows, panel_rows(*p.weights, tasks.num_threads()));
  tasks.run(panels, [&](int64_t panel, int thread) {
    for (const Product& p : products) {
      const int64_t rows = panel_rows(*p.weights, tasks.num_threads());
      const int64_t here = ceil_div(p.weights->rows, rows);
      if (panel < here) {
        const int64_t first = panel * rows;
        const int64_t count = std::min(rows, p.weights->rows - first);
        multiply_panel(kernels, p, first, count, x, ldx, tokens, scratch[static_cast<size_t>(thread)]);
        return;
      }
      panel -= here;
    }
  });
}

}  // namespace vllm
