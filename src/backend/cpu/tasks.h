#pragma once

// Loops over independent tasks on the thread pool. Tasks are taken one by one, since other work on a shared
// core makes equal shares unequal; a task's result must not depend on who runs it.

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/thread_pool.h"

namespace vllm {

class TaskRunner {
 public:
  explicit TaskRunner(ThreadPool& pool) : pool_(pool) {}

  int num_threads() const { return pool_.num_threads(); }

  // task(index, thread) for every index in [0, count).
  template <typename Task>
  void run(int64_t count, const Task& task) const {
    if (count == 1 || pool_.num_threads() == 1) {
      for (int64_t i = 0; i < count; ++i) task(i, 0);
      return;
    }
    std::atomic<int64_t> next{0};
    const auto worker = [&](int64_t, int64_t, int thread) {
      for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(i, thread);
    };
    pool_.parallel_for(pool_.num_threads(), std::ref(worker));
  }

  // body(index) for cheap work on each of `count` rows, in pieces that are worth waking a thread for.
  template <typename Body>
  void run_rows(int64_t count, const Body& body) const {
    constexpr int64_t kPiece = 16;
    const int64_t pieces = (count + kPiece - 1) / kPiece;
    run(pieces, [&](int64_t piece, int) {
      const int64_t end = (piece + 1) * kPiece < count ? (piece + 1) * kPiece : count;
      for (int64_t i = piece * kPiece; i < end; ++i) body(i);
    });
  }

 private:
  ThreadPool& pool_;
};

}  // namespace vllm
