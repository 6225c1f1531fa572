#pragma once

// Makes the requests of a workload one by one, all of them from one seed. Lengths of prompts, lengths of
// outputs, arrivals, token ids and shared prefixes come from streams of their own (base/random.h), so that
// another rate leaves every prompt as it was. The same options and seed give the same requests on every
// machine.

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "config/options.h"
#include "formats/workload.h"

namespace vllm {

// Ids that a prompt may have: [0, vocab_size) but for `special` (begin and end of a text).
struct TokenRange {
  int64_t vocab_size = 0;
  std::vector<int64_t> special;
};

// One thread owns it.
class WorkloadGenerator {
 public:
  // Errors are those of options that do not go together.
  static Result<WorkloadGenerator> create(const WorkloadOptions& options, const TokenRange& tokens,
                                          uint64_t seed);

  // The next request; an error when its arrival is beyond what a workload can say.
  Result<WorkloadRequest> next();
  // Requests so far that begin with a shared prefix.
  int64_t num_shared() const { return num_shared_; }

 private:
  WorkloadGenerator(const WorkloadOptions& options, TokenRange tokens, uint64_t seed);

  int32_t draw_length(Random& random, int low, int high) const;
  Status advance_arrival();
  int32_t draw_token(Random& random) const;
  void fill_prompt(WorkloadRequest& request);

  WorkloadOptions options_;
  TokenRange tokens_;
  Random input_lengths_, output_lengths_, arrivals_, token_ids_, sharing_;
  std::vector<std::vector<int32_t>> prefixes_;
  TimeNs arrival_ns_ = 0;
  int64_t made_ = 0;
  int64_t num_shared_ = 0;
};

}  // namespace vllm
