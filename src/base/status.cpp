#include "base/status.h"

namespace vllm {

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk) state_ = std::make_shared<const State>(State{code, std::move(message)});
}

const std::string& Status::message() const {
  static const std::string kNone;
  return state_ ? state_->message : kNone;
}

Status Status::with_context(const std::string& context) const {
  if (is_ok()) return *this;
  return {state_->code, context + ": " + state_->message};
}

int exit_code(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return 0;
    case StatusCode::kUsage:
    case StatusCode::kBadInput:
    case StatusCode::kRefused:
      return 2;
    case StatusCode::kFailed:
    case StatusCode::kIo:
    case StatusCode::kAborted:
      return 1;
  }
  return 1;
}

}  // namespace vllm
