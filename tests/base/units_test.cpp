#include "base/units.h"

namespace vllm {
namespace {

TEST(ParseSize, AcceptsBytesAndSuffixes) {
  EXPECT_EQ(parse_size("1073741824").value(), kGiB);
  EXPECT_EQ(parse_size("1GiB").value(), kGiB);
  EXPECT_EQ(parse_size("1.5 gib").value(), kGiB + kGiB / 2);
  EXPECT_EQ(parse_size("512MiB").value(), 512 * kMiB);
  EXPECT_EQ(parse_size("1GB").value(), 1'000'000'000);
  EXPECT_EQ(parse_size("7B").value(), 7);
}

TEST(ParseSize, RefusesWhatIsNoPositiveSize) {
  for (const char* text : {"", "0", "-1", "GiB", "1XiB", "nan", "inf", "99999999999999999999",
                           "9000000000GiB", "0.0GiB", "1.2.3", "1e9", "1GiB2", "0x10", " 1"}) {
    const auto result = parse_size(text);
    ASSERT_FALSE(result.is_ok()) << text;
    EXPECT_EQ(result.status().code(), StatusCode::kUsage);
    EXPECT_NE(result.status().message().find("accepted"), std::string::npos) << text;
  }
}

TEST(CheckedArithmetic, FindsOverflow) {
  EXPECT_EQ(checked_mul(int64_t{1} << 40, int64_t{1} << 20), std::optional<int64_t>(int64_t{1} << 60));
  EXPECT_EQ(checked_mul(int64_t{1} << 40, int64_t{1} << 40), std::nullopt);
  EXPECT_EQ(checked_add(INT64_MAX, 1), std::nullopt);
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(kGiB), "1.00 GiB");
  EXPECT_EQ(format_bytes(686 * kMiB + 300 * kKiB), "686.3 MiB");
}

}  // namespace
}  // namespace vllm
