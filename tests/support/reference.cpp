#include "support/reference.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace vllm::testing {

std::optional<std::string> shared_path(const std::string& relative) {
  const auto path = std::filesystem::path(VLLM_SOURCE_DIR).parent_path() / "shared" / relative;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.string();
}

std::optional<std::string> default_model_path() {
  const auto path = std::filesystem::path(VLLM_SOURCE_DIR) / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.string();
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "vllm-test-XXXXXX").string();
  path_ = mkdtemp(name.data());
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace vllm::testing
