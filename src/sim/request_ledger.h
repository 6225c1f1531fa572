#pragma once

// What happened to each request of a simulation, and the totals that reports are made of. One thread owns it.

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "formats/workload.h"

namespace vllm {

struct RequestOutcome {
  TimeNs queuing_ns = 0, ttft_ns = 0, first_token_ns = 0, last_token_ns = 0, end_ns = 0;
  int32_t generated = 0;
  int32_t hit_tokens = 0;  // of the last admission
  int32_t cached_tokens = 0, preemptions = 0;
  bool scheduled = false, prompt_done = false, ended = false;
  std::vector<int64_t> itl_ns;  // empty when they are not kept
};

// Inter-token latencies by value: those of one step are equal, so there are few.
class ItlCounts {
 public:
  void add(int64_t ns) {
    if (ns != last_) {
      flush();
      last_ = ns;
    }
    ++repeats_;
  }
  int64_t count() const;
  double mean_ns() const;
  double percentile_ns(double q) const;  // linear between neighbours, as metrics/latency.h has it

 private:
  void flush() {
    if (repeats_ > 0) counts_[last_] += repeats_;
    repeats_ = 0;
  }
  std::map<int64_t, int64_t> ordered() const;

  int64_t last_ = -1, repeats_ = 0;
  std::unordered_map<int64_t, int64_t> counts_;
};

struct RequestLedger {
  const std::vector<WorkloadRequest>* requests = nullptr;  // by index; a request's id is its index + 1
  std::vector<RequestOutcome> outcomes;                    // by index
  bool keep_itl = true;

  // Prompt tokens of completed chunks and prefix hits, generated tokens: of everything, and since the last
  // heartbeat.
  int64_t prompt_tokens = 0, generated_tokens = 0;
  int64_t interval_prompt_tokens = 0, interval_generated_tokens = 0;
  int64_t preemptions = 0, recomputed_tokens = 0;
  int64_t finished = 0;

  void count_prompt(int64_t tokens) {
    prompt_tokens += tokens;
    interval_prompt_tokens += tokens;
  }
  void count_generated(int64_t tokens) {
    generated_tokens += tokens;
    interval_generated_tokens += tokens;
  }
};

}  // namespace vllm
