#include "support/checker_kv_truth.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vllm::testing {

KvTruthChecker::KvTruthChecker(const SchedulerConfig& config,
                               std::function<int32_t(RequestId, int64_t)> output)
    : config_(config), output_(std::move(output)) {
  if (config_.groups.empty()) config_.groups.emplace_back();
  const size_t slots = static_cast<size_t>(config_.num_blocks) * static_cast<size_t>(config_.block_size);
  memory_.assign(config_.groups.size(), std::vector<uint64_t>(slots, 0));
}

void KvTruthChecker::on_add(RequestId id, std::vector<int32_t> prompt) {
  sequences_[id].prompt = std::move(prompt);
}

int32_t KvTruthChecker::token(RequestId id, const Sequence& s, int64_t position) const {
  const int64_t generated = position - static_cast<int64_t>(s.prompt.size());
  return generated < 0 ? s.prompt[static_cast<size_t>(position)] : output_(id, generated);
}

void KvTruthChecker::extend_names(RequestId id, Sequence& s, int64_t length) const {
  while (static_cast<int64_t>(s.names.size()) < length) {
    uint64_t x = s.names.empty() ? 1 : s.names.back();
    x ^= static_cast<uint64_t>(token(id, s, static_cast<int64_t>(s.names.size()))) + 0x9E3779B97F4A7C15ull;
    x *= 0xBF58476D1CE4E5B9ull;
    s.names.push_back(x ^ (x >> 29));
  }
}

uint64_t& KvTruthChecker::slot(size_t group, BlockId block, int64_t position) {
  const int64_t bs = config_.block_size;
  return memory_[group][static_cast<size_t>(block * bs + position % bs)];
}

std::string KvTruthChecker::check_tokens(const StepPlan& plan, const StepEntry& e, const Sequence& s) const {
  const auto given = plan.tokens_of(e);
  for (int32_t i = 0; i < e.num_tokens; ++i) {
    const int32_t want = token(e.id, s, e.num_computed + i);
    const int32_t have = given[static_cast<size_t>(i)];
    if (have == want) continue;
    // Only an output can be in flight, and only at depth 2.
    const bool output = e.num_computed + i >= static_cast<int64_t>(s.prompt.size());
    if (have == kTokenInFlight && output && config_.options.scheduling_depth > 1) continue;
    return fmt::format("request {}, position {}: the plan has token {}, the sequence {}", e.id,
                       e.num_computed + i, have, want);
  }
  return {};
}

std::string KvTruthChecker::check_reads(const StepEntry& e, const Sequence& s) {
  for (size_t g = 0; g < config_.groups.size(); ++g) {
    const KvGroup& group = config_.groups[g];
    if (group.kind == LayerKind::kRecurrent) continue;
    // The first query sees furthest back.
    const int64_t from =
        group.kind == LayerKind::kSliding ? std::max<int64_t>(0, e.num_computed - group.window + 1) : 0;
    for (int64_t p = from; p < e.num_computed + e.num_tokens; ++p) {
      const BlockId block = s.tables[g][static_cast<size_t>(p / config_.block_size)];
      if (slot(g, block, p) != s.names[static_cast<size_t>(p)]) {
        return fmt::format("request {}, group {}, position {}: block {} holds something else", e.id, g, p,
                           block);
      }
    }
  }
  return {};
}

std::string KvTruthChecker::on_plan(const StepPlan& plan) {
  for (const RequestId id : plan.ended) sequences_.erase(id);
  // All KV of a step is written, layer by layer, before it is read.
  for (const StepEntry& e : plan.entries) {
    Sequence& s = sequences_.at(e.id);
    if (std::string error = check_tokens(plan, e, s); !error.empty()) return error;
    if (e.starts) s.tables.assign(config_.groups.size(), {});
    extend_names(e.id, s, e.num_computed + e.num_tokens);
    size_t next = static_cast<size_t>(e.block_offset);
    for (size_t g = 0; g < config_.groups.size(); ++g) {
      const int32_t count = plan.block_counts[static_cast<size_t>(e.block_count_offset) + g];
      for (int32_t i = 0; i < count; ++i) s.tables[g].push_back(plan.blocks[next++]);
      if (config_.groups[g].kind == LayerKind::kRecurrent) continue;
      for (int64_t p = e.num_computed; p < e.num_computed + e.num_tokens; ++p) {
        const BlockId block = s.tables[g][static_cast<size_t>(p / config_.block_size)];
        slot(g, block, p) = s.names[static_cast<size_t>(p)];
      }
    }
  }
  for (const StepEntry& e : plan.entries) {
    if (std::string error = check_reads(e, sequences_.at(e.id)); !error.empty()) return error;
  }
  return {};
}

}  // namespace vllm::testing
