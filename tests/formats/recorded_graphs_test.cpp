#include "formats/recorded_graphs.h"

#include "formats/json.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RecordedGraphs graphs_of(const std::string& text, int64_t seqs = 128) {
  const auto graphs = recorded_graphs(*parse_json(text, "m"), seqs, "meta.json");
  EXPECT_TRUE(graphs.is_ok()) << graphs.status().message();
  return *graphs;
}

TEST(RecordedGraphs, VllmsListIsText) {
  const auto graphs =
      graphs_of(R"({"capture_sizes": "[1, 2, 4, 256]", "cudagraph_mode": "FULL_AND_PIECEWISE"})");
  EXPECT_TRUE(graphs.known);
  EXPECT_THAT(graphs.sizes, ElementsAre(1, 2, 4, 256));
  EXPECT_EQ(graphs.full_rows, 128);
  EXPECT_EQ(graphs_of(R"({"capture_sizes": [4, 2, 64]})", 1024).full_rows, 64);
}

TEST(RecordedGraphs, ModesWithoutWholeGraphsOrAny) {
  EXPECT_EQ(graphs_of(R"({"capture_sizes": [8], "cudagraph_mode": "PIECEWISE"})").full_rows, 0);
  EXPECT_THAT(graphs_of(R"({"capture_sizes": [8], "cudagraph_mode": "NONE"})").sizes, IsEmpty());
  EXPECT_THAT(graphs_of(R"({"capture_sizes": "None"})").sizes, IsEmpty());
  EXPECT_THAT(graphs_of(R"({"capture_sizes": null})").sizes, IsEmpty());
}

TEST(RecordedGraphs, OursHasTwoLists) {
  const auto graphs =
      graphs_of(R"({"execution": {"full_capture_sizes": [1, 2], "piecewise_capture_sizes": [2, 16]}})");
  EXPECT_THAT(graphs.sizes, ElementsAre(1, 2, 16));
  EXPECT_EQ(graphs.full_rows, 2);
  EXPECT_FALSE(graphs_of("{}").known);
}

TEST(RecordedGraphs, OtherValuesAreRefused) {
  for (const char* text : {R"({"capture_sizes": "[1, x]"})", R"({"capture_sizes": [0]})",
                           R"({"capture_sizes": 7})", R"({"capture_sizes": [1.5]})"}) {
    const auto graphs = recorded_graphs(*parse_json(text, "m"), 128, "meta.json");
    ASSERT_FALSE(graphs.is_ok()) << text;
    EXPECT_EQ(exit_code(graphs.status()), 2);
    EXPECT_THAT(graphs.status().message(), HasSubstr("meta.json: 'capture_sizes'"));
  }
}

}  // namespace
}  // namespace vllm
