#include "backend/cpu/request_states.h"

#include "sample/sampler.h"

namespace vllm {

void RequestStates::add(RequestId id, const SamplingParams& params) {
  State& state = states_[id];
  state.params = params;
  state.key = sampling_key(params, engine_seed_, id);
}

Status RequestStates::apply(const StepPlan& plan, Batch& batch) {
  batch.clear();
  for (const RequestId id : plan.ended) states_.erase(id);
  for (const RequestId id : plan.preempted) {
    const auto found = states_.find(id);
    if (found != states_.end()) found->second.tables.clear();
  }
  for (const StepEntry& entry : plan.entries) {
    const auto found = states_.find(entry.id);
    if (found == states_.end())
      return failed("Step {} names request {}, which was never added", plan.step, entry.id);
    VLLM_RETURN_IF_ERROR(add_blocks(plan, entry, found->second));
    VLLM_RETURN_IF_ERROR(add_tokens(plan, entry, found->second, batch));
  }
  return Status::ok();
}

Status RequestStates::add_blocks(const StepPlan& plan, const StepEntry& entry, State& state) const {
  if (entry.starts) state.tables.clear();
  state.tables.resize(static_cast<size_t>(num_groups_));
  size_t next = static_cast<size_t>(entry.block_offset);
  for (int group = 0; group < num_groups_; ++group) {
    std::vector<BlockId>& table = state.tables[static_cast<size_t>(group)];
    const size_t count_at = static_cast<size_t>(entry.block_count_offset) + static_cast<size_t>(group);
    const int32_t count = plan.block_counts[count_at];
    for (int32_t i = 0; i < count; ++i) {
      const BlockId block = plan.blocks[next++];
      if (block < 0 || block >= blocks_) {
        return failed("Step {} gives request {} block {}, but the pool has {}", plan.step, entry.id, block,
                      blocks_);
      }
      table.push_back(block);
    }
    const int64_t slots = static_cast<int64_t>(table.size()) * block_size_;
    if (slots < int64_t{entry.num_computed} + entry.num_tokens) {
      return failed("Step {} computes positions {} to {} of request {}, whose blocks of group {} hold {}",
                    plan.step, entry.num_computed, entry.num_computed + entry.num_tokens - 1, entry.id, group,
                    slots);
    }
  }
  return Status::ok();
}

Status RequestStates::add_tokens(const StepPlan& plan, const StepEntry& entry, const State& state,
                                 Batch& batch) const {
  batch.sequences.push_back({.row = static_cast<int64_t>(batch.tokens.size()),
                             .count = entry.num_tokens,
                             .position = entry.num_computed,
                             .tables = &state.tables});
  for (const int32_t planned : plan.tokens_of(entry)) {
    const int32_t token = planned == kTokenInFlight ? state.last_token : planned;
    if (token < 0 || token >= vocab_size_) {
      return failed("Step {} has token {} for request {}, outside the vocabulary of {}", plan.step, token,
                    entry.id, vocab_size_);
    }
    batch.tokens.push_back(token);
  }
  if (entry.samples) batch.logits_rows.push_back(static_cast<int64_t>(batch.tokens.size()) - 1);
  return Status::ok();
}

}  // namespace vllm
