#pragma once

// What a finished simulation tells: sim.csv, the JSON report, and the values that the text log prints.

#include <string>

#include "base/status.h"
#include "formats/json_fwd.h"
#include "sim/cluster_sim.h"
#include "sim/sim_log.h"
#include "sim/sim_setup.h"

namespace vllm {

Status write_sim_csv(const std::string& path, const SimSetup& setup, const ClusterSim& sim);

// The state of this moment, as a heartbeat shows it; the interval's counters begin again.
Heartbeat take_heartbeat(SimSetup& setup, const ClusterSim& sim, TimeNs end_ns, double interval_s);

// But for wall time, throughput by interval and paths, which the caller knows.
SimResults sim_results(const SimSetup& setup, const ClusterSim& sim);

// The keys of the load report (docs/bench.md), with what only a simulation knows under "twin". Nothing in it
// depends on the wall clock.
Json sim_report_json(const ParsedOptions& parsed, const SimSetup& setup, const ClusterSim& sim);

}  // namespace vllm
