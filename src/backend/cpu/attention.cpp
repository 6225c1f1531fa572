#include "backend/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vllm {
namespace {

constexpr int64_t kTile = 64;

// The scratch of one task, cut into its parts. A row is one head of one query token.
struct Parts {
  float *q, *sums, *keys, *values, *scores, *greatest, *weight;
  Parts(const AttentionShape& shape, float* scratch) {
    const int64_t rows = shape.tokens_per_task() * shape.group();
    const auto take = [&scratch](int64_t floats) {
      float* part = scratch;
      scratch += floats;
      return part;
    };
    q = take(rows * shape.head_dim);
    sums = take(rows * shape.head_dim);
    keys = take(kTile * shape.head_dim);
    values = take(kTile * shape.head_dim);
    scores = take(rows * kTile);
    greatest = take(rows);
    weight = take(rows);
  }
};

// Adds the positions of one tile to one row's running softmax.
void add_tile(const CpuKernels& kernels, float* scores, int64_t count, const float* values, int64_t head_dim,
              float& greatest, float& weight, float* sum) {
  const float now = std::max(greatest, kernels.largest(scores, count));
  const float scale = weight == 0.0f ? 0.0f : std::exp(greatest - now);
  greatest = now;
  weight = weight * scale + kernels.exponentials(scores, now, count);
  kernels.weighted_sum(sum, scale, scores, values, count, head_dim);
}

void load_queries(const AttentionShape& shape, const AttentionTask& task, const float* q,
                  const Parts& parts) {
  const int64_t width = shape.group() * shape.head_dim;
  for (int64_t t = 0; t < task.count; ++t) {
    const float* from = q + (task.row + t) * shape.num_heads * shape.head_dim + task.kv_head * width;
    for (int64_t i = 0; i < width; ++i) parts.q[t * width + i] = from[i] * shape.scale;
  }
  std::fill_n(parts.sums, task.count * width, 0.0f);
  std::fill_n(parts.greatest, task.count * shape.group(), -std::numeric_limits<float>::infinity());
  std::fill_n(parts.weight, task.count * shape.group(), 0.0f);
}

void store_result(const AttentionShape& shape, const AttentionTask& task, const Parts& parts, float* out) {
  const int64_t width = shape.group() * shape.head_dim;
  for (int64_t t = 0; t < task.count; ++t) {
    float* to = out + (task.row + t) * shape.num_heads * shape.head_dim + task.kv_head * width;
    for (int64_t i = 0; i < width; ++i) {
      to[i] = parts.sums[t * width + i] / parts.weight[t * shape.group() + i / shape.head_dim];
    }
  }
}

}  // namespace

int64_t AttentionShape::scratch_floats() const {
  const int64_t rows = tokens_per_task() * group();
  return 2 * rows * head_dim + 2 * kTile * head_dim + rows * kTile + 2 * rows;
}

void attend(const CpuKernels& kernels, const AttentionShape& shape, const CpuKvCache& cache, int layer,
            int64_t window, const AttentionTask& task, const float* q, float* out, float* scratch) {
  const Parts parts(shape, scratch);
  load_queries(shape, task, q, parts);
  const int64_t group = shape.group(), head_dim = shape.head_dim;
  const auto oldest = [window](int64_t position) {
    return window > 0 ? std::max<int64_t>(position - window + 1, 0) : int64_t{0};
  };
  const int64_t last = task.position + task.count - 1;
  for (int64_t tile = oldest(task.position) / kTile * kTile; tile <= last; tile += kTile) {
    const int64_t begin = std::max(tile, oldest(task.position)), end = std::min(tile + kTile, last + 1);
    cache.read_keys(kernels, layer, task.table, task.kv_head, begin, end, parts.keys);
    cache.read_values(kernels, layer, task.table, task.kv_head, begin, end, parts.values);
    const int64_t first = std::max<int64_t>(tile - task.position, 0);  // earlier tokens do not see this tile
    kernels.dots(parts.keys, head_dim, end - begin, parts.q + first * group * head_dim, head_dim,
                 (task.count - first) * group, head_dim, parts.scores + first * group * kTile, kTile);
    for (int64_t t = first; t < task.count; ++t) {
      const int64_t position = task.position + t;
      const int64_t from = std::max(begin, oldest(position)) - begin,
                    to = std::min(end, position + 1) - begin;
      if (from >= to) continue;
      for (int64_t row = t * group; row < (t + 1) * group; ++row) {
        add_tile(kernels, parts.scores + row * kTile + from, to - from, parts.values + from * head_dim,
                 head_dim, parts.greatest[row], parts.weight[row], parts.sums + row * head_dim);
      }
    }
  }
  store_result(shape, task, parts, out);
}

}  // namespace vllm
