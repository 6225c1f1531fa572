#pragma once

// Weighted linear least squares for a few columns, robust against outliers. Plain functions.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace vllm {

// Rows of equal length, one after another.
struct DesignMatrix {
  size_t columns = 0;
  std::vector<double> values;

  size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  std::span<const double> row(size_t i) const { return {values.data() + i * columns, columns}; }
  void add_row(std::span<const double> row) { values.insert(values.end(), row.begin(), row.end()); }
};

// Coefficients that minimise sum w (y - x b)^2 over the rows with use[i] (empty: all). nullopt when the
// columns do not determine them.
std::optional<std::vector<double>> least_squares(const DesignMatrix& x, std::span<const double> y,
                                                 std::span<const double> weights,
                                                 const std::vector<bool>& use = {});

// The same, repeated without the rows whose weighted residual is beyond `clip` robust standard deviations.
// `used` receives the rows of the last round.
std::optional<std::vector<double>> clipped_least_squares(const DesignMatrix& x, std::span<const double> y,
                                                         std::span<const double> weights, double clip,
                                                         std::vector<bool>* used = nullptr);

double dot(std::span<const double> a, std::span<const double> b);
double median_of(std::vector<double> values);                        // NaN for none
double quantile_of(std::vector<double> values, double q);            // q in [0, 1]; NaN for none
double robust_sd(const std::vector<double>& values, double center);  // 1.4826 median |v - center|

}  // namespace vllm
