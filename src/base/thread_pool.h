#pragma once

// A pool for data-parallel loops inside one step. Idle threads block on a condition variable; they never
// spin, since a spinning thread on a shared core takes the time of the thread that it waits for.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"

namespace vllm {

// Cores that this process may use (its affinity mask), in order.
std::vector<int> allowed_cpus();

// Owns `num_threads - 1` threads; the caller of parallel_for is the remaining one. Only one thread at a time
// may call parallel_for, and never from inside a loop body.
class ThreadPool {
 public:
  // With `pin`, thread i runs on allowed_cpus()[i % count] only (the caller is not pinned). Where the system
  // gives fewer threads than were asked for (memory, a limit of processes), the pool works with those that it
  // has, and status() says so.
  explicit ThreadPool(int num_threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  const Status& status() const { return status_; }
  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, thread_index) over a partition of [0, count) into at most num_threads() contiguous
  // pieces and returns when all are done. The partition depends on count and num_threads() alone.
  void parallel_for(int64_t count, const std::function<void(int64_t, int64_t, int)>& body);

 private:
  void work(int index);

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(int64_t, int64_t, int)>* body_ = nullptr;
  int64_t count_ = 0;
  uint64_t generation_ = 0;
  int pending_ = 0;
  bool stop_ = false;
  Status status_;
  std::vector<std::thread> workers_;
};

}  // namespace vllm
