#pragma once

// The simulated side of a comparison: sim.csv and the log.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/sim_log_reader.h"

namespace vllm {

struct SimRequest {
  int64_t id = 0;  // row of the dataset
  int64_t input_toks = 0, output_toks = 0;
  double arrival_s = 0, end_s = 0;
  double ttft_ms = 0, tpot_ms = 0, latency_ms = 0;
};

struct SimRun {
  std::string csv_path, log_path;
  std::string model;                 // of the first row
  std::vector<SimRequest> requests;  // by id
  int64_t input_toks = 0, output_toks = 0;
  bool has_times = false;  // the file has arrivals and ends
  SimLog log;
  int64_t block_size = 0;                  // 0: the log does not say
  std::string dataset_path, dataset_hash;  // empty: unknown
};

// The dataset that the log names is looked up as it is named, then by its file name below `workloads_root`
// (empty: only as named); its hash is known when it is found.
Result<SimRun> read_sim_run(const std::string& csv_path, const std::string& log_path,
                            const std::string& workloads_root);

}  // namespace vllm
