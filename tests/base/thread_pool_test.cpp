#include "base/thread_pool.h"

#include <atomic>

namespace vllm {
namespace {

TEST(ThreadPool, CoversEachIndexOnceWhateverTheThreadCount) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      pool.parallel_for(count, [&](int64_t begin, int64_t end, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const auto& n : seen) EXPECT_EQ(n.load(), 1);
    }
  }
}

TEST(ThreadPool, ManyShortLoopsInARow) {
  ThreadPool pool(4, /*pin=*/true);
  int64_t total = 0;
  std::vector<int64_t> sums(4);
  for (int round = 0; round < 2000; ++round) {
    pool.parallel_for(4, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) sums[static_cast<size_t>(i)] += i;
    });
  }
  for (const int64_t s : sums) total += s;
  EXPECT_EQ(total, 2000 * 6);
}

TEST(ThreadPool, ThisProcessMayRunSomewhere) { EXPECT_FALSE(allowed_cpus().empty()); }

}  // namespace
}  // namespace vllm
