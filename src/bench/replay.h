#pragma once

// Issuing on an absolute schedule: each request has an instant at which it is due; a late one is issued at
// once and nothing after it is shifted. Nothing spins: between requests the issuing thread sleeps until the
// next is due.

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace vllm {

// What is due when. Requests that are released by the end of others are pushed while the replay runs; `open`
// counts the chains from which more may come. Any thread may call any method.
class IssueQueue {
 public:
  struct Item {
    TimeNs due_ns = 0;
    size_t index = 0;
  };

  void push(TimeNs due_ns, size_t index);
  void open_chain();
  void close_chain();

  struct Next {
    bool has_item = false;
    bool taken = false;  // `item` was due and is removed now
    Item item;           // the earliest; equal times in the order of their index
    bool open = false;   // a chain may still push
  };
  // The earliest item, removed if it is due at `now_ns`.
  Next take_due(TimeNs now_ns);

 private:
  mutable std::mutex mutex_;
  std::vector<Item> heap_;
  int64_t open_ = 0;
};

// Calls `issue(index, due_ns)` for each item when it is due, on the calling thread, until the queue is empty
// and no chain is open, or `stop` is set, or issue fails; then returns that error. Notices `stop` within 100
// ms.
Status issue_on_schedule(IssueQueue& queue, Clock& clock, const std::atomic<bool>& stop,
                         const std::function<Status(size_t index, TimeNs due_ns)>& issue);

}  // namespace vllm
