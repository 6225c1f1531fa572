#include "sim/expert_routing.h"

#include <algorithm>

namespace vllm {
namespace {

constexpr uint32_t kSeed = 42;

}  // namespace

ExpertRouter::ExpertRouter(const Config& config)
    : config_(config), random_(kSeed), loads_(static_cast<size_t>(config.ep)) {}

std::span<const ExpertLoad> ExpertRouter::route(int64_t tokens) {
  const auto own = [this](const std::vector<ExpertLoad>& loads) {
    const int64_t first = config_.policies.members_share_routing ? 0 : config_.first_rank;
    return std::span(loads).subspan(static_cast<size_t>(first), static_cast<size_t>(config_.local_ep));
  };
  const bool fresh_draws =
      config_.routing == ExpertRouting::kRandom && !config_.policies.random_experts_reseeded;
  if (!fresh_draws) {
    const auto found = by_tokens_.find(tokens);
    if (found != by_tokens_.end()) return own(found->second);
  }
  if (config_.routing == ExpertRouting::kBalanced) {
    const ExpertLoad each = balanced_expert_load(tokens, config_.experts_per_token, config_.experts,
                                                 config_.ep, config_.policies.latency);
    std::fill(loads_.begin(), loads_.end(), each);
  } else {
    count(tokens);
  }
  if (fresh_draws) return own(loads_);
  return own(by_tokens_.emplace(tokens, loads_).first->second);
}

void ExpertRouter::count(int64_t tokens) {
  const auto experts = static_cast<uint32_t>(config_.experts);
  const auto k = static_cast<uint32_t>(config_.experts_per_token);
  if (config_.policies.random_experts_reseeded) random_ = PythonRandom(kSeed);
  std::fill(loads_.begin(), loads_.end(), ExpertLoad{});
  std::vector<uint8_t> active(experts, 0);
  std::vector<int64_t> last_token(loads_.size(), -1);
  for (int64_t t = 0; t < tokens; ++t) {
    if (config_.routing == ExpertRouting::kRandom) {
      random_.sample(experts, k, chosen_);
    } else {
      const uint64_t first = config_.policies.round_robin_stuck ? 0 : static_cast<uint64_t>(t) * k;
      chosen_.resize(k);
      for (uint32_t j = 0; j < k; ++j) chosen_[j] = static_cast<uint32_t>((first + j) % experts);
    }
    for (const uint32_t e : chosen_) {
      const auto rank = static_cast<size_t>(int64_t{e} * config_.ep / config_.experts);
      if (active[e] == 0) {
        active[e] = 1;
        ++loads_[rank].experts;
      }
      if (last_token[rank] == t) continue;
      last_token[rank] = t;
      ++loads_[rank].tokens;
    }
  }
}

}  // namespace vllm
