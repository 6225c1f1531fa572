#pragma once

// The simulated cluster: which instance acts when. Drives the NPUs' machine round by round, routes arrivals,
// lets each instance plan and complete its steps, holds the waves of data-parallel groups together, and calls
// for heartbeats. One code path for both modes; where they differ, SimPolicies says so. One thread owns it.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "formats/workload.h"
#include "sim/npu_machine.h"
#include "sim/policies.h"
#include "sim/request_ledger.h"
#include "sim/request_router.h"
#include "sim/sim_instance.h"
#include "sim/step_source.h"

namespace vllm {

class ClusterSim {
 public:
  struct Member {
    SimInstance::Config instance;
    int first_npu = 0, num_npus = 1;
    int pp = 1;
    int dp_group = -1;
  };
  struct Config {
    NpuMachine::Config machine;
    SimPolicies policies;
    std::vector<Member> members;
    int num_dp_groups = 0;
    RequestRouting routing = RequestRouting::kLoad;
    TimeNs log_interval_ns = kNsPerSecond;
    TimeNs pickup_delay_ns = 0;       // from a request's arrival until an instance hears of it
    RequestLedger* ledger = nullptr;  // outlives the simulation; requests in order of arrival
    VirtualClock* clock = nullptr;    // the same
    // Optional. The end of the interval, in ns; the state is that of now.
    std::function<void(TimeNs end_ns)> on_heartbeat;
    std::function<void(TimeNs now_ns)> on_round;  // to show progress, and to stop
    // A step was computed by an NPU: for traces.
    std::function<void(int npu, int64_t number, TimeNs start_ns, TimeNs end_ns)> on_npu_step;
    const std::atomic<bool>* stop = nullptr;
  };
  explicit ClusterSim(Config config);

  // Until every request has ended.
  Status run();

  TimeNs end_ns() const { return machine_.now(); }
  const std::vector<std::unique_ptr<SimInstance>>& instances() const { return instances_; }
  int64_t events() const { return machine_.events_run(); }

 private:
  struct Seat {  // an instance's place in the cluster
    int id = 0;
    int first_npu = 0, last_npu = 0;
    int pp = 1;
    int dp_group = -1;
    bool first_asleep = false, last_asleep = false;
    bool has_ready = false;  // a wave was assembled by another member
    StepGraphs ready;
    bool pending = false;  // its batch is in a wave that is not complete; `pending_batch` in flight
    int64_t pending_batch = 0;
  };
  // What an NPU gets at a poll.
  struct Answer {
    SimBatch* batch = nullptr;
    bool opened = false;
  };

  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  SimInstance& instance(const Seat& seat) { return *instances_[at(seat.id)]; }

  void begin();
  bool advance();
  Status pass();
  Status settle();
  Result<bool> act(Seat& seat);
  void give(Seat& seat, SimBatch& batch);
  void start_all(const Seat& seat, const StepGraphs& graphs);
  Status poll(Seat& seat, bool first);
  Status route(TimeNs now);
  Status report(Seat& seat, bool first);
  Result<Answer> take(Seat& seat, bool first);
  Result<bool> answer_independent(Seat& seat, bool first, const Answer& answer);
  Result<bool> answer_member(Seat& seat, bool first, Answer answer);
  void assemble(Seat& seat, bool first);
  void pad_wave(int group);
  bool wave_complete(int group) const;
  bool wave_begun(int group) const;
  void build(Seat& seat, SimBatch& batch);
  void hand_out(Seat& seat, bool first, const StepGraphs& graphs);
  bool has_nothing_left(const Seat& seat);
  void heartbeat_if_due();
  void heartbeat_until(TimeNs t);
  bool done() const;
  bool merges_exactly(TimeNs longest_ns) const;

  Config config_;
  NpuMachine machine_;
  RequestRouter router_;
  std::vector<std::unique_ptr<SimInstance>> instances_;
  std::vector<Seat> seats_;
  std::vector<std::vector<int>> groups_;
  size_t next_request_ = 0;
  TimeNs last_heartbeat_ns_ = 0;
  int64_t first_graph_ = 0;  // number of batch 0's graph on an NPU
  bool lone_ = false;        // one instance without pipeline: only the ends of its steps are looked at
};

}  // namespace vllm
