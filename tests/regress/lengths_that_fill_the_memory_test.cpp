// A damaged length in a large GGUF file passed every check, since so many bytes did follow, and made the
// reader copy up to 32 times the file's size into memory: counts have limits of their own.

#include <span>

#include "formats/tensor_file.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

struct Builder {
  std::string bytes = "GGUF";
  template <typename T>
  Builder& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Builder& key(const std::string& name) {
    put<uint64_t>(name.size());
    bytes += name;
    return *this;
  }
  Builder& header(uint64_t tensors, uint64_t metadata) {
    return put<uint32_t>(3).put<uint64_t>(tensors).put<uint64_t>(metadata);
  }
};

std::string refusal(const std::string& bytes) {
  const auto result = parse_gguf(std::as_bytes(std::span(bytes)), "x.gguf");
  if (result.is_ok()) return "accepted";
  EXPECT_EQ(exit_code(result.status()), 2);
  return result.status().message();
}

TEST(LengthsThatFillTheMemory, AnArrayHasAtMostFourMillionElements) {
  constexpr uint64_t kMost = uint64_t{1} << 22;
  Builder b;
  b.header(0, 1).key("k").put<uint32_t>(9).put<uint32_t>(0).put<uint64_t>(kMost);
  std::string fits = b.bytes + std::string(kMost, '\1');
  EXPECT_EQ(refusal(fits), "accepted");
  Builder more;
  more.header(0, 1).key("k").put<uint32_t>(9).put<uint32_t>(0).put<uint64_t>(kMost + 1);
  EXPECT_EQ(refusal(more.bytes + std::string(kMost + 1, '\1')),
            "x.gguf: metadata 'k' is an array of 4194305 elements, at most 4194304 are accepted");
}

TEST(LengthsThatFillTheMemory, TheMetadataHasAtMost64MiB) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  Builder b;
  b.header(0, 1).key("k").put<uint32_t>(8).put<uint64_t>(65 * kMiB);
  EXPECT_THAT(refusal(b.bytes + std::string(65 * kMiB, 'x')), HasSubstr("at most 67108864 are accepted"));
  Builder list;
  list.header(0, 1).key("k").put<uint32_t>(9).put<uint32_t>(8).put<uint64_t>(66);
  for (int i = 0; i < 66; ++i) {
    list.put<uint64_t>(kMiB);
    list.bytes.append(kMiB, 'x');
  }
  EXPECT_EQ(refusal(list.bytes),
            "x.gguf: the metadata up to metadata 'k' has more than the 67108864 bytes that are accepted");
}

TEST(LengthsThatFillTheMemory, TensorsAndEntriesAreCounted) {
  Builder tensors;
  tensors.header((uint64_t{1} << 20) + 1, 0);
  tensors.bytes.append(size_t{26} << 20, '\0');
  EXPECT_EQ(refusal(tensors.bytes),
            "x.gguf: has 1048577 tensors and 0 metadata entries, at most 1048576 and 65536 are accepted");
  Builder entries;
  entries.header(0, 65537);
  entries.bytes.append(size_t{1} << 20, '\0');
  EXPECT_THAT(refusal(entries.bytes), HasSubstr("has 0 tensors and 65537 metadata entries, at most"));
}

}  // namespace
}  // namespace vllm
