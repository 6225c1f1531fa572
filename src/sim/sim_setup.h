#pragma once

// Everything that a simulation needs, read and checked before it starts: cluster, workload, profiles, memory.
// What is wrong with any of them is one sentence, here.

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "config/options.h"
#include "formats/workload.h"
#include "sim/cluster.h"
#include "sim/cluster_sim.h"
#include "sim/latency_model.h"
#include "sim/memory_model.h"
#include "sim/policies.h"
#include "sim/request_ledger.h"
#include "sim/step_builder.h"

namespace vllm {

struct SimSetup {
  SimPolicies policies;
  ClusterSpec cluster;
  Workload workload;
  std::vector<InstanceMemory> memory;                  // by instance
  std::vector<std::shared_ptr<LatencyModel>> models;   // each once
  std::vector<std::unique_ptr<StepBuilder>> builders;  // by instance
  RequestLedger ledger;
  VirtualClock clock;
  ClusterSim::Config config;
  std::vector<std::string> notes;  // for the log: ignored keys, what pads
};

// The objects refer to each other, so the setup does not move.
Result<std::unique_ptr<SimSetup>> make_sim_setup(const ParsedOptions& parsed);

// The workload: of --dataset, or the built-in one. Arrivals must not run backwards.
Result<Workload> read_sim_workload(const SimOptions& options, bool needs_ids, size_t instances);

}  // namespace vllm
