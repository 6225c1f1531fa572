#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace vllm {
namespace {

std::string errno_text(int error) { return std::generic_category().message(error); }

Status open_error(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) return bad_input("{}: no such file", path);
  return bad_input("{}: cannot be read ({})", path, errno_text(error));
}

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) close(fd);
  }
};

constexpr const char* kPartialSuffix = ".partial";

}  // namespace

Result<std::string> read_file(const std::string& path, int64_t limit_bytes) {
  const FileDescriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return open_error(path, errno);
  struct stat info {};
  if (fstat(file.fd, &info) != 0) return open_error(path, errno);
  if (S_ISDIR(info.st_mode)) return bad_input("{}: is a directory, a file is needed", path);
  if (info.st_size > limit_bytes) {
    return bad_input("{}: has {} bytes, at most {} are accepted here", path, info.st_size, limit_bytes);
  }
  std::string out;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(file.fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return open_error(path, errno);
    if (n == 0) return out;
    out.append(buffer, static_cast<size_t>(n));
    if (static_cast<int64_t>(out.size()) > limit_bytes) {
      return bad_input("{}: has more than the {} bytes that are accepted here", path, limit_bytes);
    }
  }
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK a pipe that nobody writes to would hold the process here.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return open_error(path, errno);
  struct stat info {};
  if (fstat(file.fd, &info) != 0) return open_error(path, errno);
  if (!S_ISREG(info.st_mode)) return bad_input("{}: is not a regular file", path);
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return open_error(path, errno);
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
  // munmap takes a pointer to mutable memory although it writes nothing to it.
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
}

Result<AtomicFile> AtomicFile::create(const std::string& path, bool keep_partial) {
  std::string target = path;
  struct stat info {};
  bool direct = false;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return usage_error("{}: is a directory, a file is needed", path);
    direct = !S_ISREG(info.st_mode);
    std::error_code error;
    if (!direct && std::filesystem::is_symlink(path, error)) {
      target = std::filesystem::canonical(path, error).string();
      if (error) return io_error("{}: cannot be created ({})", path, error.message());
    }
  }
  std::string partial = direct ? std::string() : target + kPartialSuffix;
  std::FILE* file = std::fopen((direct ? target : partial).c_str(), "wbe");
  if (file == nullptr) return io_error("{}: cannot be created ({})", path, errno_text(errno));
  return AtomicFile(std::move(target), std::move(partial), file, keep_partial);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::move(other.partial_)),
      file_(std::exchange(other.file_, nullptr)),
      keep_partial_(other.keep_partial_) {}

AtomicFile::~AtomicFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (!keep_partial_ && !partial_.empty()) unlink(partial_.c_str());
}

Status AtomicFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    return io_error("{}: cannot be written ({})", path_, errno_text(errno));
  }
  return Status::ok();
}

Status AtomicFile::flush() {
  if (std::fflush(file_) != 0) return io_error("{}: cannot be written ({})", path_, errno_text(errno));
  return Status::ok();
}

Status AtomicFile::commit() {
  VLLM_RETURN_IF_ERROR(flush());
  const bool direct = partial_.empty();
  if (!direct && fsync(fileno(file_)) != 0 && errno != EINVAL) {
    return io_error("{}: cannot be written ({})", path_, errno_text(errno));
  }
  const int closed = std::fclose(std::exchange(file_, nullptr));
  if (closed != 0 || (!direct && std::rename(partial_.c_str(), path_.c_str()) != 0)) {
    const int error = errno;
    if (!direct) unlink(partial_.c_str());
    return io_error("{}: cannot be written ({})", path_, errno_text(error));
  }
  return Status::ok();
}

Status write_file_atomically(const std::string& path, std::string_view bytes) {
  VLLM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  VLLM_RETURN_IF_ERROR(file.write(bytes));
  return file.commit();
}

Status make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return usage_error("{}: cannot be created ({})", path, error.message());
  if (!is_directory(path)) return usage_error("{}: exists and is not a directory", path);
  return Status::ok();
}

Status check_writable_directory(const std::string& path) {
  const std::string probe = join_path(path, ".vllm-write-test");
  const FileDescriptor file{open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
  if (file.fd < 0) return usage_error("{}: cannot be written to ({})", path, errno_text(errno));
  unlink(probe.c_str());
  return Status::ok();
}

bool file_exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

bool is_directory(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string join_path(const std::string& dir, const std::string& name) {
  if (dir.empty()) return name;
  return dir.back() == '/' ? dir + name : dir + "/" + name;
}

}  // namespace vllm
