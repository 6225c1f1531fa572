#pragma once

// What one NPU does in one step: nodes that wait for their parents. Immutable while it runs; ranks that do
// the same share one. Later kinds of node (memory tiers, processing in memory) take a place in NodeKind and a
// case in NpuMachine::issue.

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "sim/network.h"

namespace vllm {

enum class NodeKind : uint8_t {
  kCompute,     // holds the compute unit for `amount` ns
  kHostMemory,  // `amount` bytes through the host's memory, which serves one after another
  // A ring; holds the communication unit. With an `amount`, behind as many ns of computing of its own: only
  // in merged graphs, whose rings are solved at once.
  kCollective,
  kSend,     // `amount` bytes to NPU + peer; holds the communication unit until they are there
  kReceive,  // `amount` bytes from NPU + peer
};

struct GraphNode {
  NodeKind kind = NodeKind::kCompute;
  int32_t parents = 0;
  int32_t first_edge = -1;
  int32_t peer = 0;
  int64_t amount = 0;
  const std::vector<RingPhase>* ring = nullptr;  // kCollective; the builder owns it
};

struct StepGraph {
  struct Edge {
    int32_t child = 0;
    int32_t next = -1;
  };
  std::vector<GraphNode> nodes;  // in the order of their numbers
  std::vector<Edge> edges;

  int32_t add(NodeKind kind, int64_t amount) {
    GraphNode& node = nodes.emplace_back();
    node.kind = kind;
    node.amount = amount;
    return static_cast<int32_t>(nodes.size()) - 1;
  }
  // `parent` -1: none.
  void link(int32_t parent, int32_t child) {
    if (parent < 0) return;
    ++nodes[static_cast<size_t>(child)].parents;
    edges.push_back({child, nodes[static_cast<size_t>(parent)].first_edge});
    nodes[static_cast<size_t>(parent)].first_edge = static_cast<int32_t>(edges.size()) - 1;
  }
  void clear() {
    nodes.clear();
    edges.clear();
  }
};

}  // namespace vllm
