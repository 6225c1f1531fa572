// What instances do at an instant when nothing waits for polls: everything that can happen, until nothing
// more does.

#include <algorithm>

#include "sim/cluster_sim.h"

namespace vllm {

Status ClusterSim::settle() {
  VLLM_RETURN_IF_ERROR(route(machine_.now()));
  bool changed = true;
  while (changed) {
    changed = false;
    for (Seat& seat : seats_) {
      VLLM_ASSIGN_OR_RETURN(const bool acted, act(seat));
      changed = changed || acted;
    }
  }
  return Status::ok();
}

// Processes one step that is done, or plans one; false when there is neither.
Result<bool> ClusterSim::act(Seat& seat) {
  SimInstance& self = instance(seat);
  std::deque<SimBatch>& in_flight = self.in_flight();
  if (self.core().wants_to_plan()) {
    const bool lets_empty = seat.dp_group < 0 && seat.pp == 1;
    VLLM_ASSIGN_OR_RETURN(SimBatch* const opened, self.open(lets_empty ? CoreLoop::EmptyPlans::kLaunch
                                                                       : CoreLoop::EmptyPlans::kDrop));
    if (opened != nullptr) {
      give(seat, *opened);
      return true;
    }
  }
  if (!in_flight.empty()) {
    const SimBatch& oldest = in_flight.front();
    if (oldest.assembled && machine_.ended(seat.first_npu) > oldest.number &&
        machine_.ended(seat.last_npu) > oldest.number) {
      VLLM_RETURN_IF_ERROR(self.complete_oldest());
      return true;
    }
  }
  // A member without work keeps the others company.
  if (seat.dp_group >= 0 && !seat.pending && static_cast<int>(in_flight.size()) < seat.pp &&
      wave_begun(seat.dp_group)) {
    give(seat, self.open_dummy());
    return true;
  }
  return false;
}

// Hands a step to all NPUs of its instance; in a group, when every member has one.
void ClusterSim::give(Seat& seat, SimBatch& batch) {
  if (seat.dp_group < 0) {
    build(seat, batch);
    start_all(seat, batch.graphs);
    return;
  }
  seat.pending = true;
  seat.pending_batch = batch.number;
  if (!wave_complete(seat.dp_group)) return;
  pad_wave(seat.dp_group);
  for (const int id : groups_[at(seat.dp_group)]) {
    Seat& member = seats_[at(id)];
    start_all(member, instances_[at(id)]->find(member.pending_batch)->graphs);
  }
}

void ClusterSim::start_all(const Seat& seat, const StepGraphs& graphs) {
  for (int npu = seat.first_npu; npu <= seat.last_npu; ++npu) {
    machine_.start(npu, graphs[at(npu - seat.first_npu)]);
  }
}

}  // namespace vllm
