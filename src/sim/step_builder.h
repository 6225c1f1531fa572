#pragma once

// Step graphs from a profile: the rows of the model's architecture with the times of a LatencyModel, host
// transfers, collectives, pipeline hand-offs and experts, in the order of nodes that docs/simulator.md
// describes. One thread owns it.

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/cluster.h"
#include "sim/expert_routing.h"
#include "sim/latency_model.h"
#include "sim/network.h"
#include "sim/policies.h"
#include "sim/step_source.h"

namespace vllm {

class StepBuilder final : public StepSource {
 public:
  struct Config {
    const ClusterSpec* cluster = nullptr;  // outlives the builder
    const InstanceSpec* instance = nullptr;
    std::shared_ptr<LatencyModel> latency;
    ExpertRouting expert_routing = ExpertRouting::kBalanced;
    SimPolicies policies;
    TimeNs host_overhead_ns = 0;         // before the first row of each step
    std::vector<int64_t> capture_sizes;  // ascending; a step's tokens are padded to the next one
  };
  explicit StepBuilder(Config config);

  void build(const StepShape& shape, bool merged, StepGraphs& out) override;
  TimeNs longest_ns() const override { return longest_ns_; }

 private:
  struct Ring {
    std::vector<RingPhase> phases;
    TimeNs ns = 0;  // when all ranks begin together
  };
  struct Row {
    TimeNs ns = 0;
    const Ring* ring = nullptr;  // behind it
    TimeNs longest_ns() const { return ns + (ring != nullptr ? ring->ns : 0); }
  };
  struct Rows {
    std::vector<Row> prologue, layer, head;  // `layer` without experts
  };
  // The graph that is being made.
  struct Draft {
    StepGraph* graph = nullptr;
    int32_t input = -1, compute = -1, collective = -1;  // the last ones; `collective` of the last row only
    bool merged = false;
    bool may_merge = false;  // the last node is a compute node with nothing behind it
  };

  void make_rows(const BatchShape& shape);
  void make_row(std::vector<Row>& rows, const BoundLayer& layer, const BatchShape& shape);
  const Ring* ring(CollectiveKind kind, int64_t bytes, bool experts);
  void build_rank(int stage, int rank, const BatchShape& shape, bool merged, StepGraph& graph);
  void add_row(Draft& draft, const Row& row);
  int32_t add_compute(Draft& draft, TimeNs ns, int32_t parent);
  void add_collective(Draft& draft, const Ring& ring, int32_t parent);
  void add_experts(Draft& draft, int rank);
  std::shared_ptr<StepGraph> fresh_graph();

  Config config_;
  Network network_;
  ExpertRouter router_;
  const InstanceSpec& spec_;
  const ModelDims& model_;
  std::vector<int64_t> stage_layers_;
  Rows rows_;
  std::vector<TimeNs> expert_ns_;  // of each local expert-parallel rank; 0: no tokens
  const Ring* gather_ = nullptr;
  const Ring* scatter_ = nullptr;
  TimeNs longest_ns_ = 0;
  std::map<std::pair<int, int64_t>, Ring> rings_;
  std::vector<std::shared_ptr<StepGraph>> pool_;
  size_t next_in_pool_ = 0;
};

}  // namespace vllm
