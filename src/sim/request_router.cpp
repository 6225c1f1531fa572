#include "sim/request_router.h"

namespace vllm {

RequestRouter::RequestRouter(RequestRouting policy, size_t instances)
    : policy_(policy), instances_(instances), random_(42) {}

size_t RequestRouter::pick(const std::function<InstanceLoad(size_t)>& load) {
  if (policy_ == RequestRouting::kRandom) return random_.below(static_cast<uint32_t>(instances_));
  size_t winner = static_cast<size_t>(start_ % instances_);
  if (policy_ == RequestRouting::kLoad && instances_ > 1) {
    double best = 0;
    for (size_t i = 0; i < instances_; ++i) {
      const size_t candidate = static_cast<size_t>((start_ + i) % instances_);
      const InstanceLoad l = load(candidate);
      const double score =
          static_cast<double>(4 * l.waiting + l.running) / static_cast<double>(l.max_num_seqs);
      if (i > 0 && score >= best) continue;
      best = score;
      winner = candidate;
    }
  }
  start_ = winner + 1;
  return winner;
}

}  // namespace vllm
