#include "kv/prefix_hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <cassert>
#include <cstring>
#include <string>

namespace vllm {

// The algorithm is fetched once: an implicit fetch in every call costs more than the hash.
struct PrefixHasher::Sha256 {
  EVP_MD* algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Sha256() {
    EVP_MD_CTX_free(context);
    EVP_MD_free(algorithm);
  }
};

PrefixHasher::PrefixHasher(PrefixHash kind, int block_size)
    : buffer_(sizeof(BlockHash) + static_cast<size_t>(block_size) * sizeof(int32_t)) {
  if (kind == PrefixHash::kSha256) sha256_ = std::make_unique<Sha256>();
}
PrefixHasher::~PrefixHasher() = default;
PrefixHasher::PrefixHasher(PrefixHasher&&) noexcept = default;

BlockHash PrefixHasher::digest(const void* data, size_t size) {
  BlockHash hash;
  if (!sha256_) {
    const XXH128_hash_t value = XXH3_128bits(data, size);
    hash.low = value.low64;
    hash.high = value.high64;
    return hash;
  }
  unsigned char bytes[EVP_MAX_MD_SIZE] = {};
  [[maybe_unused]] const bool done = EVP_DigestInit_ex(sha256_->context, sha256_->algorithm, nullptr) == 1 &&
                                     EVP_DigestUpdate(sha256_->context, data, size) == 1 &&
                                     EVP_DigestFinal_ex(sha256_->context, bytes, nullptr) == 1;
  assert(done && "SHA-256 is in every OpenSSL and takes any input");
  std::memcpy(&hash.low, bytes, sizeof hash.low);
  std::memcpy(&hash.high, bytes + sizeof hash.low, sizeof hash.high);
  return hash;
}

BlockHash PrefixHasher::root(std::string_view salt) {
  if (salt.empty()) return {};
  // The prefix keeps a salt from being mistaken for the contents of a block.
  const std::string text = "cache salt:" + std::string(salt);
  return digest(text.data(), text.size());
}

BlockHash PrefixHasher::next(const BlockHash& parent, std::span<const int32_t> tokens) {
  assert(tokens.size_bytes() + sizeof parent == buffer_.size());
  std::memcpy(buffer_.data(), &parent, sizeof parent);
  std::memcpy(buffer_.data() + sizeof parent, tokens.data(), tokens.size_bytes());
  return digest(buffer_.data(), buffer_.size());
}

}  // namespace vllm
