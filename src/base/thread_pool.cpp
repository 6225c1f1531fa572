#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>

namespace vllm {
namespace {

void pin_to(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

}  // namespace

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) cpus.push_back(i);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

ThreadPool::ThreadPool(int num_threads, bool pin) {
  const std::vector<int> cpus = allowed_cpus();
  try {
    for (int i = 1; i < num_threads; ++i) {
      workers_.emplace_back([this, i] { work(i); });
      if (pin) pin_to(workers_.back(), cpus[static_cast<size_t>(i) % cpus.size()]);
    }
  } catch (const std::exception& error) {  // no thread, or no memory for one
    status_ = failed("only {} of {} threads could be started ({}); give fewer", workers_.size() + 1,
                     num_threads, error.what());
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(int64_t count, const std::function<void(int64_t, int64_t, int)>& body) {
  if (count <= 0) return;
  if (workers_.empty() || count == 1) {
    body(0, count, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    count_ = count;
    pending_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  start_.notify_all();
  const int64_t threads = num_threads();
  body(0, count / threads, 0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return pending_ == 0; });
  body_ = nullptr;
}

void ThreadPool::work(int index) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    const auto* body = body_;
    const int64_t count = count_;
    const int64_t threads = num_threads();
    lock.unlock();
    const int64_t begin = count * index / threads;
    const int64_t end = count * (index + 1) / threads;
    if (begin < end) (*body)(begin, end, index);
    lock.lock();
    if (--pending_ == 0) done_.notify_one();
  }
}

}  // namespace vllm
