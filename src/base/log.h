#pragma once

// Logging for people and for machines. Lines go to stderr: stdout belongs to a program's result. Any thread
// may log. The logger is passed by configure_logging once, at a program's start; before it, text at level
// info.

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace vllm {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

void configure_logging(LogLevel level, LogFormat format);
bool log_enabled(LogLevel level);
void log_message(LogLevel level, std::string_view message);

template <typename... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  if (log_enabled(LogLevel::kDebug))
    log_message(LogLevel::kDebug, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  if (log_enabled(LogLevel::kInfo))
    log_message(LogLevel::kInfo, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  if (log_enabled(LogLevel::kWarning))
    log_message(LogLevel::kWarning, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  if (log_enabled(LogLevel::kError))
    log_message(LogLevel::kError, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace vllm
