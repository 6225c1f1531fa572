#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

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

std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data_bytes, '\1');
}

// The refusal's message without the path; "accepted" when there is none.
std::string refusal(const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  const auto result = parse_safetensors(std::as_bytes(std::span(exact)), "x");
  if (result.is_ok()) return "accepted";
  EXPECT_EQ(result.status().code(), StatusCode::kBadInput);
  EXPECT_TRUE(result.status().message().starts_with("x: ")) << result.status().message();
  return result.status().message().substr(3);
}

TEST(Safetensors, ReadsWhatAnotherWriterWrote) {
  const auto result = read_safetensors(golden("small.safetensors"));
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  const auto& t = result->tensors;
  ASSERT_EQ(t.size(), 7u);
  EXPECT_EQ(t.at("f32").dtype, DType::kF32);
  EXPECT_EQ(t.at("f32").shape, (std::vector<int64_t>{2, 3}));
  float f32[6];
  std::memcpy(f32, t.at("f32").data, sizeof(f32));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(f32[i], static_cast<float>(i) - 2.5f);
  int64_t i64[2];
  std::memcpy(i64, t.at("i64").data, sizeof(i64));
  EXPECT_EQ(i64[0], int64_t{1} << 40);
  EXPECT_EQ(i64[1], -1);
  EXPECT_EQ(t.at("f16").dtype, DType::kF16);
  EXPECT_EQ(t.at("u8").dtype, DType::kU8);
  EXPECT_EQ(t.at("bool").dtype, DType::kBool);
  EXPECT_EQ(t.at("bool").bytes, 2);
  EXPECT_TRUE(t.at("scalar").shape.empty());
  EXPECT_EQ(t.at("scalar").bytes, 4);
  EXPECT_EQ(t.at("empty").bytes, 0);
  EXPECT_EQ(t.at("empty").shape, (std::vector<int64_t>{0, 4}));
}

TEST(Safetensors, RefusesDamagedHeaders) {
  const auto tensor = [](const std::string& fields, size_t data = 16) {
    return refusal(file_of("{\"w\":{" + fields + "}}", data));
  };
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), "accepted");
  EXPECT_EQ(refusal(""), "is truncated: 0 bytes are too few for a safetensors file");
  const uint64_t long_header = 100'000'001;
  EXPECT_THAT(refusal(std::string(reinterpret_cast<const char*>(&long_header), 8) + "{}"),
              HasSubstr("its header would have 100000001 bytes, at most 100000000 are accepted"));
  const uint64_t beyond = 10;
  EXPECT_EQ(refusal(std::string(reinterpret_cast<const char*>(&beyond), 8) + "{}"),
            "is truncated: its header has 10 bytes, 2 follow");
  EXPECT_THAT(refusal(file_of("", 0)), HasSubstr("it does not begin with '{'"));
  EXPECT_THAT(refusal(file_of(" {}", 0)), HasSubstr("it does not begin with '{'"));
  EXPECT_THAT(refusal(file_of("{\"w\":", 0)), HasSubstr("has a damaged safetensors header: "));
  EXPECT_THAT(refusal(file_of("{\"w\":" + std::string(100, '[') + std::string(100, ']') + "}", 0)),
              HasSubstr("has a damaged safetensors header: "));
  EXPECT_THAT(refusal(file_of("{\"w\":3}", 0)), HasSubstr("tensor 'w' is not an object"));
  EXPECT_THAT(tensor(R"("dtype":"F33","shape":[4],"data_offsets":[0,16])"),
              HasSubstr("tensor 'w' has dtype 'F33', accepted are F64, F32, F16, BF16"));
  EXPECT_THAT(tensor(R"("dtype":1,"shape":[4],"data_offsets":[0,16])"),
              HasSubstr("the dtype of tensor 'w' is not a string"));
  EXPECT_THAT(tensor(R"("shape":[4],"data_offsets":[0,16])"), HasSubstr("tensor 'w' has no dtype"));
  EXPECT_THAT(tensor(R"("dtype":"F32","data_offsets":[0,16])"), HasSubstr("tensor 'w' has no shape"));
  EXPECT_THAT(tensor(R"("dtype":"F32","shape":[4])"), HasSubstr("tensor 'w' has no data_offsets"));
  EXPECT_THAT(tensor(R"("dtype":"F32","shape":[4],"data_offsets":[0,16],"extra":1)"),
              HasSubstr("the unknown key 'extra'"));
  EXPECT_THAT(tensor(R"("dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16])"),
              HasSubstr("the key 'dtype' twice"));
  for (const char* shape : {"[-4]", "[4.0]", "[\"4\"]", "[18446744073709551615]"}) {
    EXPECT_THAT(tensor(fmt::format(R"("dtype":"F32","shape":{},"data_offsets":[0,16])", shape)),
                HasSubstr("has an entry that is not a size"))
        << shape;
  }
  EXPECT_THAT(tensor(R"("dtype":"F32","shape":4,"data_offsets":[0,16])"), HasSubstr("is not a list"));
  EXPECT_THAT(tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])"),
              HasSubstr("more than 16 dimensions"));
  EXPECT_THAT(tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16])"),
              HasSubstr("more elements than 63 bits can count"));
  EXPECT_THAT(tensor(R"("dtype":"F32","shape":[5],"data_offsets":[0,16])"),
              HasSubstr("tensor 'w' has 5 elements of float32, but data_offsets span 16 bytes"));
  for (const char* offsets : {"[16,0]", "[0]", "[0,16,32]", "[-1,15]", "[0,16.0]", "7"}) {
    EXPECT_THAT(tensor(fmt::format(R"("dtype":"F32","shape":[4],"data_offsets":{})", offsets)),
                HasSubstr("data_offsets of tensor 'w' are not two ascending byte positions"))
        << offsets;
  }
}

TEST(Safetensors, EveryByteOfTheDataBelongsToOneTensor) {
  const auto two = [](int b1, int e1, int b2, int e2, size_t data) {
    return refusal(file_of(fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                                       R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                                       e1 - b1, b1, e1, e2 - b2, b2, e2),
                           data));
  };
  EXPECT_EQ(two(0, 4, 4, 8, 8), "accepted");
  EXPECT_EQ(two(4, 8, 0, 4, 8), "accepted") << "in any order";
  EXPECT_THAT(two(0, 5, 4, 8, 8), HasSubstr("tensor 'b' overlaps the tensor before it"));
  EXPECT_THAT(two(0, 8, 0, 8, 8), HasSubstr("overlaps"));
  EXPECT_THAT(two(0, 3, 4, 8, 8), HasSubstr("1 bytes before tensor 'b' belong to no tensor"));
  EXPECT_THAT(two(1, 4, 4, 8, 8), HasSubstr("1 bytes before tensor 'a' belong to no tensor"));
  EXPECT_THAT(two(0, 4, 4, 8, 9), HasSubstr("1 bytes after the last tensor belong to none"));
  EXPECT_THAT(two(0, 4, 4, 8, 7),
              HasSubstr("is truncated or damaged: tensor 'b' ends at byte 8 of the data, which has 7"));
  EXPECT_THAT(refusal(file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                              R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                              0)),
              HasSubstr("tensor 'a' occurs twice"));
}

TEST(Safetensors, MetadataIsStrings) {
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":{"a":"b"}})", 0)), "accepted");
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"a":1}})", 0)),
              HasSubstr("__metadata__ 'a' is not a string"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":[]})", 0)), HasSubstr("__metadata__ is not an object"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0)),
              HasSubstr("__metadata__ 'a' occurs twice"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0)),
              HasSubstr("__metadata__ occurs twice"));
}

TEST(Safetensors, EveryTruncationIsAnErrorAndEveryFlippedByteIsSurvived) {
  const std::string good = slurp(golden("small.safetensors"));
  ASSERT_EQ(refusal(good), "accepted");
  for (size_t n = 0; n < good.size(); ++n) EXPECT_NE(refusal(good.substr(0, n)), "accepted") << n;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const unsigned char mask : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(static_cast<unsigned char>(bad[i]) ^ mask);
      refusal(bad);
    }
  }
}

TEST(SafetensorsCheckpoint, ReadsTheShardsOfAnIndex) {
  const auto result = read_safetensors_checkpoint(golden("shards"));
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->shards.size(), 2u);
  ASSERT_EQ(result->tensors.size(), 3u);
  EXPECT_EQ(result->tensors.at("a.weight").shape, (std::vector<int64_t>{2, 3}));
  float one = 0;
  std::memcpy(&one, result->tensors.at("c.weight").data, 4);
  EXPECT_EQ(one, 1.0f);
}

class Checkpoint : public ::testing::Test {
 protected:
  void shard(const std::string& name, const std::string& tensor) {
    write_text(
        dir_ / name,
        file_of(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}}})", tensor), 4));
  }
  void index(const std::string& text) { write_text(dir_ / "model.safetensors.index.json", text); }
  std::string refusal() {
    const auto result = read_safetensors_checkpoint(dir_.path());
    return result.is_ok() ? "accepted" : result.status().message();
  }
  TempDir dir_;
};

TEST_F(Checkpoint, ASingleFileOrAnyFilesWillDo) {
  shard("b.safetensors", "w2");
  shard("a.safetensors", "w1");
  auto result = read_safetensors_checkpoint(dir_.path());
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->tensors.size(), 2u);
  shard("c.safetensors", "w1");
  EXPECT_THAT(refusal(),
              HasSubstr("c.safetensors: has tensor 'w1', which another file of the folder has too"));
  shard("model.safetensors", "w3");
  result = read_safetensors_checkpoint(dir_.path());
  ASSERT_TRUE(result);
  EXPECT_EQ(result->tensors.size(), 1u) << "model.safetensors goes before all others";
}

TEST_F(Checkpoint, RefusesIndexesThatLeadElsewhere) {
  shard("a.safetensors", "w");
  for (const char* name :
       {"../a.safetensors", "/etc/passwd", "..", ".", "", "x/a.safetensors", "x\\\\a", "a\\u0000b"}) {
    index(fmt::format(R"({{"weight_map":{{"w":"{}"}}}})", name));
    EXPECT_THAT(refusal(), HasSubstr("is not the plain name of a file in the same folder")) << name;
  }
}

TEST_F(Checkpoint, RefusesIndexesThatDoNotFit) {
  shard("a.safetensors", "w");
  index(R"({"weight_map":{"w":"a.safetensors"}})");
  EXPECT_EQ(refusal(), "accepted");
  index(R"({"weight_map":{"w":"a.safetensors","v":"a.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("puts tensor 'v' into a.safetensors, which does not have it"));
  index(R"({"weight_map":{"w":"b.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("b.safetensors: no such file"));
  index(R"({"weight_map":{"w":1}})");
  EXPECT_THAT(refusal(), HasSubstr("the shard of tensor 'w' is not a string"));
  index(R"({"weight_map":{"w":"a.safetensors","w":"a.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("tensor 'w' occurs twice"));
  index(R"({"weight_map":{}})");
  EXPECT_THAT(refusal(), HasSubstr("weight_map is empty"));
  index(R"({})");
  EXPECT_THAT(refusal(), HasSubstr("it has no object weight_map"));
  index("[");
  EXPECT_THAT(refusal(), HasSubstr("is not an index of shards"));
}

TEST_F(Checkpoint, AFolderWithoutWeightsSaysWhatItLookedFor) {
  EXPECT_THAT(refusal(),
              HasSubstr("has no weights: neither model.safetensors, nor model.safetensors.index.json"));
  EXPECT_THAT(read_safetensors_checkpoint(dir_ / "none").status().message(), HasSubstr("is not a folder"));
}

}  // namespace
}  // namespace vllm
