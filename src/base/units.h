#pragma once

// Sizes in bytes and checked 64-bit arithmetic.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace vllm {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// Bytes from "1073741824", "1GiB", "1.5GiB", "512MiB", "64KiB", "2TiB" (powers of 1024) or "1GB", "512MB",
// "1kB" (powers of 1000); case does not matter, a space before the suffix is allowed. Must be > 0 and fit 63
// bits. The error says what was given and what is accepted, without naming an option: the caller adds that.
Result<int64_t> parse_size(std::string_view text);

// "1.00 GiB", "686.3 MiB", "512 B".
std::string format_bytes(int64_t bytes);

// nullopt on overflow.
std::optional<int64_t> checked_mul(int64_t a, int64_t b);
std::optional<int64_t> checked_add(int64_t a, int64_t b);

// For a >= 0, b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace vllm
