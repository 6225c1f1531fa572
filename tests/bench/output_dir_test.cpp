#include "bench/output_dir.h"

#include <unistd.h>

#include "base/file.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

TEST(OutputDirTest, AFolderWithARunInItIsRefusedWhateverItsState) {
  for (const char* name :
       {"engine_start.json", "meta.json", "requests.jsonl", "timeseries.csv", "aborted.json"}) {
    testing::TempDir dir;
    testing::write_text(dir / name, "{}");
    const auto opened = OutputDir::open(dir.path());
    ASSERT_FALSE(opened.is_ok()) << name;
    EXPECT_EQ(exit_code(opened.status()), 2);
    EXPECT_EQ(opened.status().message(),
              fmt::format("--output-dir {}: has a run in it ({}); give a fresh folder", dir.path(), name));
  }
}

TEST(OutputDirTest, AnEmptyOrForeignFolderIsFine) {
  testing::TempDir dir;
  testing::write_text(dir / "notes.txt", "mine");
  EXPECT_TRUE(OutputDir::open(dir.path()).is_ok());
  EXPECT_TRUE(file_exists(dir / "notes.txt"));
}

TEST(OutputDirTest, AFolderThatItMadeGoesAgainWhenNothingWasWritten) {
  testing::TempDir dir;
  { ASSERT_TRUE(OutputDir::open(dir / "a/b").is_ok()); }
  EXPECT_FALSE(file_exists(dir / "a/b"));
  {
    const auto opened = OutputDir::open(dir / "a/b");
    ASSERT_TRUE(opened.is_ok());
    ASSERT_TRUE(opened->write("x", "y").is_ok());
  }
  EXPECT_TRUE(file_exists(dir / "a/b/x"));
}

TEST(OutputDirTest, WhatIsNotAFolderIsRefused) {
  testing::TempDir dir;
  testing::write_text(dir / "file", "");
  const auto opened = OutputDir::open(dir / "file");
  ASSERT_FALSE(opened.is_ok());
  EXPECT_EQ(exit_code(opened.status()), 2);
  EXPECT_THAT(opened.status().message(), HasSubstr("--output-dir"));
  EXPECT_EQ(exit_code(OutputDir::open("").status()), 2);
}

TEST(OutputDirTest, AFolderWithoutPermissionIsRefused) {
  // For root every folder is writable but those of the kernel.
  const auto opened = OutputDir::open("/proc/self");
  ASSERT_FALSE(opened.is_ok());
  EXPECT_EQ(exit_code(opened.status()), 2);
  EXPECT_THAT(opened.status().message(), HasSubstr("/proc/self"));
}

TEST(OutputDirTest, CreateNewNeverOverwrites) {
  testing::TempDir dir;
  const auto opened = OutputDir::open(dir.path());
  ASSERT_TRUE(opened->create_new("engine_start.json", "first").is_ok());
  const Status second = opened->create_new("engine_start.json", "second");
  EXPECT_EQ(exit_code(second), 2);
  EXPECT_THAT(second.message(), HasSubstr("exists already"));
  EXPECT_EQ(*read_file(dir / "engine_start.json"), "first");
  EXPECT_FALSE(file_exists(dir / ".engine_start.json.new"));
}

}  // namespace
}  // namespace vllm
