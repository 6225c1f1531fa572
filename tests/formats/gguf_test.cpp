#include <cstring>
#include <fstream>
#include <sstream>

#include "base/memory_facts.h"
#include "formats/tensor_file.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

std::string golden(const std::string& name) { return VLLM_SOURCE_DIR "/tests/golden/formats/" + name; }

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

template <typename T>
T value_at(const TensorView& t, size_t i) {
  T value;
  std::memcpy(&value, t.data + i * sizeof(T), sizeof(T));
  return value;
}

// Lays out a GGUF file field by field, so that each of them can be wrong.
struct Builder {
  std::string bytes;
  template <typename T>
  Builder& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Builder& text(const std::string& s) {
    put<uint64_t>(s.size());
    bytes += s;
    return *this;
  }
  Builder& header(uint64_t tensors, uint64_t metadata, uint32_t version = 3) {
    bytes += "GGUF";
    return put<uint32_t>(version).put<uint64_t>(tensors).put<uint64_t>(metadata);
  }
  Builder& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                  uint64_t offset) {
    text(name).put<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t d : dims) put<uint64_t>(d);
    return put<uint32_t>(type).put<uint64_t>(offset);
  }
  Builder& data(size_t count) {
    while (bytes.size() % 32 != 0) bytes += '\0';
    bytes.append(count, '\1');
    return *this;
  }
};

class Gguf : public ::testing::Test {
 protected:
  Result<GgufFile> read(const std::string& bytes) {
    write_text(dir_ / "x.gguf", bytes);
    return read_gguf(dir_ / "x.gguf");
  }
  // Of a copy without slack, so that a sanitizer sees one byte too far.
  static Result<GgufFile> parse(const std::string& bytes) {
    const std::vector<char> exact(bytes.begin(), bytes.end());
    return parse_gguf(std::as_bytes(std::span(exact)), "x.gguf");
  }
  // The message without the path.
  std::string refusal(const Builder& b) {
    const auto result = read(b.bytes);
    if (result.is_ok()) return "accepted";
    EXPECT_EQ(result.status().code(), StatusCode::kBadInput);
    const std::string prefix = dir_ / "x.gguf: ";
    EXPECT_TRUE(result.status().message().starts_with(prefix)) << result.status().message();
    return result.status().message().substr(prefix.size());
  }
  TempDir dir_;
};

TEST_F(Gguf, ReadsWhatAnotherWriterWrote) {
  for (const char* name : {"small.gguf", "aligned64.gguf"}) {
    const auto result = read_gguf(golden(name));
    ASSERT_TRUE(result) << result.status().message();
    const GgufFile& f = *result;
    EXPECT_EQ(f.version, 3u);
    EXPECT_EQ(f.string("general.architecture"), "llama");
    EXPECT_EQ(f.integer("t.u8"), 200);
    EXPECT_EQ(f.integer("t.i8"), -100);
    EXPECT_EQ(f.integer("t.u16"), 60000);
    EXPECT_EQ(f.integer("t.i16"), -30000);
    EXPECT_EQ(f.integer("t.u32"), 4000000000);
    EXPECT_EQ(f.integer("t.i32"), -2000000000);
    EXPECT_EQ(f.integer("t.u64"), std::nullopt) << "does not fit";
    EXPECT_EQ(std::get<uint64_t>(f.metadata.at("t.u64")), UINT64_MAX);
    EXPECT_EQ(f.integer("t.i64"), -(int64_t{1} << 62));
    EXPECT_EQ(f.number("t.f32"), 0.5);
    EXPECT_EQ(f.number("t.f64"), 0.1);
    EXPECT_EQ(f.number("t.u8"), 200.0);
    EXPECT_EQ(std::get<bool>(f.metadata.at("t.true")), true);
    EXPECT_EQ(std::get<bool>(f.metadata.at("t.false")), false);
    EXPECT_EQ(f.string("t.string"), "caf\u00e9 \u4f60");
    EXPECT_EQ(f.string("t.u8"), std::nullopt);
    EXPECT_EQ(f.integer("t.string"), std::nullopt);
    EXPECT_EQ(f.integer("absent"), std::nullopt);
    EXPECT_EQ(f.number("absent"), std::nullopt);
    EXPECT_EQ(std::get<std::vector<int64_t>>(f.metadata.at("t.ints")), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_EQ(std::get<std::vector<double>>(f.metadata.at("t.floats")), (std::vector<double>{0.5, -1.25}));
    EXPECT_EQ(std::get<std::vector<std::string>>(f.metadata.at("t.strings")),
              (std::vector<std::string>{"a", "", "long enough not to be stored in place"}));
    EXPECT_EQ(std::get<std::vector<int64_t>>(f.metadata.at("t.bools")), (std::vector<int64_t>{1, 0, 1}));

    ASSERT_EQ(f.tensors.size(), 6u);
    const TensorView& f32 = f.tensors.at("f32");
    EXPECT_EQ(f32.name, "f32");
    EXPECT_EQ(f32.dtype, DType::kF32);
    EXPECT_EQ(f32.shape, (std::vector<int64_t>{2, 3})) << "slowest dimension first";
    EXPECT_EQ(f32.bytes, 24);
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(value_at<float>(f32, i), static_cast<float>(i) - 2.5f);
    EXPECT_EQ(f.tensors.at("i32").shape, (std::vector<int64_t>{1, 5}));
    for (size_t i = 0; i < 5; ++i)
      EXPECT_EQ(value_at<int32_t>(f.tensors.at("i32"), i), static_cast<int32_t>(i));
    const TensorView& q = f.tensors.at("q4_1");
    EXPECT_EQ(q.dtype, DType::kQ4_1);
    EXPECT_EQ(q.shape, (std::vector<int64_t>{3, 64}));
    EXPECT_EQ(q.bytes, 3 * 2 * 20);
    EXPECT_EQ(f.tensors.at("q8_0").bytes, 3 * 2 * 34);
    EXPECT_EQ(f.tensors.at("bf16").dtype, DType::kBF16);
    const size_t alignment = std::string(name) == "small.gguf" ? 32 : 64;
    for (const auto& [_, t] : f.tensors) {
      EXPECT_EQ(static_cast<size_t>(t.data - f.mapping->data()) % alignment, 0u) << t.name;
    }
  }
}

TEST_F(Gguf, ReadsTheDefaultModel) {
  const auto path = testing::default_model_path();
  if (!path) GTEST_SKIP() << "models/SmolLM2-135M-Instruct.Q4_1.gguf is not there; scripts/setup fetches it";
  const auto result = read_gguf(*path);
  ASSERT_TRUE(result) << result.status().message();
  std::map<std::string, int> count;
  int64_t parameters = 0;
  for (const auto& [name, t] : result->tensors) {
    ++count[dtype_name(t.dtype)];
    int64_t elements = 1;
    for (const int64_t d : t.shape) elements *= d;
    parameters += elements;
  }
  EXPECT_EQ(count, (std::map<std::string, int>{{"Q4_1", 210}, {"Q8_0", 1}, {"float32", 61}}));
  EXPECT_EQ(result->tensors.at("token_embd.weight").dtype, DType::kQ8_0);
  EXPECT_EQ(result->tensors.at("token_embd.weight").shape, (std::vector<int64_t>{49152, 576}));
  EXPECT_EQ(parameters, 134515008);
  EXPECT_EQ(result->string("general.architecture"), "llama");
  EXPECT_EQ(result->integer("llama.block_count"), 30);
  EXPECT_EQ(result->integer("llama.attention.head_count"), 9);
  EXPECT_EQ(result->integer("llama.attention.head_count_kv"), 3);
  EXPECT_EQ(std::get<std::vector<std::string>>(result->metadata.at("tokenizer.ggml.tokens")).size(), 49152u);
}

TEST_F(Gguf, Version2IsTheSameLayout) {
  const auto result = read(Builder().header(1, 0, 2).tensor("w", {4}, 0, 0).data(16).bytes);
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->version, 2u);
  EXPECT_EQ(result->tensors.at("w").bytes, 16);
}

TEST_F(Gguf, RefusesWhatIsNotAGgufFile) {
  EXPECT_THAT(refusal(Builder()),
              HasSubstr("is truncated: the file ends at byte 0, inside the magic number"));
  Builder other;
  other.bytes = "PK\3\4 and so on";
  EXPECT_EQ(refusal(other), "is not a GGUF file: it does not begin with 'GGUF'");
  EXPECT_EQ(refusal(Builder().header(0, 0, 1)), "has GGUF version 1, versions 2 and 3 are accepted");
  EXPECT_EQ(refusal(Builder().header(0, 0, 4)), "has GGUF version 4, versions 2 and 3 are accepted");
  EXPECT_THAT(refusal(Builder().header(0, 0, 0x03000000)), HasSubstr("big-endian"));
  EXPECT_THAT(read_gguf(dir_ / "none.gguf").status().message(), HasSubstr("no such file"));
}

TEST_F(Gguf, RefusesCountsBeyondTheFile) {
  EXPECT_EQ(refusal(Builder().header(UINT64_MAX, 0)),
            "the number of tensors is 18446744073709551615, but only 0 bytes follow");
  EXPECT_THAT(refusal(Builder().header(0, uint64_t{1} << 60)),
              HasSubstr("the number of metadata entries is 1152921504606846976"));
  // An array that says it has 2^61 numbers.
  Builder b;
  b.header(0, 1).text("big").put<uint32_t>(9).put<uint32_t>(4).put<uint64_t>(uint64_t{1} << 61);
  EXPECT_THAT(refusal(b),
              HasSubstr("the length of metadata 'big' is 2305843009213693952, but only 0 bytes follow"));
  Builder strings;
  strings.header(0, 1).text("big").put<uint32_t>(9).put<uint32_t>(8).put<uint64_t>(2).text("a");
  EXPECT_THAT(refusal(strings), HasSubstr("the length of metadata 'big' is 2, but only 9 bytes follow"));
  Builder key;
  key.header(0, 1).put<uint64_t>(UINT64_MAX - 3).put<uint64_t>(0).put<uint64_t>(0);
  EXPECT_THAT(refusal(key), HasSubstr("a metadata key has a length of 18446744073709551612 bytes"));
}

TEST_F(Gguf, RefusesBadMetadata) {
  EXPECT_EQ(refusal(Builder().header(0, 1).text("k").put<uint32_t>(13).put<uint64_t>(0)),
            "metadata 'k' has type 13, known are 0 to 12");
  EXPECT_EQ(refusal(Builder().header(0, 1).text("k").put<uint32_t>(9).put<uint32_t>(99).put<uint64_t>(0)),
            "metadata 'k' is an array of type 99, known are 0 to 12");
  EXPECT_EQ(refusal(Builder().header(0, 1).text("k").put<uint32_t>(9).put<uint32_t>(9).put<uint64_t>(0)),
            "metadata 'k' is an array of arrays, which is not supported");
  EXPECT_EQ(refusal(Builder().header(0, 1).text("k").put<uint32_t>(7).put<uint8_t>(2)),
            "metadata 'k' is a truth value of 2, accepted are 0 and 1");
  Builder twice;
  twice.header(0, 2).text("k").put<uint32_t>(4).put<uint32_t>(1).text("k").put<uint32_t>(4).put<uint32_t>(1);
  EXPECT_EQ(refusal(twice), "metadata 'k' occurs twice");
  Builder huge;
  huge.header(0, 1).text("k").put<uint32_t>(9).put<uint32_t>(10).put<uint64_t>(1).put<uint64_t>(UINT64_MAX);
  EXPECT_THAT(refusal(huge), HasSubstr("metadata 'k' holds 18446744073709551615"));
  for (const uint32_t alignment : {0u, 1u, 4u, 33u, 1u << 21}) {
    Builder b;
    b.header(0, 1).text("general.alignment").put<uint32_t>(4).put<uint32_t>(alignment);
    EXPECT_EQ(refusal(b), "general.alignment must be a power of two from 8 to 1048576") << alignment;
  }
}

TEST_F(Gguf, RefusesBadTensors) {
  EXPECT_THAT(refusal(Builder().header(1, 0).tensor("w", {4}, 19, 0).data(16)),
              HasSubstr("tensor 'w' has type 19 (IQ1_S), supported are F32, F16, Q4_0"));
  EXPECT_THAT(refusal(Builder().header(1, 0).tensor("w", {4}, 77, 0).data(16)),
              HasSubstr("type 77 (unknown)"));
  EXPECT_EQ(refusal(Builder().header(1, 0).tensor("w", {1, 1, 1, 1, 1}, 0, 0).data(16)),
            "tensor 'w' has 5 dimensions, at most 4 are accepted");
  EXPECT_EQ(
      refusal(Builder().header(1, 0).tensor("w", {uint64_t{1} << 33, uint64_t{1} << 33}, 0, 0).data(16)),
      "tensor 'w' has more elements than 63 bits can count");
  EXPECT_EQ(refusal(Builder().header(1, 0).tensor("w", {uint64_t{1} << 63}, 0, 0).data(16)),
            "tensor 'w' has more elements than 63 bits can count");
  EXPECT_EQ(refusal(Builder().header(1, 0).tensor("w", {uint64_t{1} << 62}, 0, 0).data(16)),
            "tensor 'w' has more bytes than 63 bits can count");
  EXPECT_EQ(refusal(Builder().header(1, 0).tensor("w", {33}, 3, 0).data(60)),
            "tensor 'w' has rows of 33 elements, Q4_1 needs multiples of 32");
  // 2 x 16 elements are a whole block, but no row of it is.
  EXPECT_THAT(refusal(Builder().header(1, 0).tensor("w", {16, 2}, 3, 0).data(60)),
              HasSubstr("rows of 16 elements"));
  EXPECT_EQ(refusal(Builder().header(1, 0).tensor("w", {4}, 0, 8).data(32)),
            "tensor 'w' starts at offset 8, which is not a multiple of the alignment 32");
  EXPECT_EQ(refusal(Builder().header(1, 0).tensor("w", {4}, 0, 0).data(15)),
            "is truncated or damaged: tensor 'w' needs 16 bytes at offset 0 of the data, which has 15");
  EXPECT_THAT(refusal(Builder().header(1, 0).tensor("w", {4}, 0, UINT64_MAX - 31).data(16)),
              HasSubstr("needs 16 bytes at offset 18446744073709551584"));
  EXPECT_EQ(refusal(Builder().header(2, 0).tensor("v", {12}, 0, 0).tensor("w", {4}, 0, 32).data(64)),
            "tensors 'v' and 'w' overlap");
  EXPECT_EQ(refusal(Builder().header(2, 0).tensor("w", {4}, 0, 0).tensor("w", {4}, 0, 32).data(64)),
            "tensor 'w' occurs twice");
  // A name cannot steer the terminal.
  EXPECT_THAT(refusal(Builder().header(1, 0).tensor("\x1b[2Jw\n", {4}, 77, 0)),
              HasSubstr("tensor '\\x1b[2Jw\\x0a'"));
}

TEST_F(Gguf, EveryTruncationIsAnErrorAndEveryFlippedByteIsSurvived) {
  const std::string good = slurp(golden("small.gguf"));
  ASSERT_FALSE(good.empty());
  for (size_t n = 0; n < good.size(); ++n) {
    const auto result = parse(good.substr(0, n));
    // Behind the last tensor the writer pads.
    if (n < good.size() - 32) {
      ASSERT_FALSE(result) << "cut after " << n << " bytes";
    }
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (const unsigned char mask : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(static_cast<unsigned char>(bad[i]) ^ mask);
      const std::vector<char> exact(bad.begin(), bad.end());
      const auto result = parse_gguf(std::as_bytes(std::span(exact)), "x.gguf");
      if (!result) continue;
      const std::byte* begin = std::as_bytes(std::span(exact)).data();
      for (const auto& [name, t] : result->tensors) {
        ASSERT_TRUE(t.bytes == 0 || (t.data >= begin && t.data + t.bytes <= begin + bad.size()));
      }
    }
  }
}

TEST_F(Gguf, ReadingAModelDoesNotLoadIt) {
  const auto path = testing::default_model_path();
  if (!path) GTEST_SKIP() << "models/SmolLM2-135M-Instruct.Q4_1.gguf is not there; scripts/setup fetches it";
  const int64_t before = read_process_memory().rss_bytes;
  const auto result = read_gguf(*path);
  ASSERT_TRUE(result);
  EXPECT_LT(read_process_memory().rss_bytes - before, int64_t{40} << 20) << "of 98 MB";
}

}  // namespace
}  // namespace vllm
