#include "bench/replay.h"

#include <algorithm>

namespace vllm {
namespace {

// How soon `stop` is noticed, and how soon a request that an open chain pushed: the latter bounds its send
// lag.
constexpr TimeNs kSlice = 100 * kNsPerMs;
constexpr TimeNs kSliceWhileOpen = 500 * kNsPerUs;

bool later(const IssueQueue::Item& a, const IssueQueue::Item& b) {
  return a.due_ns != b.due_ns ? a.due_ns > b.due_ns : a.index > b.index;
}

}  // namespace

void IssueQueue::push(TimeNs due_ns, size_t index) {
  const std::lock_guard lock(mutex_);
  heap_.push_back({due_ns, index});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void IssueQueue::open_chain() {
  const std::lock_guard lock(mutex_);
  ++open_;
}

void IssueQueue::close_chain() {
  const std::lock_guard lock(mutex_);
  --open_;
}

IssueQueue::Next IssueQueue::take_due(TimeNs now_ns) {
  const std::lock_guard lock(mutex_);
  Next out;
  out.open = open_ > 0;
  out.has_item = !heap_.empty();
  if (!out.has_item) return out;
  out.item = heap_.front();
  out.taken = out.item.due_ns <= now_ns;
  if (out.taken) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
  }
  return out;
}

Status issue_on_schedule(IssueQueue& queue, Clock& clock, const std::atomic<bool>& stop,
                         const std::function<Status(size_t index, TimeNs due_ns)>& issue) {
  while (!stop.load(std::memory_order_relaxed)) {
    const TimeNs now_ns = clock.now_ns();
    const IssueQueue::Next next = queue.take_due(now_ns);
    if (next.taken) {
      VLLM_RETURN_IF_ERROR(issue(next.item.index, next.item.due_ns));
      continue;
    }
    if (!next.has_item && !next.open) return Status::ok();
    const TimeNs slice_end_ns = now_ns + (next.open ? kSliceWhileOpen : kSlice);
    clock.sleep_until_ns(next.has_item ? std::min(next.item.due_ns, slice_end_ns) : slice_end_ns);
  }
  return Status::ok();
}

}  // namespace vllm
