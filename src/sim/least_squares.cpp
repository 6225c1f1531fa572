#include "sim/least_squares.h"

#include <algorithm>
#include <cmath>

#include "metrics/latency.h"

namespace vllm {
namespace {

constexpr int kClipRounds = 6;

// Gaussian elimination with pivoting on the normal equations, whose columns are scaled to length one.
std::optional<std::vector<double>> solve(std::vector<double> a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
    }
    if (std::abs(a[pivot * n + k]) < 1e-10) return std::nullopt;
    for (size_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[pivot * n + j]);
    std::swap(b[k], b[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (size_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      b[i] -= factor * b[k];
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t j = k + 1; j < n; ++j) b[k] -= a[k * n + j] * b[j];
    b[k] /= a[k * n + k];
  }
  return b;
}

}  // namespace

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double quantile_of(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return percentile(values, q * 100);
}

double median_of(std::vector<double> values) { return quantile_of(std::move(values), 0.5); }

double robust_sd(const std::vector<double>& values, double center) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double v : values) distances.push_back(std::abs(v - center));
  return 1.4826 * median_of(std::move(distances));
}

std::optional<std::vector<double>> least_squares(const DesignMatrix& x, std::span<const double> y,
                                                 std::span<const double> weights,
                                                 const std::vector<bool>& use) {
  const size_t n = x.columns;
  std::vector<double> a(n * n, 0), b(n, 0), scale(n, 0);
  size_t count = 0;
  for (size_t i = 0; i < x.rows(); ++i) {
    if (!use.empty() && !use[i]) continue;
    ++count;
    const auto row = x.row(i);
    const double w = weights.empty() ? 1 : weights[i];
    for (size_t j = 0; j < n; ++j) {
      for (size_t k = j; k < n; ++k) a[j * n + k] += w * row[j] * row[k];
      b[j] += w * row[j] * y[i];
    }
  }
  if (count < n || n == 0) return std::nullopt;
  for (size_t j = 0; j < n; ++j) {
    if (!(a[j * n + j] > 0)) return std::nullopt;
    scale[j] = 1 / std::sqrt(a[j * n + j]);
  }
  for (size_t j = 0; j < n; ++j) {
    b[j] *= scale[j];
    for (size_t k = j; k < n; ++k) a[j * n + k] = a[k * n + j] = a[j * n + k] * scale[j] * scale[k];
  }
  auto solution = solve(std::move(a), std::move(b));
  if (!solution) return std::nullopt;
  for (size_t j = 0; j < n; ++j) (*solution)[j] *= scale[j];
  return solution;
}

std::optional<std::vector<double>> clipped_least_squares(const DesignMatrix& x, std::span<const double> y,
                                                         std::span<const double> weights, double clip,
                                                         std::vector<bool>* used) {
  std::vector<bool> use(x.rows(), true);
  std::optional<std::vector<double>> solution;
  for (int round = 0; round < kClipRounds; ++round) {
    solution = least_squares(x, y, weights, use);
    if (!solution) return std::nullopt;
    std::vector<double> residuals;
    residuals.reserve(x.rows());
    for (size_t i = 0; i < x.rows(); ++i) {
      residuals.push_back((y[i] - dot(x.row(i), *solution)) * (weights.empty() ? 1 : std::sqrt(weights[i])));
    }
    const double limit = clip * robust_sd(residuals, 0);
    if (!(limit > 0)) break;
    for (size_t i = 0; i < use.size(); ++i) use[i] = std::abs(residuals[i]) <= limit;
  }
  if (used != nullptr) *used = std::move(use);
  return solution;
}

}  // namespace vllm
