#pragma once

// The folder of one run. Nothing half-written in it is ever taken for a finished run: files appear by rename,
// engine_start.json is created only where none is, aborted.json stands there from the start of the replay
// until meta.json replaces it, and meta.json comes last.

#include <string>

#include "base/status.h"
#include "formats/json_fwd.h"

namespace vllm {

class OutputDir {
 public:
  // Refuses a folder that cannot be written to, that has a run in it, complete or not, or that another
  // process is about to record into. Creates it if it is not there.
  static Result<OutputDir> open(const std::string& path);
  OutputDir(OutputDir&& other) noexcept;
  OutputDir& operator=(OutputDir&&) = delete;
  // Removes the folder again if open() made it and nothing was written.
  ~OutputDir();

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const;

  // Appears whole and only if no file of that name exists.
  Status create_new(const std::string& name, const std::string& text) const;
  Status write(const std::string& name, const std::string& text) const;  // by rename
  void remove(const std::string& name) const;                            // no error if it is not there

 private:
  OutputDir(std::string path, bool created) : path_(std::move(path)), created_(created) {}
  Status lock();
  std::string path_;
  bool created_ = false;
  int lock_fd_ = -1;  // the folder, locked for this process; the lock goes when the process does
};

}  // namespace vllm
