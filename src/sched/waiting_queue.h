#pragma once

// Who waits, in the order of service. FCFS: a list through the requests, preempted ones in front. Priority: a
// heap on (priority, arrival, sequence). One thread owns it; only reserve() allocates.

#include <cstdint>
#include <vector>

#include "config/options.h"
#include "sched/request_table.h"

namespace vllm {

class WaitingQueue {
 public:
  WaitingQueue(SchedulingPolicy policy, RequestTable& requests) : policy_(policy), requests_(requests) {}

  void reserve(int64_t size);
  void add(Slot slot);
  void add_preempted(Slot slot);
  Slot front() const { return policy_ == SchedulingPolicy::kFcfs ? head_ : heap_.front(); }
  void remove(Slot slot);
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::vector<Slot> in_order() const;  // for tests and checkers: allocates

 private:
  bool before(Slot a, Slot b) const;
  void place(size_t position, Slot slot);
  void sift_up(size_t position);
  void sift_down(size_t position);

  SchedulingPolicy policy_;
  RequestTable& requests_;
  int64_t size_ = 0;
  Slot head_ = kNoSlot, tail_ = kNoSlot;
  std::vector<Slot> heap_;
};

}  // namespace vllm
