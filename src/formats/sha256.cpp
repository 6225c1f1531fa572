#include "formats/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <string_view>

#include "base/file.h"
#include "formats/workload.h"

namespace vllm {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr);
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(const void* bytes, size_t size) { EVP_DigestUpdate(impl_->context, bytes, size); }

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(impl_->context, digest, &size);
  std::string out;
  for (unsigned int i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.hex();
}

Result<std::string> sha256_file(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  Sha256 hash;
  hash.update(file.data(), file.size());
  return hash.hex();
}

}  // namespace vllm
