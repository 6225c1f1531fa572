#pragma once

// Errors are values: a code, which decides the exit code of a program, and one sentence for its user. Success
// costs one null pointer. Nothing in this project throws across a folder's boundary.

#include <fmt/format.h>

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace vllm {

enum class StatusCode {
  kOk,
  kUsage,     // wrong option, value or combination: exit 2
  kBadInput,  // a file that the user gave is malformed, missing or does not fit the rest: exit 2
  kRefused,   // well-formed, but cannot be done here (does not fit into memory, not built yet): exit 2
  kFailed,    // it was tried and went wrong: exit 1
  kIo,        // the operating system said no (disk full, no permission): exit 1
  kAborted,   // ended from outside (Ctrl-C, shutdown): exit 1
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);

  static Status ok() { return {}; }

  bool is_ok() const { return state_ == nullptr; }
  explicit operator bool() const { return is_ok(); }
  StatusCode code() const { return state_ ? state_->code : StatusCode::kOk; }
  const std::string& message() const;

  // The same error with "<context>: " in front; a success stays one.
  Status with_context(const std::string& context) const;

 private:
  struct State {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const State> state_;
};

// 0 good, 1 failed, 2 wrong usage or refused.
int exit_code(const Status& status);

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.is_ok() && "a Result without a value needs an error");
  }

  bool is_ok() const { return value_.has_value(); }
  explicit operator bool() const { return is_ok(); }
  const Status& status() const { return status_; }

  T& value() & {
    assert(is_ok());
    return *value_;
  }
  const T& value() const& {
    assert(is_ok());
    return *value_;
  }
  T&& value() && {
    assert(is_ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

template <typename... Args>
Status usage_error(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kUsage, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status bad_input(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kBadInput, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status refused(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kRefused, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status failed(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kFailed, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status io_error(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kIo, fmt::format(text, std::forward<Args>(args)...)};
}
template <typename... Args>
Status aborted(fmt::format_string<Args...> text, Args&&... args) {
  return {StatusCode::kAborted, fmt::format(text, std::forward<Args>(args)...)};
}

}  // namespace vllm

// Returns from the enclosing function when `expression`, a Status, is an error.
#define VLLM_RETURN_IF_ERROR(expression)            \
  do {                                              \
    ::vllm::Status vllm_status_ = (expression);     \
    if (!vllm_status_.is_ok()) return vllm_status_; \
  } while (false)

#define VLLM_CONCAT_INNER_(a, b) a##b
#define VLLM_CONCAT_(a, b) VLLM_CONCAT_INNER_(a, b)
// VLLM_ASSIGN_OR_RETURN(auto x, f()); declares x from a Result or returns its error.
#define VLLM_ASSIGN_OR_RETURN(declaration, expression)                                                     \
  auto VLLM_CONCAT_(vllm_result_, __LINE__) = (expression);                                                \
  if (!VLLM_CONCAT_(vllm_result_, __LINE__).is_ok()) return VLLM_CONCAT_(vllm_result_, __LINE__).status(); \
  declaration = std::move(VLLM_CONCAT_(vllm_result_, __LINE__)).value()
