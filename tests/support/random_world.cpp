#include "support/random_world.h"

#include <fmt/format.h>

#include <algorithm>

namespace vllm::testing {

RequestInput WorldRequest::input() const {
  RequestInput in;
  in.id = id;
  in.prompt = prompt;
  in.max_tokens = max_tokens;
  in.min_tokens = min_tokens;
  in.eos_token_ids = eos;
  in.stop_token_ids = stops;
  in.priority = priority;
  in.arrival_ns = arrival_ns;
  in.cache_salt = salt;
  return in;
}

RandomWorld::RandomWorld(uint64_t seed, const WorldOptions& options) : rng_(seed) {
  token_seed_ = rng_();
  choose_limits(options);
  scheduler_ = std::make_unique<Scheduler>(config_);
}

void RandomWorld::choose_limits(const WorldOptions& options) {
  constexpr int kBlockSizes[] = {1, 2, 4, 16};
  constexpr double kWatermarks[] = {0.0, 0.0, 0.05, 0.1, 0.25};
  config_.block_size = kBlockSizes[below(4)];
  SchedulerOptions& o = config_.options;
  o.max_num_seqs = static_cast<int>(between(1, 8));
  config_.max_model_len = between(8, 8 + 8 * config_.block_size);
  o.max_num_batched_tokens = static_cast<int>(chance(50) ? between(1, 12) : between(8, 64));
  o.long_prefill_token_threshold = chance(30) ? static_cast<int>(between(1, 10)) : 0;
  o.enable_chunked_prefill = !chance(15);
  if (!o.enable_chunked_prefill) {
    // What can never be computed in one step is refused.
    const int needed = o.long_prefill_token_threshold > 0 ? o.long_prefill_token_threshold
                                                          : static_cast<int>(config_.max_model_len);
    o.max_num_batched_tokens = std::max(o.max_num_batched_tokens, needed);
  }
  o.enable_prefix_caching = !chance(15);
  o.policy = options.policy.value_or(chance(40) ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs);
  o.reserve_full_isl = !chance(30);
  o.watermark = kWatermarks[below(5)];
  o.scheduling_depth = options.depth.value_or(chance(50) ? 2 : 1);

  const int64_t longest = (config_.max_model_len + config_.block_size - 1) / config_.block_size;
  int64_t num_groups = 1;
  if (options.groups) {
    num_groups = between(1, 3);
    for (int64_t g = 0; g < num_groups; ++g) {
      KvGroup group;
      const bool sliding = num_groups == 1 || g > 0 || chance(20);
      group.kind = sliding ? LayerKind::kSliding : LayerKind::kFull;
      if (sliding) group.window = between(1, 3 * config_.block_size + 3);
      config_.groups.push_back(group);
    }
  }
  // From pools for which the longest requests are refused, over pools in which two hardly fit, to pools that
  // are never full.
  const int64_t per_group = chance(10)   ? between((longest + 1) / 2, longest)
                            : chance(80) ? between(longest, 3 * longest + 2)
                                         : 8 * longest + 8;
  config_.num_blocks = 1 + num_groups * per_group;
  config_.prefix_hash = chance(10) ? PrefixHash::kSha256 : PrefixHash::kXxh128;

  vocabulary_ = static_cast<int>(between(2, 6));
  arrival_percent_ = static_cast<int>(between(10, 80));
  abort_percent_ = static_cast<int>(chance(50) ? 0 : between(1, 8));
  longest_prompt_ = between(2, config_.max_model_len - 1);
  longest_output_ = between(1, config_.max_model_len);
  for (int i = 0; i < 3; ++i) {
    auto& prefix = prefixes_.emplace_back();
    for (int64_t k = between(1, config_.max_model_len); k > 0; --k) {
      prefix.push_back(static_cast<int32_t>(below(static_cast<uint64_t>(vocabulary_))));
    }
  }
}

int32_t RandomWorld::token(RequestId id, int64_t index) const {
  uint64_t x =
      token_seed_ ^ (id * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(index) * 0xBF58476D1CE4E5B9ull);
  x = (x ^ (x >> 31)) * 0x94D049BB133111EBull;
  x ^= x >> 29;
  // The two highest values of the vocabulary serve as eos and stop ids now and then.
  return static_cast<int32_t>(x % static_cast<uint64_t>(x % 12 == 0 ? vocabulary_ + 2 : vocabulary_));
}

WorldRequest RandomWorld::make_request() {
  WorldRequest r;
  r.id = next_id_++;
  const int64_t length = between(1, longest_prompt_);
  if (chance(60)) {
    const auto& prefix = prefixes_[below(prefixes_.size())];
    const int64_t shared = std::min<int64_t>(between(1, length), static_cast<int64_t>(prefix.size()));
    r.prompt.assign(prefix.begin(), prefix.begin() + shared);
  }
  while (static_cast<int64_t>(r.prompt.size()) < length) {
    r.prompt.push_back(static_cast<int32_t>(below(static_cast<uint64_t>(vocabulary_))));
  }
  r.max_tokens = static_cast<int32_t>(between(1, longest_output_));
  if (chance(30)) r.min_tokens = static_cast<int32_t>(between(0, r.max_tokens));
  if (chance(50)) r.eos = {vocabulary_};
  if (chance(30)) r.stops = {vocabulary_ + 1, vocabulary_};
  r.priority = static_cast<int>(below(3));
  r.arrival_ns = static_cast<TimeNs>(below(4));
  if (chance(15)) r.salt = chance(50) ? "a" : "b";
  return r;
}

void RandomWorld::add() {
  event_.request = make_request();
  const Status status = scheduler_->add(event_.request.input());
  event_.kind = status.is_ok() ? WorldEvent::Kind::kAdd : WorldEvent::Kind::kRefused;
  event_.reason = status.message();
  if (status.is_ok()) alive_.insert(event_.request.id);
}

void RandomWorld::plan() {
  if (spare_.empty()) spare_.push_back(std::make_unique<StepPlan>());
  in_flight_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  scheduler_->schedule(*in_flight_.back());
  event_.kind = WorldEvent::Kind::kPlan;
  event_.plan = in_flight_.back().get();
}

void RandomWorld::process() {
  spare_.push_back(std::move(in_flight_.front()));
  in_flight_.pop_front();
  const StepPlan& plan = *spare_.back();
  event_.tokens.clear();
  event_.outputs.clear();
  for (const StepEntry& entry : plan.entries) {
    const auto state = scheduler_->state(entry.id);
    const bool wanted = entry.samples && state;
    event_.tokens.push_back(wanted ? token(entry.id, state->num_tokens - state->num_prompt) : kTokenInFlight);
  }
  scheduler_->process_outputs(plan, event_.tokens, event_.outputs);
  for (const RequestOutput& output : event_.outputs) {
    if (output.ended) alive_.erase(output.id);
  }
  event_.kind = WorldEvent::Kind::kOutputs;
  event_.plan = &plan;
}

const WorldEvent& RandomWorld::next() {
  if (!draining_) {
    if (alive_.size() < 12 && chance(arrival_percent_)) {
      add();
      return event_;
    }
    if (!alive_.empty() && chance(abort_percent_)) {
      auto it = alive_.begin();
      std::advance(it, static_cast<int64_t>(below(alive_.size())));
      event_.kind = WorldEvent::Kind::kAbort;
      event_.aborted = *it;
      scheduler_->abort(*it);
      alive_.erase(it);
      return event_;
    }
    if (chance(2)) {
      event_.kind = WorldEvent::Kind::kReset;
      event_.reset = scheduler_->reset_prefix_cache();
      return event_;
    }
  }
  const size_t depth = static_cast<size_t>(config_.options.scheduling_depth);
  const bool room = in_flight_.size() < depth;
  // At depth 2 the order of planning and outputs varies; both must always be legal.
  if (in_flight_.empty() || (room && scheduler_->has_work() && chance(draining_ ? 100 : 75))) {
    plan();
  } else {
    process();
  }
  return event_;
}

std::string describe(const SchedulerConfig& c) {
  const SchedulerOptions& o = c.options;
  std::string groups;
  for (const KvGroup& g : c.groups) {
    groups += g.kind == LayerKind::kSliding ? fmt::format(" sliding({})", g.window) : " full";
  }
  return fmt::format(
      "blocks {} of {} tokens, max_model_len {}, seqs {}, budget {}, threshold {}, chunked {}, caching {}, "
      "{}, "
      "reserve_full_isl {}, watermark {}, depth {}, groups{}",
      c.num_blocks, c.block_size, c.max_model_len, o.max_num_seqs, o.max_num_batched_tokens,
      o.long_prefill_token_threshold, o.enable_chunked_prefill, o.enable_prefix_caching,
      o.policy == SchedulingPolicy::kFcfs ? "fcfs" : "priority", o.reserve_full_isl, o.watermark,
      o.scheduling_depth, groups.empty() ? " full" : groups);
}

}  // namespace vllm::testing
