#pragma once

// What will happen when: a heap of instants, equal ones in the order of insertion. One thread owns it; it
// allocates only while it grows.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace vllm {

template <typename Payload>
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  TimeNs next_time() const { return heap_.front().time; }

  void push(TimeNs time, Payload payload) {
    heap_.push_back({time, sequence_++, payload});
    size_t i = heap_.size() - 1;
    while (i > 0) {
      const size_t parent = (i - 1) / 2;
      if (!before(heap_[i], heap_[parent])) break;
      std::swap(heap_[i], heap_[parent]);
      i = parent;
    }
  }

  Payload pop() {
    const Payload payload = heap_.front().payload;
    heap_.front() = heap_.back();
    heap_.pop_back();
    const size_t size = heap_.size();
    for (size_t i = 0, child = 1; child < size; i = child, child = 2 * i + 1) {
      if (child + 1 < size && before(heap_[child + 1], heap_[child])) ++child;
      if (!before(heap_[child], heap_[i])) break;
      std::swap(heap_[i], heap_[child]);
    }
    return payload;
  }

 private:
  struct Event {
    TimeNs time = 0;
    uint64_t sequence = 0;
    Payload payload;
  };
  static bool before(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.sequence < b.sequence;
  }

  std::vector<Event> heap_;
  uint64_t sequence_ = 0;
};

}  // namespace vllm
