#pragma once

// Which experts the tokens of a step take, as far as time needs it: how many tokens each expert-parallel rank
// of an instance computes and how many distinct experts they activate there. One thread owns it.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "config/options.h"
#include "sim/latency_model.h"
#include "sim/policies.h"
#include "sim/python_random.h"

namespace vllm {

class ExpertRouter {
 public:
  struct Config {
    ExpertRouting routing = ExpertRouting::kBalanced;
    int64_t experts = 0, experts_per_token = 0;
    int64_t ep = 1;          // ranks of the whole group
    int64_t local_ep = 1;    // of this instance
    int64_t first_rank = 0;  // of this instance in the group
    SimPolicies policies;
  };
  explicit ExpertRouter(const Config& config);

  // One load for each of the instance's expert-parallel ranks; valid until the next call.
  std::span<const ExpertLoad> route(int64_t tokens);

 private:
  void count(int64_t tokens);

  Config config_;
  PythonRandom random_;
  std::vector<ExpertLoad> loads_;  // of all ranks of the group
  std::vector<uint32_t> chosen_;
  std::map<int64_t, std::vector<ExpertLoad>> by_tokens_;  // what depends on nothing else
};

}  // namespace vllm
