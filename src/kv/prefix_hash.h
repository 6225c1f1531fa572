#pragma once

// Names of full blocks in the prefix cache: H(i) = hash(H(i-1), tokens of block i), with a cache salt as the
// parent of block 0. Equal names mean equal tokens from the start of the sequence, so a block can be found
// without comparing tokens.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace vllm {

// kXxh128 is fast; whoever chooses prompts can construct collisions. kSha256 (its first 128 bits) resists
// that: finding two prompts with one name takes about 2^64 tries.
enum class PrefixHash { kXxh128, kSha256 };

struct BlockHash {
  uint64_t low = 0, high = 0;
  bool operator==(const BlockHash&) const = default;
};

// Keeps scratch memory, so that hashing does not allocate: one thread owns it.
class PrefixHasher {
 public:
  PrefixHasher(PrefixHash kind, int block_size);
  ~PrefixHasher();
  PrefixHasher(PrefixHasher&&) noexcept;

  // Parent of block 0. Different salts never share blocks; without a salt it is one constant.
  BlockHash root(std::string_view salt);
  // `tokens` are exactly block_size.
  BlockHash next(const BlockHash& parent, std::span<const int32_t> tokens);

 private:
  struct Sha256;
  BlockHash digest(const void* data, size_t size);

  std::vector<unsigned char> buffer_;  // parent and tokens, side by side
  std::unique_ptr<Sha256> sha256_;     // null for kXxh128
};

}  // namespace vllm
