#include "base/units.h"

#include <cctype>
#include <charconv>
#include <cmath>

namespace vllm {
namespace {

std::optional<int64_t> suffix_factor(std::string suffix) {
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (suffix.empty() || suffix == "b") return 1;
  static constexpr std::string_view kPrefixes = "kmgt";
  const size_t power = kPrefixes.find(suffix[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string rest = suffix.substr(1);
  if (rest != "ib" && rest != "b") return std::nullopt;
  int64_t factor = 1;
  for (size_t i = 0; i <= power; ++i) factor *= rest == "ib" ? 1024 : 1000;
  return factor;
}

}  // namespace

Result<int64_t> parse_size(std::string_view text) {
  const auto reject = [&](std::string_view why) {
    return usage_error("'{}' {}; accepted is a positive number of bytes or a size like 512MiB or 1.5GiB",
                       text, why);
  };
  size_t end = 0;
  while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.'))
    ++end;
  if (end == 0) return reject("is not a size");
  const std::string_view digits = text.substr(0, end);
  std::string_view rest = text.substr(end);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const auto factor = suffix_factor(std::string(rest));
  if (!factor) return reject("has an unknown suffix");

  if (digits.find('.') == std::string_view::npos) {
    int64_t whole = 0;
    const auto [ptr, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
    if (ec != std::errc() || ptr != digits.data() + digits.size()) return reject("is too large");
    const auto bytes = checked_mul(whole, *factor);
    if (!bytes) return reject("is too large");
    if (*bytes == 0) return reject("is zero");
    return *bytes;
  }
  double value = 0;
  const auto [ptr, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (ec != std::errc() || ptr != digits.data() + digits.size()) return reject("is not a size");
  const double bytes = std::floor(value * static_cast<double>(*factor));
  if (!(bytes < 9.2e18)) return reject("is too large");
  if (bytes < 1) return reject("is less than one byte");
  return static_cast<int64_t>(bytes);
}

std::string format_bytes(int64_t bytes) {
  const double b = static_cast<double>(bytes);
  if (std::abs(b) >= static_cast<double>(kGiB))
    return fmt::format("{:.2f} GiB", b / static_cast<double>(kGiB));
  if (std::abs(b) >= static_cast<double>(kMiB))
    return fmt::format("{:.1f} MiB", b / static_cast<double>(kMiB));
  if (std::abs(b) >= static_cast<double>(kKiB))
    return fmt::format("{:.1f} KiB", b / static_cast<double>(kKiB));
  return fmt::format("{} B", bytes);
}

std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

}  // namespace vllm
