#include "sim/cluster_sim.h"

#include <algorithm>

namespace vllm {
namespace {

constexpr TimeNs kIdleQuantumNs = 1'000'000;

}  // namespace

ClusterSim::ClusterSim(Config config)
    : config_(std::move(config)),
      machine_(config_.machine),
      router_(config_.routing, config_.members.size()),
      groups_(at(config_.num_dp_groups)) {
  for (Member& member : config_.members) {
    member.instance.clock = config_.clock;
    member.instance.ledger = config_.ledger;
    instances_.push_back(std::make_unique<SimInstance>(member.instance));
    Seat seat;
    seat.id = static_cast<int>(seats_.size());
    seat.first_npu = member.first_npu;
    seat.last_npu = member.first_npu + member.num_npus - 1;
    seat.pp = member.pp;
    seat.dp_group = member.dp_group;
    if (seat.dp_group >= 0) groups_[at(seat.dp_group)].push_back(seat.id);
    seats_.push_back(std::move(seat));
  }
  lone_ = seats_.size() == 1 && seats_[0].pp == 1 && seats_[0].dp_group < 0;
  if (config_.on_npu_step) {
    machine_.on_graph_end = [this](int npu, TimeNs start_ns) {
      config_.on_npu_step(npu, machine_.ended(npu) - 1 - first_graph_, start_ns, machine_.now());
    };
  }
}

// ---- time

Status ClusterSim::run() {
  begin();
  while (!done()) {
    if (!advance())
      return failed("the simulation stands still at {} ns with {} of {} requests done", machine_.now(),
                    config_.ledger->finished, config_.ledger->requests->size());
    if (lone_ && config_.policies.acts_by_polls && !machine_.finished(seats_[0].first_npu) &&
        !machine_.finished(seats_[0].last_npu)) {
      continue;  // nobody is polled
    }
    config_.clock->advance_to_ns(machine_.now());
    VLLM_RETURN_IF_ERROR(config_.policies.acts_by_polls ? pass() : settle());
    if (config_.on_round) config_.on_round(machine_.now());
    if (config_.stop != nullptr && config_.stop->load(std::memory_order_relaxed))
      return aborted("the simulation was stopped");
  }
  return Status::ok();
}

// The reference's back end begins with a step of its own on every NPU.
void ClusterSim::begin() {
  if (!config_.policies.acts_by_polls) return;
  first_graph_ = 1;
  const auto& requests = *config_.ledger->requests;
  const TimeNs first_arrival = std::max<TimeNs>(1, requests.empty() ? 1 : requests.front().arrival_ns);
  auto graph = std::make_shared<StepGraph>();
  graph->add(NodeKind::kCompute, std::min(config_.log_interval_ns, first_arrival));
  for (const Seat& seat : seats_) {
    for (int npu = seat.first_npu; npu <= seat.last_npu; ++npu) machine_.start(npu, graph);
  }
}

// One round: to the next instant at which anything happens. False: nothing ever will.
bool ClusterSim::advance() {
  if (config_.policies.idle_quantum) {
    if (machine_.has_events()) {
      machine_.run_round();
    } else {
      machine_.skip_to(machine_.now() + kIdleQuantumNs);
    }
    return true;
  }
  const auto& requests = *config_.ledger->requests;
  const bool more = next_request_ < requests.size();
  const TimeNs arrival =
      more ? std::max(machine_.now(), requests[next_request_].arrival_ns + config_.pickup_delay_ns) : 0;
  if (machine_.has_events() && (!more || machine_.next_time() <= arrival)) {
    if (!config_.policies.heartbeat_by_polls) heartbeat_until(machine_.next_time());
    machine_.run_round();
    return true;
  }
  if (!more) return false;
  if (!config_.policies.heartbeat_by_polls) heartbeat_until(arrival);
  machine_.skip_to(arrival);
  return true;
}

bool ClusterSim::done() const {
  if (!config_.policies.acts_by_polls) {
    return next_request_ == config_.ledger->requests->size() &&
           std::none_of(instances_.begin(), instances_.end(), [](const auto& i) { return i->has_work(); });
  }
  return std::all_of(seats_.begin(), seats_.end(),
                     [](const Seat& seat) { return seat.first_asleep && seat.last_asleep; });
}

// ---- polls

// First the last NPU of every instance that has more than one, then the first one of every instance.
Status ClusterSim::pass() {
  for (Seat& seat : seats_) {
    if (seat.first_npu == seat.last_npu || seat.last_asleep || !machine_.finished(seat.last_npu)) continue;
    VLLM_RETURN_IF_ERROR(poll(seat, false));
  }
  for (Seat& seat : seats_) {
    if (seat.first_asleep || !machine_.finished(seat.first_npu)) continue;
    VLLM_RETURN_IF_ERROR(poll(seat, true));
  }
  return Status::ok();
}

Status ClusterSim::poll(Seat& seat, bool first) {
  VLLM_RETURN_IF_ERROR(route(machine_.now()));
  VLLM_RETURN_IF_ERROR(report(seat, first));
  VLLM_ASSIGN_OR_RETURN(const Answer answer, take(seat, first));
  Result<bool> given =
      seat.dp_group < 0 ? answer_independent(seat, first, answer) : answer_member(seat, first, answer);
  VLLM_RETURN_IF_ERROR(given.status());
  if (first) heartbeat_if_due();
  if (!given.value() && has_nothing_left(seat)) {
    if (first) seat.first_asleep = true;
    if (!first || seat.first_npu == seat.last_npu) seat.last_asleep = true;
  }
  return Status::ok();
}

Status ClusterSim::route(TimeNs now) {
  const auto& requests = *config_.ledger->requests;
  while (next_request_ < requests.size() &&
         requests[next_request_].arrival_ns + config_.pickup_delay_ns <= now) {
    const size_t winner = router_.pick([this](size_t i) {
      CoreLoop& core = instances_[i]->core();
      return InstanceLoad{core.scheduler().num_waiting(), core.scheduler().num_running(),
                          config_.members[i].instance.scheduler.options.max_num_seqs};
    });
    VLLM_RETURN_IF_ERROR(instances_[winner]->add(next_request_));
    ++next_request_;
  }
  return Status::ok();
}

// The batch that this NPU has finished is done when the instance's first and last NPU have said so.
Status ClusterSim::report(Seat& seat, bool first) {
  const int64_t number = machine_.ended(first ? seat.first_npu : seat.last_npu) - 1 - first_graph_;
  SimInstance& self = instance(seat);
  if (SimBatch* batch = self.find(number); batch != nullptr) {
    if (first) batch->reported_first = true;
    if (!first || seat.first_npu == seat.last_npu) batch->reported_last = true;
  }
  while (!self.in_flight().empty() && self.in_flight().front().reported_first &&
         self.in_flight().front().reported_last) {
    VLLM_RETURN_IF_ERROR(self.complete_oldest());
  }
  return Status::ok();
}

Result<ClusterSim::Answer> ClusterSim::take(Seat& seat, bool first) {
  SimInstance& self = instance(seat);
  if (first && static_cast<int>(self.in_flight().size()) < seat.pp) {
    VLLM_ASSIGN_OR_RETURN(SimBatch* const opened, self.open(CoreLoop::EmptyPlans::kDrop));
    if (opened != nullptr) {
      opened->taken_first = true;
      opened->taken_last = seat.first_npu == seat.last_npu;
    }
    return Answer{opened, opened != nullptr};
  }
  SimBatch* const next = self.find(machine_.ended(first ? seat.first_npu : seat.last_npu) - first_graph_);
  if (next == nullptr || (first ? next->taken_first : next->taken_last)) return Answer{};
  (first ? next->taken_first : next->taken_last) = true;
  return Answer{next, false};
}

// Whether the NPU has got something to run.
Result<bool> ClusterSim::answer_independent(Seat& seat, bool first, const Answer& answer) {
  if (answer.batch == nullptr) return false;
  if (answer.opened) build(seat, *answer.batch);
  hand_out(seat, first, answer.batch->graphs);
  return true;
}

void ClusterSim::build(Seat& seat, SimBatch& batch) {
  if (batch.shape.batch.tokens == 0) {  // planned for the sake of those that have ended
    batch.graphs.assign(at(seat.last_npu - seat.first_npu + 1), std::make_shared<StepGraph>());
    batch.assembled = true;
    return;
  }
  StepSource& source = *config_.members[at(seat.id)].instance.source;
  const bool alone = seat.first_npu == seat.last_npu;
  // Between the instants that polls look at, rows may be one event.
  bool merged = !config_.policies.acts_by_polls || lone_;
  source.build(batch.shape, merged, batch.graphs);
  if (config_.policies.acts_by_polls && lone_ && !alone) {
    merged = merges_exactly(source.longest_ns());
    machine_.set_solve_rings(merged);
    if (!merged) source.build(batch.shape, false, batch.graphs);
  }
  batch.assembled = true;
}

// A heartbeat that falls between the ends of the first and the last NPU of a step is printed at the next
// event of any NPU, so such a step must have all its events.
bool ClusterSim::merges_exactly(TimeNs longest_ns) const {
  const TimeNs due_ns = last_heartbeat_ns_ + config_.log_interval_ns;
  return machine_.now() + 2 * longest_ns + 10 * kNsPerMs < due_ns;
}

void ClusterSim::hand_out(Seat& seat, bool first, const StepGraphs& graphs) {
  const int own = first ? seat.first_npu : seat.last_npu;
  machine_.start(own, graphs[at(own - seat.first_npu)]);
  if (!first) return;
  for (int npu = seat.first_npu + 1; npu < seat.last_npu; ++npu) {
    machine_.start(npu, graphs[at(npu - seat.first_npu)]);
  }
}

// ---- data-parallel groups

bool ClusterSim::wave_begun(int group) const {
  return std::any_of(groups_[at(group)].begin(), groups_[at(group)].end(),
                     [this](int id) { return seats_[at(id)].pending; });
}

bool ClusterSim::wave_complete(int group) const {
  return std::all_of(groups_[at(group)].begin(), groups_[at(group)].end(),
                     [this](int id) { return seats_[at(id)].pending; });
}

Result<bool> ClusterSim::answer_member(Seat& seat, bool first, Answer answer) {
  SimInstance& self = instance(seat);
  if (answer.batch == nullptr && seat.has_ready) {
    seat.has_ready = false;
    hand_out(seat, first, seat.ready);
    return true;
  }
  if (answer.batch == nullptr) {
    if (seat.pending || static_cast<int>(self.in_flight().size()) >= seat.pp || !wave_begun(seat.dp_group)) {
      return false;
    }
    SimBatch& dummy = self.open_dummy();
    if (first) dummy.taken_first = true;
    if (!first || seat.first_npu == seat.last_npu) dummy.taken_last = true;
    answer = {&dummy, true};
  }
  if (answer.opened) {
    seat.pending = true;
    seat.pending_batch = answer.batch->number;
    if (!wave_complete(seat.dp_group)) return false;
    assemble(seat, first);
    return true;
  }
  if (!answer.batch->assembled) {  // the claim is given back
    (first ? answer.batch->taken_first : answer.batch->taken_last) = false;
    return false;
  }
  hand_out(seat, first, answer.batch->graphs);
  return true;
}

void ClusterSim::assemble(Seat& builder, bool first) {
  pad_wave(builder.dp_group);
  for (const int id : groups_[at(builder.dp_group)]) {
    Seat& seat = seats_[at(id)];
    if (id == builder.id) continue;
    seat.ready = instances_[at(id)]->find(seat.pending_batch)->graphs;
    seat.has_ready = true;
  }
  hand_out(builder, first, instance(builder).find(builder.pending_batch)->graphs);
}

// All members compute as many tokens as the one that has most.
void ClusterSim::pad_wave(int group) {
  int64_t tokens = 0;
  for (const int id : groups_[at(group)]) {
    tokens = std::max(tokens, instances_[at(id)]->find(seats_[at(id)].pending_batch)->shape.batch.tokens);
  }
  for (const int id : groups_[at(group)]) {
    Seat& seat = seats_[at(id)];
    SimBatch& batch = *instances_[at(id)]->find(seat.pending_batch);
    pad_shape(batch.shape, tokens);
    build(seat, batch);
    seat.pending = false;
  }
}

// ---- the end, and heartbeats

bool ClusterSim::has_nothing_left(const Seat& seat) {
  if (next_request_ < config_.ledger->requests->size()) return false;
  if (seat.dp_group < 0) return !instance(seat).has_work();
  return std::none_of(groups_[at(seat.dp_group)].begin(), groups_[at(seat.dp_group)].end(),
                      [this](int id) { return instances_[at(id)]->has_work(); });
}

void ClusterSim::heartbeat_if_due() {
  if (!config_.policies.heartbeat_by_polls) return;
  if (machine_.now() <= last_heartbeat_ns_ + config_.log_interval_ns) return;
  last_heartbeat_ns_ += config_.log_interval_ns;
  if (config_.on_heartbeat) config_.on_heartbeat(last_heartbeat_ns_);
}

// Every heartbeat before `t`, with the state that holds until then.
void ClusterSim::heartbeat_until(TimeNs t) {
  while (last_heartbeat_ns_ + config_.log_interval_ns < t) {
    last_heartbeat_ns_ += config_.log_interval_ns;
    if (config_.on_heartbeat) config_.on_heartbeat(last_heartbeat_ns_);
  }
}

}  // namespace vllm
