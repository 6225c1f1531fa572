#include "formats/json.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

TEST(Json, KeepsOrderAndIndents) {
  Json j;
  j["zeta"] = 1;
  j["alpha"] = {1.5, true, nullptr};
  j["empty"] = Json::object();
  j["none"] = Json::array();
  EXPECT_EQ(json_text(j),
            "{\n  \"zeta\": 1,\n  \"alpha\": [\n    1.5,\n    true,\n    null\n  ],\n  \"empty\": {},\n  "
            "\"none\": []\n}\n");
}

TEST(Json, DoublesAreLaidOutAsPythonDoes) {
  // Left: what Python's repr prints.
  const std::pair<const char*, double> cases[] = {
      {"0.0", 0.0},
      {"-0.0", -0.0},
      {"1.0", 1.0},
      {"-1.5", -1.5},
      {"0.1", 0.1},
      {"0.0001", 0.0001},
      {"1e-05", 0.00001},
      {"1.5e-05", 0.000015},
      {"1e+16", 1e16},
      {"1e+22", 1e22},
      {"100000.0", 1e5},
      {"1234567890123456.0", 1234567890123456.0},
      {"5e-324", 5e-324},
      {"1e+300", 1e300},
      {"0.001", 0.001},
      {"1777144919.629479", 1777144919.629479},
      {"123.456", 123.456},
      {"1.7976931348623157e+308", std::numeric_limits<double>::max()},
      {"0.30000000000000004", 0.1 + 0.2},
  };
  for (const auto& [text, value] : cases) {
    EXPECT_EQ(json_double(value), text);
  }
  EXPECT_EQ(json_double(std::nan("")), "null");
  EXPECT_EQ(json_double(std::numeric_limits<double>::infinity()), "null");
}

TEST(Json, EveryDoubleReadsBackEqual) {
  Random random(1);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random.next());
    if (!std::isfinite(value)) continue;
    const std::string text = json_double(value);
    double back = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), back);
    ASSERT_EQ(error, std::errc()) << text;
    ASSERT_EQ(std::bit_cast<uint64_t>(back), std::bit_cast<uint64_t>(value)) << text;
    ASSERT_EQ(parse_json(text, "t").value().get<double>(), value);
  }
}

TEST(Json, ErrorsNameThePosition) {
  const auto bad = parse_json("{\n  \"a\": 1,\n  \"b\": oops\n}", "x/meta.json");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.status().code(), StatusCode::kBadInput);
  EXPECT_THAT(bad.status().message(), HasSubstr("x/meta.json:3:8: is not valid JSON: "));
  EXPECT_THAT(parse_json("", "e").status().message(), HasSubstr("e:1:1: is not valid JSON"));
  EXPECT_THAT(parse_json("{\"a\": 1e999}", "e").status().message(), HasSubstr("is not valid JSON"));
  EXPECT_THAT(parse_json("{} {}", "e").status().message(), HasSubstr("e:1:4:"));
  EXPECT_THAT(parse_json("\"\xff\"", "e").status().message(), HasSubstr("UTF-8"));
}

TEST(Json, RefusesDeepNestingAndHugeObjects) {
  EXPECT_TRUE(parse_json(std::string(256, '[') + std::string(256, ']'), "d"));
  const auto deep = parse_json(std::string(257, '[') + std::string(257, ']'), "d");
  EXPECT_EQ(deep.status().message(), "d:1:257: is nested deeper than 256 levels");
  EXPECT_FALSE(parse_json(std::string(1'000'000, '['), "d"));
  // Brackets inside of strings do not count.
  EXPECT_TRUE(parse_json("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"", "d"));

  std::string wide = "{";
  for (int i = 0; i <= 10'000; ++i) wide += fmt::format("{}\"k{}\":0", i == 0 ? "" : ",", i);
  EXPECT_THAT(parse_json(wide + "}", "w").status().message(), HasSubstr("more than 10000 members"));
  std::string list = "[0";
  for (int i = 0; i < 20'000; ++i) list += ",0";
  EXPECT_TRUE(parse_json(list + "]", "w"));
}

TEST(Json, WritesStringsThatAreNotUtf8) {
  EXPECT_EQ(json_string("a\"b\n\x01"), "\"a\\\"b\\n\\u0001\"");
  EXPECT_EQ(json_string("\xff"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(json_text(Json("\xff")), "\"\xEF\xBF\xBD\"\n");
}

TEST(Json, ReadsFiles) {
  const testing::TempDir dir;
  testing::write_text(dir / "a.json", "{\"a\": [1, 2.5]}");
  EXPECT_EQ(read_json_file(dir / "a.json").value()["a"][1], 2.5);
  EXPECT_THAT(read_json_file(dir / "none.json").status().message(), HasSubstr("no such file"));
}

}  // namespace
}  // namespace vllm
