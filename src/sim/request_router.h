#pragma once

// Which instance a new request goes to. One thread owns it.

#include <cstdint>
#include <functional>

#include "config/options.h"
#include "sim/python_random.h"

namespace vllm {

struct InstanceLoad {
  int64_t waiting = 0, running = 0, max_num_seqs = 1;
};

class RequestRouter {
 public:
  RequestRouter(RequestRouting policy, size_t instances);
  // `load(i)` is asked under kLoad only.
  size_t pick(const std::function<InstanceLoad(size_t)>& load);

 private:
  RequestRouting policy_;
  size_t instances_;
  uint64_t start_ = 0;  // the scan begins here, modulo the number of instances
  PythonRandom random_;
};

}  // namespace vllm
