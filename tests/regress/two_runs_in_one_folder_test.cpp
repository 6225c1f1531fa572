// Two runs that began at once in one folder: both found it empty, and the one that lost wrote its
// aborted.json over the other's recording, so that none was left.

#include "base/file.h"
#include "bench/output_dir.h"
#include "support/reference.h"

namespace vllm {
namespace {

TEST(TwoRunsInOneFolder, TheSecondIsRefusedWhileTheFirstHasIt) {
  testing::TempDir dir;
  auto first = OutputDir::open(dir.path());
  ASSERT_TRUE(first.is_ok());
  const auto second = OutputDir::open(dir.path());
  ASSERT_FALSE(second.is_ok());
  EXPECT_EQ(exit_code(second.status()), 2);
  EXPECT_EQ(
      second.status().message(),
      fmt::format("--output-dir {}: another run is being recorded into it; give a fresh folder", dir.path()));
  // The lock goes where the object goes.
  const OutputDir moved = std::move(*first);
  EXPECT_FALSE(OutputDir::open(dir.path()).is_ok());
}

TEST(TwoRunsInOneFolder, TheFolderIsFreeAfterARunThatLeftNothing) {
  testing::TempDir dir;
  { ASSERT_TRUE(OutputDir::open(dir.path()).is_ok()); }
  EXPECT_TRUE(OutputDir::open(dir.path()).is_ok());
}

TEST(TwoRunsInOneFolder, ALoserDoesNotRemoveTheFolderOfTheWinner) {
  testing::TempDir dir;
  const auto first = OutputDir::open(dir / "run");
  ASSERT_TRUE(first.is_ok());
  { EXPECT_FALSE(OutputDir::open(dir / "run").is_ok()); }
  EXPECT_TRUE(is_directory(dir / "run"));
  EXPECT_TRUE(first->write("meta.json", "{}").is_ok());
}

}  // namespace
}  // namespace vllm
