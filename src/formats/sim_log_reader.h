#pragma once

// The simulator's log as other tools read it (docs/formats.md): heartbeats, the pools of the instances and
// the input configuration. Lines of no known shape are passed over, since a log has many; one of a known
// shape that is malformed is an error with its number.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace vllm {

struct SimLogTick {
  double t_s = 0;  // end of the interval
  double prompt_throughput = 0, gen_throughput = 0;
  int64_t running = 0, waiting = 0;  // summed over the instances
};

struct SimLogPool {
  int64_t instance = 0, tokens = 0, blocks = 0;
};

struct SimLogSetting {
  std::string label, value;
};

struct SimLog {
  std::vector<SimLogTick> ticks;
  std::vector<SimLogPool> pools;
  std::vector<SimLogSetting> configuration;
  bool has_results = false;  // the results block is there: the simulation came to its end

  // nullptr when the configuration has no such label.
  const std::string* setting(std::string_view label) const;
};

// Escape sequences for colours are left out. A file without a single line of a known shape is refused.
Result<SimLog> read_sim_log(const std::string& path);

}  // namespace vllm
