#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace vllm {

// SHA-256 over bytes that come in pieces. One thread owns it.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  ~Sha256();
  void update(const void* bytes, size_t size);
  std::string hex();  // of everything so far; ends the computation

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vllm
