#include "sim/policies.h"

#include <algorithm>
#include <utility>

namespace vllm {
namespace {

using Setter = void (*)(SimPolicies&);

constexpr std::pair<const char*, Setter> kFaults[] = {
    {"polls", [](SimPolicies& p) { p.idle_quantum = p.acts_by_polls = p.heartbeat_by_polls = true; }},
    {"pool", [](SimPolicies& p) { p.older_pool = true; }},
    {"vocabulary", [](SimPolicies& p) { p.no_vocabulary_collectives = true; }},
    {"padding", [](SimPolicies& p) { p.no_graph_padding = true; }},
    {"skew-key", [](SimPolicies& p) { p.latency.skew_nearest_pc = false; }},
    {"skew-cap", [](SimPolicies& p) { p.latency.skew_clamp_alpha = false; }},
    {"experts", [](SimPolicies& p) { p.latency.moe_expected_distinct = false; }},
    {"queuing", [](SimPolicies& p) { p.queuing_until_last_chunk = true; }},
    {"routing",
     [](SimPolicies& p) {
       p.members_share_routing = p.random_experts_reseeded = p.round_robin_stuck = true;
       p.later_experts_skip_gather = true;
     }},
};

}  // namespace

Status keep_faults(const std::string& names, SimPolicies& policies) {
  for (size_t begin = 0; begin < names.size();) {
    const size_t comma = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, comma - begin);
    begin = comma + 1;
    bool found = false;
    std::string known;
    for (const auto& [fault, set] : kFaults) {
      known += (known.empty() ? "" : ", ") + std::string(fault);
      if (name != fault) continue;
      set(policies);
      found = true;
    }
    if (!found) return usage_error("--keep-faults: '{}' is not a fault; accepted are {}", name, known);
  }
  return Status::ok();
}

}  // namespace vllm
