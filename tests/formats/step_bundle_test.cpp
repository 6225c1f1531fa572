#include "formats/step_bundle.h"

#include "base/file.h"
#include "formats/json.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

StepBundle some_bundle() {
  StepBundle b;
  b.hardware = "a card";
  b.engine = "0.26.0";
  b.sources = {"one", "two"};
  b.scheduling_depth = 2;
  b.capture_sizes = {1, 2, 4, 8};
  b.full_graph_rows = 4;
  b.host.gap_ms = 0.12;
  b.host.eager_launch_ms = 26.5;
  b.host.eager_quantiles = {0.6, 1, 1.4};
  b.host.eager_correlation = 0.4;
  b.host.eager_correlation_s = 0.5;
  b.host.eager_streams = true;
  b.graph.terms = {{StepFeature::kConstant, 0, 4.8}, {StepFeature::kPaddedRows, 16, -0.001}};
  b.graph.largest_rows = 8;
  b.eager.terms = {{StepFeature::kTokens, 0, 19.6}};
  b.eager.noise = 0.05;
  b.host_scale = 0.9;
  b.residuals = {{"device, graph", 12, 5.0, 0.01, 0.1, -0.2, 0.0, 0.2, 0.02, 0.12}};
  return b;
}

TEST(StepBundle, ReadsBackEqual) {
  const StepBundle bundle = some_bundle();
  const auto back = parse_step_bundle(step_bundle_json(bundle), "b");
  ASSERT_TRUE(back.is_ok()) << back.status().message();
  EXPECT_EQ(*back, bundle);
  const TempDir dir;
  ASSERT_TRUE(write_step_bundle(bundle, dir / "new/folder").is_ok());
  const auto read = read_step_bundle(dir / "new/folder");
  ASSERT_TRUE(read.is_ok()) << read.status().message();
  EXPECT_EQ(*read, bundle);
}

std::string error_after(const std::function<void(Json&)>& change) {
  Json json = *parse_json(step_bundle_json(some_bundle()), "b");
  change(json);
  const auto parsed = parse_step_bundle(json_text(json), "dir/step_bundle.json");
  if (parsed) return "accepted";
  EXPECT_EQ(exit_code(parsed.status()), 2);
  EXPECT_THAT(parsed.status().message(), HasSubstr("dir/step_bundle.json"));
  return parsed.status().message();
}

TEST(StepBundle, EveryKeyMustBeThere) {
  const Json whole = *parse_json(step_bundle_json(some_bundle()), "b");
  for (const auto& [key, value] : whole.items()) {
    EXPECT_THAT(error_after([&key = key](Json& j) { j.erase(key); }), HasSubstr("'" + key + "'")) << key;
  }
  for (const auto& [key, value] : whole["host"].items()) {
    EXPECT_THAT(error_after([&key = key](Json& j) { j["host"].erase(key); }),
                HasSubstr("'host." + key + "' is missing"));
  }
  for (const auto& [key, value] : whole["eager"].items()) {
    EXPECT_THAT(error_after([&key = key](Json& j) { j["eager"].erase(key); }),
                HasSubstr("'eager." + key + "' is missing"));
  }
}

TEST(StepBundle, NoOtherKeyMay) {
  EXPECT_THAT(error_after([](Json& j) { j["more"] = 1; }), HasSubstr("'more' is not a key"));
  EXPECT_THAT(error_after([](Json& j) { j["graph"]["terms"][0]["unit"] = 1; }),
              HasSubstr("'graph.terms[0].unit' is not a key"));
}

TEST(StepBundle, NumbersAreInTheirRange) {
  EXPECT_THAT(error_after([](Json& j) { j["version"] = 2; }), HasSubstr("'version' is 2, accepted is"));
  EXPECT_THAT(error_after([](Json& j) { j["format"] = "x"; }), HasSubstr("'format' is \"x\""));
  EXPECT_THAT(error_after([](Json& j) { j["scheduling_depth"] = 3; }), HasSubstr("'scheduling_depth' is 3"));
  EXPECT_THAT(error_after([](Json& j) { j["host"]["gap_ms"] = -1; }), HasSubstr("'host.gap_ms' is -1"));
  EXPECT_THAT(error_after([](Json& j) { j["host"]["gap_ms"] = nullptr; }),
              HasSubstr("'host.gap_ms' is null"));
  EXPECT_THAT(error_after([](Json& j) { j["host"]["eager_streams"] = 1; }),
              HasSubstr("accepted is true or false"));
  EXPECT_THAT(error_after([](Json& j) { j["host"]["eager_quantiles"] = {2, 1}; }), HasSubstr("do not fall"));
  EXPECT_THAT(error_after([](Json& j) { j["host"]["eager_quantiles"] = {1}; }), HasSubstr("at least two"));
  EXPECT_THAT(error_after([](Json& j) { j["capture_sizes"] = {4, 2}; }), HasSubstr("that rise"));
  EXPECT_THAT(error_after([](Json& j) { j["eager"]["noise"] = 2; }), HasSubstr("'eager.noise' is 2"));
  EXPECT_THAT(error_after([](Json& j) { j["eager"]["terms"][0]["feature"] = "moon"; }),
              HasSubstr("'eager.terms[0].feature' is \"moon\", accepted is constant, rows"));
  EXPECT_THAT(error_after([](Json& j) { j["eager"]["terms"] = Json::array(); }),
              HasSubstr("'eager.terms' is empty"));
  EXPECT_THAT(error_after([](Json& j) { j["graph"]["terms"] = Json::array(); }),
              HasSubstr("'graph.terms' is empty"));
  EXPECT_THAT(error_after([](Json& j) { j["host"] = 1; }), HasSubstr("'host' is not an object"));
  EXPECT_THAT(error_after([](Json& j) { j["sources"] = "one"; }), HasSubstr("'sources' is not a list"));
  EXPECT_THAT(error_after([](Json& j) { j["residuals"][0]["samples"] = 0.5; }),
              HasSubstr("'residuals[0].samples' is 0.5"));
}

TEST(StepBundle, FilesThatAreNotThere) {
  const TempDir dir;
  EXPECT_THAT(read_step_bundle(dir / "none").status().message(), HasSubstr("there is no such folder"));
  EXPECT_THAT(read_step_bundle(dir.path()).status().message(),
              HasSubstr("vllm-profile --from-steps makes one"));
  write_text(dir / "step_bundle.json", "{");
  EXPECT_EQ(exit_code(read_step_bundle(dir.path()).status()), 2);
}

}  // namespace
}  // namespace vllm
