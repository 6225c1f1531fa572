#pragma once

// NPUs that execute step graphs in virtual time, event by event: one compute unit and one communication unit
// each, a first-come-first-served memory for each host, messages between NPUs, ring collectives with a clock
// for each rank. What a step is made of and when it starts is decided elsewhere. One thread owns it.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "sim/event_queue.h"
#include "sim/network.h"
#include "sim/step_graph.h"

namespace vllm {

struct HostMemorySpeed {
  double bytes_per_ns = 1;
  TimeNs latency_ns = 0;
};

class NpuMachine {
 public:
  struct Config {
    Network network;
    std::vector<int> host_of_npu;        // index into hosts
    std::vector<HostMemorySpeed> hosts;  // one queue each
    // A ring over one dimension is solved at once when its last rank has come: the same end times with one
    // event a rank. For machines of which only the ends of steps are looked at.
    bool solve_rings = false;
  };
  explicit NpuMachine(Config config);

  TimeNs now() const { return now_; }
  bool has_events() const { return !events_.empty(); }
  TimeNs next_time() const { return events_.next_time(); }  // needs has_events()
  // Goes to the next instant with events and executes all of them, those that they cause at it included.
  void run_round();
  // Goes to an instant before which nothing happens.
  void skip_to(TimeNs t);

  // Runs the graph now, or behind those that the NPU has.
  void start(int npu, std::shared_ptr<const StepGraph> graph);
  bool finished(int npu) const { return !npus_[at(npu)].running; }
  // Graphs ended on this NPU. The graph that runs, or runs next, is number ended(npu).
  int64_t ended(int npu) const { return npus_[at(npu)].ended; }
  int64_t events_run() const { return events_run_; }
  // When the graph that ended last began; at the end of each graph `on_graph_end` is called.
  std::function<void(int npu, TimeNs start_ns)> on_graph_end;
  void set_solve_rings(bool solve) { config_.solve_rings = solve; }  // between steps only

 private:
  enum class What : uint8_t { kNodeEnd, kRingStart, kRingReceived, kRingReduced, kArrival };
  struct Event {
    int32_t npu = 0;
    int32_t index = 0;  // of the node, or of the message
    What what = What::kNodeEnd;
  };
  struct Message {
    int32_t from = 0;
    int64_t bytes = 0;
    int64_t tag = 0;
  };
  struct Posted {
    Message message;
    int32_t node = -1;  // -1: the ring's
  };
  struct Npu {
    bool running = false;
    bool compute_busy = false, link_busy = false;
    int64_t ended = 0;
    int64_t collectives = 0;  // begun; the tag of the one that runs
    TimeNs graph_start = 0;
    std::vector<std::shared_ptr<const StepGraph>> graphs;  // the first one runs
    std::vector<int32_t> parents_left;
    size_t nodes_left = 0;
    std::vector<int32_t> ready;  // ascending; their unit was busy
    // The ring that runs.
    const std::vector<RingPhase>* ring = nullptr;
    int32_t ring_node = 0;
    size_t ring_phase = 0;
    int ring_message = 0;
    std::vector<Message> arrived;  // and not yet received
    std::vector<Posted> posted;    // and not yet arrived
  };
  // Ranks that have come to a ring that is solved at once.
  struct Meeting {
    int come = 0;
    std::vector<TimeNs> begun;  // by coordinate
  };

  static size_t at(int i) { return static_cast<size_t>(i); }
  void begin_graph(int npu);
  void end_graph(int npu);
  void issue_ready(int npu);
  bool issue(int npu, int32_t node);
  void end_node(int npu, int32_t node);
  void execute(const Event& event);
  void begin_collective(int npu, int32_t node);
  void ring_send(int npu);
  void ring_advance(int npu);
  void meet(int npu, const RingPhase& phase, TimeNs begin_ns);
  void send(int from, int to, int64_t bytes, int64_t tag, TimeNs arrival);
  bool take_arrived(Npu& npu, const Message& message);
  void arrive(int npu, int32_t slot);
  int neighbour(int npu, const RingPhase& phase, int step) const;

  Config config_;
  TimeNs now_ = 0;
  int64_t events_run_ = 0;
  EventQueue<Event> events_;
  std::vector<Npu> npus_;
  std::vector<TimeNs> host_free_;
  std::vector<Message> messages_;  // on their way, by slot
  std::vector<int32_t> free_messages_;
  std::vector<Meeting> meetings_;  // by the NPU with coordinate 0
  std::vector<TimeNs> scratch_;
};

}  // namespace vllm
