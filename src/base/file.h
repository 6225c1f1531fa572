#pragma once

// Files: mapped for reading, and written so that a reader never finds half of one.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace vllm {

// The whole file as text. Refuses a file larger than `limit_bytes`: an error, not an allocation.
Result<std::string> read_file(const std::string& path, int64_t limit_bytes = int64_t{1} << 31);

// A read-only mapping of a whole file. Movable; the view ends with the object. An empty file has size 0.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  void unmap();
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes to "<path>.partial" and appears under its name in commit(), by rename, after fsync. Destroyed
// without a commit, it leaves the partial file behind only when `keep_partial` was asked for. Every write is
// checked: a full disk is an error of the write or of commit, never silence. A path that is a device or a
// pipe
// (/dev/null, /dev/stdout) is written to as it is: a rename would put a file in its place. Through a symbolic
// link the file that it names is replaced, and the link stays. One thread owns it.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path, bool keep_partial = false);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::string_view bytes);
  Status flush();
  Status commit();
  const std::string& path() const { return path_; }

 private:
  AtomicFile(std::string path, std::string partial, std::FILE* file, bool keep)
      : path_(std::move(path)), partial_(std::move(partial)), file_(file), keep_partial_(keep) {}
  std::string path_;
  std::string partial_;  // empty: path_ itself is written to
  std::FILE* file_ = nullptr;
  bool keep_partial_ = false;
};

// A whole small file at once, by rename.
Status write_file_atomically(const std::string& path, std::string_view bytes);

// Creates the folder and its parents; an existing folder is fine. Errors say what the system said.
Status make_directories(const std::string& path);
// An error when the folder cannot be written to (tried, not guessed).
Status check_writable_directory(const std::string& path);
bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
std::string join_path(const std::string& dir, const std::string& name);

}  // namespace vllm
