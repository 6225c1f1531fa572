#include "sim/npu_machine.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace vllm {
namespace {

constexpr int64_t kHandOffTag = -1;

}  // namespace

NpuMachine::NpuMachine(Config config)
    : config_(std::move(config)),
      npus_(config_.host_of_npu.size()),
      host_free_(config_.hosts.size(), 0),
      meetings_(npus_.size()) {}

void NpuMachine::run_round() {
  assert(has_events());
  now_ = events_.next_time();
  while (!events_.empty() && events_.next_time() == now_) {
    ++events_run_;
    execute(events_.pop());
  }
}

void NpuMachine::skip_to(TimeNs t) {
  assert(t >= now_ && (events_.empty() || events_.next_time() >= t));
  now_ = t;
}

void NpuMachine::execute(const Event& event) {
  switch (event.what) {
    case What::kNodeEnd:
      end_node(event.npu, event.index);
      return;
    case What::kArrival:
      arrive(event.npu, event.index);
      return;
    case What::kRingStart:
      ring_send(event.npu);
      return;
    case What::kRingReceived: {
      const Npu& npu = npus_[at(event.npu)];
      const RingPhase& phase = (*npu.ring)[npu.ring_phase];
      if (npu.ring_message <= phase.reductions) {
        events_.push(now_ + config_.network.reduce_ns(phase.message_bytes),
                     {event.npu, 0, What::kRingReduced});
      } else {
        ring_advance(event.npu);
      }
      return;
    }
    case What::kRingReduced:
      ring_advance(event.npu);
      return;
  }
}

// ---- graphs

void NpuMachine::start(int npu, std::shared_ptr<const StepGraph> graph) {
  Npu& self = npus_[at(npu)];
  self.graphs.push_back(std::move(graph));
  if (!self.running) begin_graph(npu);
}

void NpuMachine::begin_graph(int npu) {
  Npu& self = npus_[at(npu)];
  const StepGraph& graph = *self.graphs.front();
  self.running = true;
  self.graph_start = now_;
  self.nodes_left = graph.nodes.size();
  self.parents_left.resize(graph.nodes.size());
  self.ready.clear();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    self.parents_left[i] = graph.nodes[i].parents;
    if (graph.nodes[i].parents == 0) self.ready.push_back(static_cast<int32_t>(i));
  }
  issue_ready(npu);
  if (self.nodes_left == 0) end_graph(npu);
}

void NpuMachine::end_graph(int npu) {
  Npu& self = npus_[at(npu)];
  self.graphs.erase(self.graphs.begin());
  self.running = false;
  ++self.ended;
  if (on_graph_end) on_graph_end(npu, self.graph_start);
  if (!self.graphs.empty()) begin_graph(npu);
}

void NpuMachine::issue_ready(int npu) {
  std::vector<int32_t>& ready = npus_[at(npu)].ready;
  size_t kept = 0;
  for (size_t i = 0; i < ready.size(); ++i) {
    const int32_t node = ready[i];
    if (!issue(npu, node)) ready[kept++] = node;
  }
  ready.resize(kept);
}

// False when the node's unit is busy.
bool NpuMachine::issue(int npu, int32_t node) {
  Npu& self = npus_[at(npu)];
  const GraphNode& what = self.graphs.front()->nodes[at(node)];
  switch (what.kind) {
    case NodeKind::kCompute:
      if (self.compute_busy) return false;
      self.compute_busy = true;
      events_.push(now_ + what.amount, {npu, node, What::kNodeEnd});
      return true;
    case NodeKind::kHostMemory: {
      const size_t host = at(config_.host_of_npu[at(npu)]);
      const HostMemorySpeed& speed = config_.hosts[host];
      const auto transfer =
          static_cast<TimeNs>(std::floor(static_cast<double>(what.amount) / speed.bytes_per_ns));
      host_free_[host] = std::max(host_free_[host], now_) + speed.latency_ns + transfer;
      events_.push(host_free_[host], {npu, node, What::kNodeEnd});
      return true;
    }
    case NodeKind::kCollective:
      if (self.link_busy) return false;
      self.link_busy = true;
      begin_collective(npu, node);
      return true;
    case NodeKind::kSend: {
      if (self.link_busy) return false;
      self.link_busy = true;
      const int to = npu + what.peer;
      const TimeNs arrival =
          now_ + config_.network.message_ns(what.amount, config_.network.dimension_between(npu, to));
      events_.push(arrival, {npu, node, What::kNodeEnd});
      send(npu, to, what.amount, kHandOffTag, arrival);
      return true;
    }
    case NodeKind::kReceive: {
      const Message message{npu + what.peer, what.amount, kHandOffTag};
      if (take_arrived(self, message)) {
        events_.push(now_, {npu, node, What::kNodeEnd});
      } else {
        self.posted.push_back({message, node});
      }
      return true;
    }
  }
  return true;
}

void NpuMachine::end_node(int npu, int32_t node) {
  Npu& self = npus_[at(npu)];
  const StepGraph& graph = *self.graphs.front();
  const GraphNode& what = graph.nodes[at(node)];
  if (what.kind == NodeKind::kCompute) self.compute_busy = false;
  if (what.kind == NodeKind::kCollective || what.kind == NodeKind::kSend) self.link_busy = false;
  for (int32_t e = what.first_edge; e >= 0; e = graph.edges[at(e)].next) {
    const int32_t child = graph.edges[at(e)].child;
    if (--self.parents_left[at(child)] > 0) continue;
    self.ready.insert(std::lower_bound(self.ready.begin(), self.ready.end(), child), child);
  }
  issue_ready(npu);
  if (--self.nodes_left == 0) end_graph(npu);
}

// ---- messages

void NpuMachine::send(int from, int to, int64_t bytes, int64_t tag, TimeNs arrival) {
  int32_t slot;
  if (free_messages_.empty()) {
    slot = static_cast<int32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    slot = free_messages_.back();
    free_messages_.pop_back();
  }
  messages_[at(slot)] = {from, bytes, tag};
  events_.push(arrival, {to, slot, What::kArrival});
}

bool NpuMachine::take_arrived(Npu& npu, const Message& wanted) {
  for (auto it = npu.arrived.begin(); it != npu.arrived.end(); ++it) {
    if (it->from != wanted.from || it->bytes != wanted.bytes || it->tag != wanted.tag) continue;
    npu.arrived.erase(it);
    return true;
  }
  return false;
}

void NpuMachine::arrive(int npu, int32_t slot) {
  Npu& self = npus_[at(npu)];
  const Message message = messages_[at(slot)];
  free_messages_.push_back(slot);
  for (auto it = self.posted.begin(); it != self.posted.end(); ++it) {
    const Message& wanted = it->message;
    if (wanted.from != message.from || wanted.bytes != message.bytes || wanted.tag != message.tag) continue;
    const int32_t node = it->node;
    self.posted.erase(it);
    if (node < 0) {
      events_.push(now_ + kEndpointDelayNs, {npu, 0, What::kRingReceived});
    } else {
      end_node(npu, node);
    }
    return;
  }
  self.arrived.push_back(message);
}

// ---- rings

int NpuMachine::neighbour(int npu, const RingPhase& phase, int step) const {
  const Network& network = config_.network;
  const int own = network.coordinate(npu, phase.dim);
  const int other = (own + (phase.reversed ? -step : step) + phase.ranks) % phase.ranks;
  return network.with_coordinate(npu, phase.dim, other);
}

void NpuMachine::begin_collective(int npu, int32_t node) {
  Npu& self = npus_[at(npu)];
  self.ring = self.graphs.front()->nodes[at(node)].ring;
  self.ring_node = node;
  self.ring_phase = 0;
  self.ring_message = 1;
  ++self.collectives;
  if (self.ring->empty()) {
    events_.push(now_, {npu, node, What::kNodeEnd});
  } else if (config_.solve_rings && self.ring->size() == 1) {
    meet(npu, self.ring->front(), now_ + self.graphs.front()->nodes[at(node)].amount);
  } else {
    events_.push(now_ + kEndpointDelayNs, {npu, 0, What::kRingStart});
  }
}

// Sends the ring's next message and waits for the predecessor's.
void NpuMachine::ring_send(int npu) {
  Npu& self = npus_[at(npu)];
  const RingPhase& phase = (*self.ring)[self.ring_phase];
  const TimeNs arrival = now_ + config_.network.message_ns(phase.message_bytes, phase.dim);
  send(npu, neighbour(npu, phase, 1), phase.message_bytes, self.collectives, arrival);
  const Message wanted{neighbour(npu, phase, -1), phase.message_bytes, self.collectives};
  if (take_arrived(self, wanted)) {
    events_.push(now_ + kEndpointDelayNs, {npu, 0, What::kRingReceived});
  } else {
    self.posted.push_back({wanted, -1});
  }
}

void NpuMachine::ring_advance(int npu) {
  Npu& self = npus_[at(npu)];
  if (self.ring_message < (*self.ring)[self.ring_phase].messages) {
    ++self.ring_message;
    ring_send(npu);
  } else if (self.ring_phase + 1 < self.ring->size()) {
    ++self.ring_phase;
    self.ring_message = 1;
    events_.push(now_ + kEndpointDelayNs, {npu, 0, What::kRingStart});
  } else {
    end_node(npu, self.ring_node);
  }
}

// Every rank's end depends on every rank's begin, so none ends before the last one comes.
void NpuMachine::meet(int npu, const RingPhase& phase, TimeNs begin_ns) {
  const size_t ranks = at(phase.ranks);
  Meeting& meeting = meetings_[at(config_.network.with_coordinate(npu, phase.dim, 0))];
  meeting.begun.resize(ranks);
  meeting.begun[at(config_.network.coordinate(npu, phase.dim))] = begin_ns + kEndpointDelayNs;
  if (++meeting.come < phase.ranks) return;
  meeting.come = 0;
  const TimeNs hop = config_.network.message_ns(phase.message_bytes, phase.dim);
  const TimeNs reduce = config_.network.reduce_ns(phase.message_bytes);
  std::vector<TimeNs>& sent = meeting.begun;  // when each rank sends the message and begins to wait
  scratch_.resize(ranks);
  for (int k = 1; k <= phase.messages; ++k) {
    for (size_t i = 0; i < ranks; ++i) {
      const size_t from = phase.reversed ? (i + 1) % ranks : (i + ranks - 1) % ranks;
      scratch_[i] =
          std::max(sent[i], sent[from] + hop) + kEndpointDelayNs + (k <= phase.reductions ? reduce : 0);
    }
    sent.swap(scratch_);
  }
  for (size_t i = 0; i < ranks; ++i) {
    const int rank = config_.network.with_coordinate(npu, phase.dim, static_cast<int>(i));
    events_.push(sent[i], {rank, npus_[at(rank)].ring_node, What::kNodeEnd});
  }
}

}  // namespace vllm
