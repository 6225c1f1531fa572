// Against CPython 3: random.Random(42).

#include "sim/python_random.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;

TEST(PythonRandom, DrawsWhatPythonDraws) {
  PythonRandom random(42);
  std::vector<uint32_t> drawn;
  for (int i = 0; i < 8; ++i) drawn.push_back(random.below(10));
  EXPECT_THAT(drawn, ElementsAre(1, 0, 4, 3, 3, 2, 1, 8));
}

TEST(PythonRandom, SamplesWhatPythonSamples) {
  PythonRandom random(42);
  std::vector<uint32_t> out;
  random.sample(128, 8, out);  // drawn again when drawn before
  EXPECT_THAT(out, ElementsAre(28, 6, 70, 62, 57, 35, 26, 22));
  random.sample(16, 8, out);  // from a shrinking pool
  EXPECT_THAT(out, ElementsAre(13, 0, 14, 1, 3, 11, 8, 15));
  random.sample(8, 2, out);
  EXPECT_THAT(out, ElementsAre(3, 5));
  for (int i = 0; i < 1000; ++i) random.sample(128, 8, out);  // more than one refill
  EXPECT_THAT(out, ElementsAre(46, 1, 114, 80, 31, 10, 32, 52));
}

}  // namespace
}  // namespace vllm
