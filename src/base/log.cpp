#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>

namespace vllm {
namespace {

// One JSON object a line; only the message needs escaping.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& msg, spdlog::memory_buf_t& out) override {
    time_.format(msg, scratch_);
    std::string escaped;
    for (const char c : msg.payload) {
      const auto u = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        escaped += '\\';
        escaped += c;
      } else if (u < 0x20) {
        escaped += fmt::format("\\u{:04x}", u);
      } else {
        escaped += c;
      }
    }
    const auto level = spdlog::level::to_string_view(msg.level);
    fmt::format_to(std::back_inserter(out),
                   "{{\"time\":\"{}\",\"level\":\"{}\",\"thread\":{},\"message\":\"{}\"}}\n",
                   std::string_view(scratch_.data(), scratch_.size()),
                   std::string_view(level.data(), level.size()), msg.thread_id, escaped);
    scratch_.clear();
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }

 private:
  spdlog::pattern_formatter time_{"%Y-%m-%dT%H:%M:%S.%fZ", spdlog::pattern_time_type::utc, ""};
  spdlog::memory_buf_t scratch_;
};

constexpr const char* kTextPattern = "%Y-%m-%d %H:%M:%S.%e %^%-7l%$ %v";

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// The one process-wide object of this folder: a log has no owner but the process.
spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created =
        std::make_shared<spdlog::logger>("vllm", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern(kTextPattern);
    return created;
  }();
  return *instance;
}

}  // namespace

void configure_logging(LogLevel level, LogFormat format) {
  logger().set_level(to_spdlog(level));
  if (format == LogFormat::kJson) {
    logger().set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger().set_pattern(kTextPattern);
  }
}

bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }

void log_message(LogLevel level, std::string_view message) {
  logger().log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace vllm
