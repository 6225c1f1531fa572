#include "base/file.h"

#include <unistd.h>

#include "support/reference.h"

namespace vllm {
namespace {

using testing::TempDir;
using testing::write_text;

TEST(AtomicFile, AppearsOnlyWithCommit) {
  const TempDir dir;
  const std::string path = dir / "a.txt";
  {
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file.is_ok());
    ASSERT_TRUE(file->write("half").is_ok());
    EXPECT_FALSE(file_exists(path));
    EXPECT_TRUE(file_exists(path + ".partial"));
  }
  EXPECT_FALSE(file_exists(path));
  EXPECT_FALSE(file_exists(path + ".partial"));
  ASSERT_TRUE(write_file_atomically(path, "whole").is_ok());
  EXPECT_EQ(read_file(path).value(), "whole");
  EXPECT_FALSE(file_exists(path + ".partial"));
}

TEST(AtomicFile, KeepsThePartWhenAsked) {
  const TempDir dir;
  {
    auto file = AtomicFile::create(dir / "a.txt", /*keep_partial=*/true);
    ASSERT_TRUE(file->write("half").is_ok());
  }
  EXPECT_EQ(read_file(dir / "a.txt.partial").value(), "half");
}

TEST(AtomicFile, AFullDiskIsAnError) {
  const TempDir dir;
  // The partial file is a link to a device on which every write fails with "no space left".
  ASSERT_EQ(symlink("/dev/full", (dir / "a.txt.partial").c_str()), 0);
  auto file = AtomicFile::create(dir / "a.txt");
  ASSERT_TRUE(file.is_ok());
  Status status = file->write(std::string(1 << 20, 'x'));
  if (status.is_ok()) status = file->commit();
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("No space left"), std::string::npos) << status.message();
  EXPECT_FALSE(file_exists(dir / "a.txt"));
}

TEST(ReadFile, SaysWhatIsWrong) {
  const TempDir dir;
  EXPECT_EQ(read_file(dir / "none").status().message(), (dir / "none") + ": no such file");
  EXPECT_NE(read_file(dir.path()).status().message().find("is a directory"), std::string::npos);
  write_text(dir / "big", std::string(100, 'x'));
  EXPECT_NE(read_file(dir / "big", 99).status().message().find("100 bytes, at most 99"), std::string::npos);
}

TEST(MappedFile, MapsWholeAndEmptyFiles) {
  const TempDir dir;
  write_text(dir / "a", "abc");
  write_text(dir / "empty", "");
  auto a = MappedFile::open(dir / "a");
  ASSERT_TRUE(a.is_ok());
  EXPECT_EQ(a->size(), 3u);
  EXPECT_EQ(static_cast<char>(a->data()[2]), 'c');
  MappedFile moved = std::move(a).value();
  EXPECT_EQ(moved.size(), 3u);
  EXPECT_EQ(MappedFile::open(dir / "empty")->size(), 0u);
  EXPECT_EQ(MappedFile::open(dir / "none").status().code(), StatusCode::kBadInput);
  EXPECT_FALSE(MappedFile::open(dir.path()).is_ok());
}

TEST(Directories, UnwritableIsToldBeforeAnythingIsWritten) {
  const TempDir dir;
  EXPECT_TRUE(make_directories(dir / "a/b/c").is_ok());
  EXPECT_TRUE(check_writable_directory(dir / "a/b/c").is_ok());
  write_text(dir / "file", "x");
  EXPECT_EQ(make_directories(dir / "file/sub").code(), StatusCode::kUsage);
  EXPECT_EQ(check_writable_directory("/proc").code(), StatusCode::kUsage);
}

}  // namespace
}  // namespace vllm
