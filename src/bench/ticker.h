#pragma once

// timeseries.csv: samples of engine counters, one after each step, collected into ticks.
//
// A sample at time t (since the start of the replay) belongs to the tick [k*tick, (k+1)*tick). A row's `t_s`
// is the tick's end; a tick without samples gives no row. Throughputs are what the counters grew by within
// the tick, over all engines, divided by the tick; running and waiting are the sum of each engine's last
// sample in the tick; the pool's use is the mean over those engines. A prompt counts once, whole, when its
// prefill completes.

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"
#include "engine/core_loop.h"
#include "formats/recording.h"

namespace vllm {

// One thread at a time.
class Ticker {
 public:
  explicit Ticker(TimeNs tick_ns) : tick_ns_(tick_ns) {}

  // The zero of the time axis. Samples before it are counted into the first tick.
  void set_start_ns(TimeNs start_ns) { start_ns_ = start_ns; }

  // `counters` are cumulative since the start of the measurement.
  void sample(int engine, TimeNs now_ns, const CoreCounters& counters);

  std::vector<TimeseriesRow> rows() const;

 private:
  struct Tick {
    int64_t prompt_computed = 0, prompt_cached = 0, prompt = 0, generated = 0, preempted = 0;
    std::map<int, CoreCounters> last;  // by engine
  };

  TimeNs tick_ns_;
  TimeNs start_ns_ = 0;
  std::map<int64_t, Tick> ticks_;
  std::map<int, CoreCounters> previous_;  // by engine
};

}  // namespace vllm
