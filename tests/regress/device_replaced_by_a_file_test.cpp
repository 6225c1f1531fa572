// `--output /dev/null`, as root, put a regular file in the place of the device: what is written whole and
// renamed must not be renamed over something that is no file.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/file.h"
#include "support/reference.h"

namespace vllm {
namespace {

using testing::TempDir;

TEST(DeviceReplacedByAFile, ADeviceIsWrittenToAndStays) {
  const TempDir dir;
  ASSERT_EQ(symlink("/dev/null", (dir / "null").c_str()), 0);
  EXPECT_TRUE(write_file_atomically(dir / "null", "text").is_ok());
  EXPECT_TRUE(std::filesystem::is_character_file(dir / "null"));
  ASSERT_EQ(symlink("/dev/full", (dir / "full").c_str()), 0);
  const Status full = write_file_atomically(dir / "full", "text");
  EXPECT_EQ(full.code(), StatusCode::kIo);
  EXPECT_TRUE(std::filesystem::is_character_file(dir / "full"));
  EXPECT_FALSE(file_exists(dir / "null.partial") || file_exists(dir / "full.partial"));
}

TEST(DeviceReplacedByAFile, APipeGetsTheBytes) {
  const TempDir dir;
  const std::string path = dir / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = read_file(path).value(); });
  EXPECT_TRUE(write_file_atomically(path, "text").is_ok());
  reader.join();
  EXPECT_EQ(read, "text");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

TEST(DeviceReplacedByAFile, ALinkStaysAndItsFileIsReplaced) {
  const TempDir dir;
  testing::write_text(dir / "file", "old");
  ASSERT_EQ(symlink("file", (dir / "link").c_str()), 0);
  {
    auto file = AtomicFile::create(dir / "link");
    ASSERT_TRUE(file.is_ok());
    ASSERT_TRUE(file->write("new").is_ok());
    EXPECT_EQ(read_file(dir / "file").value(), "old");
    ASSERT_TRUE(file->commit().is_ok());
  }
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(read_file(dir / "file").value(), "new");
}

TEST(DeviceReplacedByAFile, AFolderIsRefusedBeforeAnythingIsWritten) {
  const TempDir dir;
  const auto file = AtomicFile::create(dir.path());
  ASSERT_FALSE(file.is_ok());
  EXPECT_EQ(file.status().message(), dir.path() + ": is a directory, a file is needed");
  EXPECT_EQ(exit_code(file.status()), 2);
  EXPECT_FALSE(file_exists(dir.path() + ".partial"));
}

// Opening a pipe that nobody writes to waits for ever; what must be mapped is never a pipe.
TEST(DeviceReplacedByAFile, AModelThatIsAPipeIsRefusedAtOnce) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "model.gguf").c_str(), 0600), 0);
  const auto mapped = MappedFile::open(dir / "model.gguf");
  ASSERT_FALSE(mapped.is_ok());
  EXPECT_EQ(mapped.status().message(), dir / "model.gguf: is not a regular file");
}

}  // namespace
}  // namespace vllm
