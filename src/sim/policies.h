#pragma once

// Where the two modes differ, one field a rule. Numbers in brackets are those of the reference simulator's
// list of known limits (section 12 of its description); docs/simulator.md explains each.

#include <string>

#include "base/status.h"
#include "sim/latency_model.h"

namespace vllm {

struct SimPolicies {
  // -- time
  // Nothing in flight: the clock goes on in steps of a millisecond, so an arrival waits for the next one, and
  // in a DP group an idle first member costs one with each wave [10]. False: it goes to the next arrival.
  bool idle_quantum = false;
  // Instances act only when an NPU that has finished is polled, once after each instant with events, and the
  // last NPU takes a step only at a poll of its own. False: everything that can happen at an instant does.
  bool acts_by_polls = false;
  // Heartbeats are printed by polls, so one that falls into a long step tells of its end. False: each tells
  // of the instant that it names.
  bool heartbeat_by_polls = false;

  // -- scheduling
  // The pool without a null block, freed blocks all to the tail, and the newest block owning a name.
  bool older_pool = false;
  // With pipeline stages a chunk gives the token of the chunk that was planned behind it.
  bool token_at_any_entry = false;
  // queuing_delay is that of the last prefill chunk [12]. False: of the first schedule.
  bool queuing_until_last_chunk = false;

  // -- what a step consists of
  // The all-reduce behind the embedding and the gather of the logits are left out [7].
  bool no_vocabulary_collectives = false;
  // Graph padding is left out [3].
  bool no_graph_padding = false;
  // Every member of a DP group reads the routing results of the first ranks [8].
  bool members_share_routing = false;
  // Random expert routing begins with the same seed in every step [11].
  bool random_experts_reseeded = false;
  // Round-robin expert routing is evaluated at token 0 for every token [11].
  bool round_robin_stuck = false;
  // Only the first expert of an instance waits for the gathered tokens; the others begin with the gathering.
  bool later_experts_skip_gather = false;
  // Without block copy a mixture of experts is one layer deep [11].
  bool single_moe_layer = false;

  // -- look-ups: nearest-bucket skew and capped alphas [5], over-activated experts [8]
  LatencyPolicies latency;

  static SimPolicies native() { return {}; }
  static SimPolicies compat() {
    SimPolicies p;
    p.idle_quantum = p.acts_by_polls = p.heartbeat_by_polls = true;
    p.older_pool = p.token_at_any_entry = p.queuing_until_last_chunk = true;
    p.no_vocabulary_collectives = p.no_graph_padding = true;
    p.members_share_routing = p.random_experts_reseeded = true;
    p.round_robin_stuck = p.later_experts_skip_gather = p.single_moe_layer = true;
    p.latency = LatencyPolicies::compat();
    return p;
  }
};

// Sets what the named faults of the reference (commas between them) stand for: --keep-faults.
Status keep_faults(const std::string& names, SimPolicies& policies);

}  // namespace vllm
