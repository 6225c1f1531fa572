#include "bench/output_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/file.h"

namespace vllm {
namespace {

constexpr const char* kRunFiles[] = {"engine_start.json", "meta.json", "requests.jsonl", "timeseries.csv",
                                     "aborted.json"};

}  // namespace

Result<OutputDir> OutputDir::open(const std::string& path) {
  if (path.empty()) return usage_error("--output-dir: is empty, a folder is needed");
  const bool existed = file_exists(path);
  VLLM_RETURN_IF_ERROR(make_directories(path).with_context("--output-dir"));
  OutputDir dir(path, !existed);
  // Before looking into it: of two runs that begin at once, one has the folder to itself.
  VLLM_RETURN_IF_ERROR(dir.lock());
  for (const char* name : kRunFiles) {
    if (file_exists(join_path(path, name))) {
      return usage_error("--output-dir {}: has a run in it ({}); give a fresh folder", path, name);
    }
  }
  VLLM_RETURN_IF_ERROR(check_writable_directory(path).with_context("--output-dir"));
  return dir;
}

OutputDir::OutputDir(OutputDir&& other) noexcept
    : path_(std::move(other.path_)),
      created_(std::exchange(other.created_, false)),
      lock_fd_(std::exchange(other.lock_fd_, -1)) {}

OutputDir::~OutputDir() {
  // rmdir refuses a folder that is not empty.
  if (created_) rmdir(path_.c_str());
  if (lock_fd_ >= 0) close(lock_fd_);
}

// File systems that cannot lock a folder go without: there, engine_start.json is what only one run can
// create.
Status OutputDir::lock() {
  lock_fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_fd_ < 0 || flock(lock_fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return Status::ok();
  created_ = false;
  return usage_error("--output-dir {}: another run is being recorded into it; give a fresh folder", path_);
}

std::string OutputDir::file(const std::string& name) const { return join_path(path_, name); }

Status OutputDir::create_new(const std::string& name, const std::string& text) const {
  const std::string target = file(name);
  // Of this process alone: where folders cannot be locked, two runs may get this far.
  const std::string draft = file(fmt::format(".{}.{}.new", name, getpid()));
  VLLM_RETURN_IF_ERROR(write_file_atomically(draft, text));
  // A hard link is made only where no file of that name exists; file systems without links rename
  // exclusively.
  int error = link(draft.c_str(), target.c_str()) == 0 ? 0 : errno;
  if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS) {
    error = renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  }
  unlink(draft.c_str());
  if (error == 0) return Status::ok();
  if (error == EEXIST)
    return usage_error("{}: exists already; a run never overwrites it, give a fresh folder", target);
  return io_error("{}: cannot be created ({})", target, std::generic_category().message(error));
}

Status OutputDir::write(const std::string& name, const std::string& text) const {
  return write_file_atomically(file(name), text);
}

void OutputDir::remove(const std::string& name) const { unlink(file(name).c_str()); }

}  // namespace vllm
