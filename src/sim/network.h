#pragma once

// The network: its dimensions (9.2), the time of one message (9.1) and what a ring collective sends on each
// rank. Times are whole nanoseconds, floored where the reference floors. Pure functions.
//
// A collective is not one number: each rank has a clock of its own, so the machine runs the ring message by
// message (RingPlan). all_reduce_ns and the others are the same ring when all ranks begin together.

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "sim/cluster.h"

namespace vllm {

inline constexpr int64_t kEndpointDelayNs = 10;

enum class CollectiveKind { kAllReduce, kAllGather, kReduceScatter };

class Network {
 public:
  Network() = default;
  Network(std::vector<LinkDimension> dimensions, int64_t reduce_bandwidth);

  const std::vector<LinkDimension>& dimensions() const { return dimensions_; }
  int dimension_count() const { return static_cast<int>(dimensions_.size()); }

  int num_npus() const { return num_npus_; }

  // P(m) over dimension `dim`: floor(latency + bytes / (bandwidth * 2^30 / 1e9)).
  int64_t message_ns(int64_t bytes, int dim) const;
  // r(m): the time to reduce a received message.
  int64_t reduce_ns(int64_t bytes) const;
  // First (innermost) dimension in which two NPUs differ; 0 for the same NPU.
  int dimension_between(int npu_a, int npu_b) const;
  // Coordinate of an NPU in a dimension: id = c0 + n0 * (c1 + n1 * c2).
  int coordinate(int npu, int dim) const;
  // The NPU with coordinate `value` in `dim` and the others as `npu`.
  int with_coordinate(int npu, int dim, int value) const;

 private:
  std::vector<LinkDimension> dimensions_;
  std::vector<double> bytes_per_ns_;
  int64_t reduce_bandwidth_ = 1;
  int num_npus_ = 1;
};

// One phase of a collective: a ring over one dimension. On each rank: kEndpointDelayNs, then send message 1
// to the successor and wait for message 1 of the predecessor; when message k is there: kEndpointDelayNs,
// then, for k <= `reductions`, reduce_ns; then message k + 1, or the end.
struct RingPhase {
  int dim = 0;
  int ranks = 1;
  bool reversed = false;  // successor is the lower neighbour
  int messages = 0;       // received, and sent, by each rank
  int64_t message_bytes = 0;
  int reductions = 0;  // messages 1..reductions are reduced
};

// The phases of a collective of `bytes` (AllGather: what each rank contributes) over the given dimensions,
// ascending. Dimensions of size 1 are skipped; no phase at all for a single rank.
std::vector<RingPhase> plan_collective(const Network& network, CollectiveKind kind, int64_t bytes,
                                       const std::vector<int>& dims);

// Duration when all ranks begin at the same time.
int64_t collective_ns(const Network& network, const std::vector<RingPhase>& phases);
int64_t collective_ns(const Network& network, CollectiveKind kind, int64_t bytes,
                      const std::vector<int>& dims);

// Sizes of 9.2, innermost first: with DP groups [tp, (pp if > 1), members], else [NPUs / instances,
// instances] or [NPUs / sum of pp, sum of pp], trailing 1s dropped (at least one dimension is left).
std::vector<int> topology_sizes(const std::vector<InstanceSpec>& instances,
                                const std::vector<DpGroup>& groups);

// The dimensions over which a TP collective, or an EP collective of this instance, runs (9.3).
std::vector<int> tp_dimensions();
std::vector<int> ep_dimensions(const InstanceSpec& instance, const ClusterSpec& cluster);

}  // namespace vllm
