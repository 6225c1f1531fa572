#include "sched/waiting_queue.h"

#include <algorithm>
#include <cassert>
#include <tuple>

namespace vllm {

void WaitingQueue::reserve(int64_t size) {
  if (policy_ != SchedulingPolicy::kPriority) return;
  if (static_cast<size_t>(size) > heap_.capacity()) heap_.reserve(2 * static_cast<size_t>(size));
}

void WaitingQueue::add(Slot slot) {
  ++size_;
  if (policy_ == SchedulingPolicy::kPriority) {
    heap_.push_back(slot);
    place(heap_.size() - 1, slot);
    sift_up(heap_.size() - 1);
    return;
  }
  requests_[slot].previous = tail_;
  requests_[slot].next = kNoSlot;
  (tail_ == kNoSlot ? head_ : requests_[tail_].next) = slot;
  tail_ = slot;
}

void WaitingQueue::add_preempted(Slot slot) {
  if (policy_ == SchedulingPolicy::kPriority) return add(slot);
  ++size_;
  requests_[slot].previous = kNoSlot;
  requests_[slot].next = head_;
  (head_ == kNoSlot ? tail_ : requests_[head_].previous) = slot;
  head_ = slot;
}

void WaitingQueue::remove(Slot slot) {
  assert(size_ > 0);
  --size_;
  Request& request = requests_[slot];
  if (policy_ == SchedulingPolicy::kPriority) {
    const size_t hole = static_cast<size_t>(request.heap_position);
    const Slot last = heap_.back();
    heap_.pop_back();
    if (last == slot) return;
    place(hole, last);
    sift_up(hole);
    sift_down(hole);
    return;
  }
  (request.previous == kNoSlot ? head_ : requests_[request.previous].next) = request.next;
  (request.next == kNoSlot ? tail_ : requests_[request.next].previous) = request.previous;
  request.previous = request.next = kNoSlot;
}

bool WaitingQueue::before(Slot a, Slot b) const {
  const Request& x = requests_[a];
  const Request& y = requests_[b];
  return std::tie(x.priority, x.arrival_ns, x.sequence) < std::tie(y.priority, y.arrival_ns, y.sequence);
}

void WaitingQueue::place(size_t position, Slot slot) {
  heap_[position] = slot;
  requests_[slot].heap_position = static_cast<int32_t>(position);
}

void WaitingQueue::sift_up(size_t position) {
  const Slot slot = heap_[position];
  while (position > 0 && before(slot, heap_[(position - 1) / 2])) {
    place(position, heap_[(position - 1) / 2]);
    position = (position - 1) / 2;
  }
  place(position, slot);
}

void WaitingQueue::sift_down(size_t position) {
  const Slot slot = heap_[position];
  while (2 * position + 1 < heap_.size()) {
    size_t child = 2 * position + 1;
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], slot)) break;
    place(position, heap_[child]);
    position = child;
  }
  place(position, slot);
}

std::vector<Slot> WaitingQueue::in_order() const {
  std::vector<Slot> order = heap_;
  if (policy_ == SchedulingPolicy::kPriority) {
    std::sort(order.begin(), order.end(), [this](Slot a, Slot b) { return before(a, b); });
    return order;
  }
  for (Slot s = head_; s != kNoSlot; s = requests_[s].next) order.push_back(s);
  return order;
}

}  // namespace vllm
