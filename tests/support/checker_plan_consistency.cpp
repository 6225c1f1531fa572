#include "support/checker_plan_consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vllm::testing {

PlanConsistencyChecker::PlanConsistencyChecker(const SchedulerConfig& config) : config_(config) {
  if (config_.groups.empty()) config_.groups.emplace_back();
}

std::string PlanConsistencyChecker::on_plan(const StepPlan& plan, const Scheduler& scheduler) {
  if (plan.step != next_step_++) return fmt::format("plan {} follows plan {}", plan.step, next_step_ - 2);
  for (const RequestId id : plan.ended) views_.erase(id);
  for (const RequestId id : plan.preempted) {
    if (views_.erase(id) == 0) return fmt::format("request {} was preempted, but had no entry before", id);
  }
  std::string error = check_limits(plan, scheduler);
  for (size_t i = 0; error.empty() && i < plan.entries.size(); ++i) error = apply(plan, plan.entries[i]);
  for (size_t i = 0; error.empty() && i < plan.entries.size(); ++i)
    error = compare(plan.entries[i], scheduler);
  return error.empty() ? check_writes(plan) : error;
}

std::string PlanConsistencyChecker::check_limits(const StepPlan& plan, const Scheduler& scheduler) const {
  int64_t total = 0;
  std::set<RequestId> seen;
  for (const StepEntry& e : plan.entries) {
    total += e.num_tokens;
    if (e.num_tokens < 1) return fmt::format("request {} has an entry of {} tokens", e.id, e.num_tokens);
    if (!seen.insert(e.id).second) return fmt::format("request {} has two entries", e.id);
    if (int64_t{e.num_computed} + e.num_tokens >= config_.max_model_len) {
      return fmt::format("request {} reaches position {} of {}", e.id, e.num_computed + e.num_tokens,
                         config_.max_model_len);
    }
  }
  if (total != plan.total_tokens) return fmt::format("{} tokens planned, {} said", total, plan.total_tokens);
  if (total > config_.options.max_num_batched_tokens)
    return fmt::format("{} tokens exceed the budget", total);
  if (static_cast<int64_t>(plan.tokens.size()) != total) return "the tokens do not cover the entries";
  if (plan.running > config_.options.max_num_seqs) return fmt::format("{} requests run", plan.running);
  if (plan.running != scheduler.num_running() || plan.waiting != scheduler.num_waiting() ||
      plan.free_blocks != scheduler.num_free_blocks()) {
    return "the plan's counts are not the scheduler's";
  }
  for (const RequestId id : plan.preempted) {
    if (seen.count(id) > 0) return fmt::format("request {} was preempted and has an entry", id);
  }
  return {};
}

std::string PlanConsistencyChecker::apply(const StepPlan& plan, const StepEntry& entry) {
  View& view = views_[entry.id];
  if (entry.starts) {
    if (!view.tables.empty())
      return fmt::format("request {} starts and was not preempted or ended", entry.id);
    view.tables.assign(config_.groups.size(), {});
    view.num_computed = entry.num_computed;
  }
  if (view.tables.empty()) return fmt::format("request {} goes on and never started", entry.id);
  if (view.num_computed != entry.num_computed) {
    return fmt::format("request {} has {} positions computed, its entry says {}", entry.id, view.num_computed,
                       entry.num_computed);
  }
  size_t next = static_cast<size_t>(entry.block_offset);
  for (size_t g = 0; g < config_.groups.size(); ++g) {
    const int32_t count = plan.block_counts[static_cast<size_t>(entry.block_count_offset) + g];
    for (int32_t i = 0; i < count; ++i) view.tables[g].push_back(plan.blocks[next++]);
  }
  view.num_computed += entry.num_tokens;
  return {};
}

std::string PlanConsistencyChecker::compare(const StepEntry& entry, const Scheduler& scheduler) const {
  const View& view = views_.at(entry.id);
  for (size_t g = 0; g < config_.groups.size(); ++g) {
    const std::vector<BlockId> table = scheduler.block_table(entry.id, static_cast<int>(g));
    if (table.size() != view.tables[g].size()) {
      return fmt::format("request {}, group {}: the executor has {} blocks, the scheduler {}", entry.id, g,
                         view.tables[g].size(), table.size());
    }
    const bool has_blocks = config_.groups[g].kind != LayerKind::kRecurrent;
    const int64_t upto = int64_t{entry.num_computed} + entry.num_tokens;
    if (has_blocks && static_cast<int64_t>(table.size()) * config_.block_size < upto) {
      return fmt::format("request {}, group {}: no slot for position {}", entry.id, g, upto - 1);
    }
    for (size_t i = 0; i < table.size(); ++i) {
      // A block that left the window since: the executor does not hear of it and must not look at it.
      const int64_t end = (static_cast<int64_t>(i) + 1) * config_.block_size;
      const bool outside = config_.groups[g].kind == LayerKind::kSliding &&
                           end <= entry.num_computed - config_.groups[g].window + 1;
      if (table[i] == kNullBlock && outside) continue;
      if (table[i] == kNullBlock && config_.pool.null_block) {
        return fmt::format("request {}, group {}: block {} is missing", entry.id, g, i);
      }
      if (table[i] != view.tables[g][i]) {
        return fmt::format("request {}, group {}, block {}: the executor has {}, the scheduler {}", entry.id,
                           g, i, view.tables[g][i], table[i]);
      }
    }
  }
  return {};
}

std::string PlanConsistencyChecker::check_writes(const StepPlan& plan) const {
  std::map<BlockId, RequestId> writer;
  for (const StepEntry& e : plan.entries) {
    for (const std::vector<BlockId>& table : views_.at(e.id).tables) {
      if (table.empty()) continue;
      const int32_t last = (e.num_computed + e.num_tokens - 1) / config_.block_size;
      for (int32_t i = e.num_computed / config_.block_size; i <= last; ++i) {
        const BlockId b = table[static_cast<size_t>(i)];
        const auto [it, fresh] = writer.emplace(b, e.id);
        if (!fresh) return fmt::format("requests {} and {} both write block {}", it->second, e.id, b);
      }
    }
  }
  return {};
}

}  // namespace vllm::testing
