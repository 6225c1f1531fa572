#include "base/log.h"

#include <nlohmann/json.hpp>

namespace vllm {
namespace {

TEST(Log, JsonLinesAreJsonWhateverTheMessage) {
  configure_logging(LogLevel::kInfo, LogFormat::kJson);
  ::testing::internal::CaptureStderr();
  log_info("a \"quoted\" \\ back\nslash {}", 7);
  log_debug("not shown");
  const std::string out = ::testing::internal::GetCapturedStderr();
  configure_logging(LogLevel::kInfo, LogFormat::kText);
  ASSERT_EQ(out.back(), '\n');
  const auto parsed =
      nlohmann::json::parse(out);  // throws, failing the test, when there is more than one object
  EXPECT_EQ(parsed["message"], "a \"quoted\" \\ back\nslash 7");
  EXPECT_EQ(parsed["level"], "info");
  EXPECT_EQ(parsed["time"].get<std::string>().size(), std::string("2026-11-30T15:50:10.330085Z").size());
}

TEST(Log, LevelsFilter) {
  configure_logging(LogLevel::kWarning, LogFormat::kText);
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  EXPECT_TRUE(log_enabled(LogLevel::kError));
  configure_logging(LogLevel::kInfo, LogFormat::kText);
}

}  // namespace
}  // namespace vllm
