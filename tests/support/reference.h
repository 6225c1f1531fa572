#pragma once

// Data that is not part of the project: reference recordings, workloads and the Python model of the
// scheduler. A test that needs them skips visibly where they are absent.

#include <optional>
#include <string>

namespace vllm::testing {

// Path below the folder `shared` beside the checkout; nullopt when it is not there.
std::optional<std::string> shared_path(const std::string& relative);

// The default model's GGUF file, where scripts/setup put it; nullopt when it is not there.
std::optional<std::string> default_model_path();

// A fresh folder below the test's temporary directory, removed when the object goes.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Writes `text` to `path`, for test input.
void write_text(const std::string& path, const std::string& text);

}  // namespace vllm::testing
