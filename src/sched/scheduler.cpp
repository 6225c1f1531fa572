#include "sched/scheduler.h"

#include <algorithm>
#include <cassert>
#include <tuple>

#include "sched/block_tables.h"
#include "sched/request_table.h"
#include "sched/waiting_queue.h"

namespace vllm {
namespace {

// Keeps every sum of token counts of one request inside 32 bits.
constexpr int64_t kLongestSequence = int64_t{1} << 30;

BlockTables::Config tables_config(const SchedulerConfig& config) {
  BlockTables::Config tables;
  tables.num_blocks = config.num_blocks;
  tables.block_size = config.block_size;
  tables.max_step_tokens = config.options.max_num_batched_tokens;
  tables.prefix_caching = config.options.enable_prefix_caching;
  tables.groups = config.groups;
  if (tables.groups.empty()) tables.groups.emplace_back();
  tables.pool = config.pool;
  tables.prefix_hash = config.prefix_hash;
  return tables;
}

bool contains(const std::vector<int32_t>& ids, int32_t token) {
  for (const int32_t id : ids) {
    if (id == token) return true;
  }
  return false;
}

// Stop checks for the token that was just appended, in the documented order. Most requests are at their end
// by length or not at all, and those without stop ids need no other look.
std::optional<EndReason> stop_reason(const Request& request, int32_t token,
                                     std::optional<int32_t>& stop_token) {
  const bool full = request.num_tokens >= request.end_at;
  if (!request.has_stop_ids) return full ? std::optional(EndReason::kLength) : std::nullopt;
  if (request.num_generated() < request.min_tokens) return std::nullopt;
  if (!request.ignore_eos && contains(request.eos_token_ids, token)) return EndReason::kStop;
  if (contains(request.stop_token_ids, token)) {
    stop_token = token;
    return EndReason::kStop;
  }
  return full ? std::optional(EndReason::kLength) : std::nullopt;
}

}  // namespace

const char* end_reason_name(EndReason reason) {
  switch (reason) {
    case EndReason::kStop:
      return "stop";
    case EndReason::kLength:
      return "length";
    case EndReason::kAborted:
      return "abort";
  }
  return "";
}

struct Scheduler::Impl {
  explicit Impl(const SchedulerConfig& config)
      : options(config.options),
        flight(config.flight),
        max_model_len(static_cast<int32_t>(std::min(config.max_model_len, kLongestSequence))),
        watermark_blocks(static_cast<int64_t>(options.watermark * static_cast<double>(config.num_blocks))),
        tables(tables_config(config)),
        waiting(options.policy, requests) {}

  Status check(const RequestInput& input) const;
  void plan_running();
  void plan_waiting();
  bool make_room(size_t& position, int32_t upto);
  size_t victim_position() const;
  void preempt(Slot slot);
  void drop_entry(Slot slot);
  void enter(Slot slot, int32_t tokens, int32_t blocks_before, bool starts);
  void count_admission(Request& request, int32_t hit_tokens);
  void write_entries(StepPlan& plan);
  void append_blocks(const Request& request, StepPlan& plan) const;
  void end(Slot slot);

  const SchedulerOptions options;
  const FlightPolicy flight;
  const int32_t max_model_len;
  const int64_t watermark_blocks;
  RequestTable requests;
  BlockTables tables;
  WaitingQueue waiting;
  std::vector<Slot> running;         // admission order
  std::vector<Slot> planned;         // entries of the plan being made, in scheduling order
  std::vector<RequestId> preempted;  // in the plan being made
  std::vector<RequestId> ended;      // since the last plan
  int32_t budget = 0;                // tokens left in the plan being made
  int64_t next_step = 0;
  int64_t next_sequence = 0;
  SchedulerStats stats;
};

// ---- adding and ending

Status Scheduler::Impl::check(const RequestInput& input) const {
  const int64_t prompt = static_cast<int64_t>(input.prompt.size());
  if (requests.find(input.id) != kNoSlot)
    return failed("request {} lives already; ids are used once", input.id);
  if (prompt == 0) return refused("request {} has an empty prompt; it needs at least one token", input.id);
  if (input.max_tokens < 1) {
    return refused("request {} has max_tokens {}; accepted are 1 and more", input.id, input.max_tokens);
  }
  if (input.min_tokens < 0 || input.min_tokens > input.max_tokens) {
    return refused("request {} has min_tokens {}; accepted are 0 to its max_tokens {}", input.id,
                   input.min_tokens, input.max_tokens);
  }
  if (prompt >= max_model_len) {
    return refused("the prompt of {} tokens leaves no room for an output; max_model_len is {}", prompt,
                   max_model_len);
  }
  // The last token is never computed.
  const int64_t longest = std::min<int64_t>(prompt + input.max_tokens, max_model_len) - 1;
  const int64_t need = tables.most_blocks(longest);
  if (need > tables.pool().num_usable()) {
    return refused(
        "a prompt of {} tokens and {} output tokens need {} KV blocks, but the pool has {} usable blocks",
        prompt, longest + 1 - prompt, need, tables.pool().num_usable());
  }
  const int threshold = options.long_prefill_token_threshold;
  const int64_t prefill = threshold > 0 ? std::min<int64_t>(threshold, longest) : longest;
  if (!options.enable_chunked_prefill && prefill > options.max_num_batched_tokens) {
    return refused(
        "without chunked prefill a prompt of {} tokens and {} output tokens can need {} tokens in one step "
        "(when "
        "resumed after a preemption), but max_num_batched_tokens is {}",
        prompt, longest + 1 - prompt, prefill, options.max_num_batched_tokens);
  }
  return Status::ok();
}

Scheduler::Scheduler(const SchedulerConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Scheduler::~Scheduler() = default;

Status Scheduler::add(const RequestInput& input) {
  Impl& s = *impl_;
  VLLM_RETURN_IF_ERROR(s.check(input));
  const Slot slot = s.requests.add(input.id);
  Request& r = s.requests[slot];
  r.id = input.id;
  r.num_prompt = r.num_tokens = static_cast<int32_t>(input.prompt.size());
  r.num_computed = r.in_flight = r.step_tokens = r.num_preemptions = r.cached_tokens = 0;
  r.max_tokens = input.max_tokens;
  // A request that may never stop would be planned no tokens for ever.
  r.min_tokens = std::min(input.min_tokens, s.max_model_len - r.num_prompt);
  r.running = r.admitted_before = r.step_starts = false;
  r.ignore_eos = input.ignore_eos;
  r.priority = input.priority;
  r.arrival_ns = input.arrival_ns;
  r.sequence = s.next_sequence++;
  r.eos_token_ids.assign(input.eos_token_ids.begin(), input.eos_token_ids.end());
  r.stop_token_ids.assign(input.stop_token_ids.begin(), input.stop_token_ids.end());
  r.has_stop_ids = !r.stop_token_ids.empty() || (!r.ignore_eos && !r.eos_token_ids.empty());
  r.end_at = static_cast<int32_t>(std::min<int64_t>(int64_t{r.num_prompt} + r.max_tokens, s.max_model_len));
  r.tokens.clear();
  s.tables.prepare(r, r.end_at, input.cache_salt, input.cacheable_tokens);
  r.tokens.assign(input.prompt.begin(), input.prompt.end());

  // Room for whatever later calls may do with this request.
  const size_t alive = static_cast<size_t>(s.requests.size());
  const auto reserve = [](auto& list, size_t size) {
    if (size > list.capacity()) list.reserve(2 * size);
  };
  const size_t seats = std::min(alive, static_cast<size_t>(s.options.max_num_seqs));
  reserve(s.running, seats);
  reserve(s.planned, seats);
  reserve(s.preempted, seats);
  reserve(s.ended, s.ended.size() + alive);
  s.waiting.reserve(static_cast<int64_t>(alive));
  s.waiting.add(slot);
  return Status::ok();
}

bool Scheduler::abort(RequestId id) {
  const Slot slot = impl_->requests.find(id);
  if (slot == kNoSlot) return false;
  impl_->end(slot);
  return true;
}

// Blocks and seat are free at once, even when a step in flight computes the request: steps run in order on
// the device, and what that step still writes lies in blocks that the cache does not know.
void Scheduler::Impl::end(Slot slot) {
  Request& r = requests[slot];
  if (r.running) {
    running.erase(std::find(running.begin(), running.end(), slot));
  } else {
    waiting.remove(slot);
  }
  tables.release(r);
  ended.push_back(r.id);
  requests.remove(slot);
}

// ---- planning

void Scheduler::schedule(StepPlan& plan) {
  Impl& s = *impl_;
  plan.clear();
  plan.step = s.next_step++;
  plan.ended.assign(s.ended.begin(), s.ended.end());
  s.ended.clear();
  s.planned.clear();
  s.preempted.clear();
  s.budget = s.options.max_num_batched_tokens;
  s.plan_running();
  if (s.preempted.empty()) s.plan_waiting();

  plan.total_tokens = s.options.max_num_batched_tokens - s.budget;
  plan.preempted.assign(s.preempted.begin(), s.preempted.end());
  s.write_entries(plan);
  plan.running = num_running();
  plan.waiting = num_waiting();
  plan.free_blocks = num_free_blocks();
}

void Scheduler::Impl::plan_running() {
  const int32_t threshold = options.long_prefill_token_threshold;
  size_t i = 0;
  while (i < running.size() && budget > 0) {
    Request& r = requests[running[i]];
    if (r.last_token_in_flight()) {  // nothing to compute any more, whatever that token is
      ++i;
      continue;
    }
    int32_t n = r.num_tokens - r.num_computed + (flight.known_tokens_only ? 0 : r.in_flight);
    if (threshold > 0) n = std::min(n, threshold);
    n = std::min({n, budget, max_model_len - 1 - r.num_computed});
    if (n <= 0) {
      ++i;
      continue;
    }
    const Slot slot = running[i];
    const int32_t blocks_before = r.num_blocks;
    const int32_t upto = r.num_computed + n;
    if (!tables.grow(r, upto) && !make_room(i, upto)) return;
    enter(slot, n, blocks_before, false);
    ++i;
  }
}

// Preempts until the request at `position` has slots for [0, upto); false when it had to go itself.
// `position` follows the request, as victims before it leave.
bool Scheduler::Impl::make_room(size_t& position, int32_t upto) {
  const Slot slot = running[position];
  do {
    const size_t j = victim_position();
    const Slot victim = running[j];
    running.erase(running.begin() + static_cast<ptrdiff_t>(j));
    preempt(victim);
    if (victim == slot) return false;
    if (j < position) --position;
  } while (!tables.grow(requests[slot], upto));
  return true;
}

// FCFS: the newest. Priority: the worst by (priority, arrival), the first in running among equals.
size_t Scheduler::Impl::victim_position() const {
  size_t worst = running.size() - 1;
  if (options.policy == SchedulingPolicy::kFcfs) return worst;
  for (size_t j = worst; j-- > 0;) {
    const Request& candidate = requests[running[j]];
    const Request& current = requests[running[worst]];
    if (std::tie(candidate.priority, candidate.arrival_ns) >=
        std::tie(current.priority, current.arrival_ns)) {
      worst = j;
    }
  }
  return worst;
}

void Scheduler::Impl::preempt(Slot slot) {
  Request& r = requests[slot];
  if (r.step_tokens > 0) drop_entry(slot);
  tables.release(r);
  r.num_computed = 0;
  r.running = false;
  ++r.num_preemptions;
  ++stats.preemptions;
  preempted.push_back(r.id);
  waiting.add_preempted(slot);
}

// The victim was planned in this step (possible with priorities): its entry and its tokens come back, and
// blocks that only this entry would have filled must not be found in the prefix cache.
void Scheduler::Impl::drop_entry(Slot slot) {
  Request& r = requests[slot];
  tables.forget_uncomputed(r);
  budget += r.step_tokens;
  r.step_tokens = 0;
  planned.erase(std::find(planned.begin(), planned.end(), slot));
}

void Scheduler::Impl::enter(Slot slot, int32_t tokens, int32_t blocks_before, bool starts) {
  Request& r = requests[slot];
  r.step_tokens = tokens;
  r.step_blocks = blocks_before;
  r.step_starts = starts;
  budget -= tokens;
  planned.push_back(slot);
}

void Scheduler::Impl::plan_waiting() {
  const int32_t threshold = options.long_prefill_token_threshold;
  while (!waiting.empty() && budget > 0) {
    if (running.size() >= static_cast<size_t>(options.max_num_seqs)) return;
    const Slot slot = waiting.front();
    Request& r = requests[slot];
    const int32_t hit_blocks = tables.find_hits(r);
    const int32_t hit_tokens = hit_blocks * tables.block_size();
    int32_t n = r.num_tokens - hit_tokens;
    if (threshold > 0) n = std::min(n, threshold);
    if (!options.enable_chunked_prefill && n > budget) return;
    n = std::min(n, budget);
    const int64_t spare = running.empty() ? 0 : watermark_blocks;
    // The head blocks: nobody overtakes it.
    if (!tables.admit(r, hit_blocks, hit_tokens + n, options.reserve_full_isl, spare)) return;
    waiting.remove(slot);
    running.push_back(slot);
    r.running = true;
    r.num_computed = hit_tokens;
    count_admission(r, hit_tokens);
    enter(slot, n, 0, true);
  }
}

void Scheduler::Impl::count_admission(Request& r, int32_t hit_tokens) {
  const bool first = !r.admitted_before;
  if (first) r.cached_tokens = hit_tokens;
  r.admitted_before = true;
  if (!options.enable_prefix_caching) return;
  (first ? stats.prefix_queries : stats.prefix_queries_resumed) += r.num_tokens;
  (first ? stats.prefix_hits : stats.prefix_hits_resumed) += hit_tokens;
}

// The plan's lists have their final sizes, but for the blocks: most entries have none.
void Scheduler::Impl::write_entries(StepPlan& plan) {
  const int groups = tables.num_groups();
  plan.entries.resize(planned.size());
  plan.tokens.resize(static_cast<size_t>(plan.total_tokens));
  plan.block_counts.resize(planned.size() * static_cast<size_t>(groups));
  int32_t* tokens_out = plan.tokens.data();
  int32_t* counts_out = plan.block_counts.data();
  for (size_t i = 0; i < planned.size(); ++i) {
    Request& r = requests[planned[i]];
    StepEntry& entry = plan.entries[i];
    entry.id = r.id;
    entry.num_tokens = r.step_tokens;
    entry.num_computed = r.num_computed;
    entry.starts = r.step_starts;
    entry.token_offset = static_cast<int32_t>(tokens_out - plan.tokens.data());
    entry.block_offset = static_cast<int32_t>(plan.blocks.size());
    entry.block_count_offset = static_cast<int32_t>(counts_out - plan.block_counts.data());

    const int32_t upto = r.num_computed + r.step_tokens;
    const int32_t known = std::clamp(r.num_tokens, r.num_computed, upto);
    if (r.step_tokens == 1) {
      *tokens_out++ = known == upto ? r.tokens[static_cast<size_t>(r.num_computed)] : kTokenInFlight;
    } else {
      tokens_out = std::copy(r.tokens.begin() + r.num_computed, r.tokens.begin() + known, tokens_out);
      tokens_out = std::fill_n(tokens_out, upto - known, kTokenInFlight);
    }

    const int32_t fresh = r.num_blocks - r.step_blocks;
    if (groups == 1) {
      *counts_out++ = fresh;
    } else {
      for (int g = 0; g < groups; ++g) *counts_out++ = tables.has_blocks(g) ? fresh : 0;
    }
    if (fresh > 0) append_blocks(r, plan);

    // The step counts as done for the next plan; a chunk returns no token.
    r.num_computed = upto;
    entry.samples = upto == r.num_tokens + r.in_flight;
    r.in_flight += entry.samples && !flight.token_at_any_entry ? 1 : 0;
    r.step_tokens = 0;
  }
}

void Scheduler::Impl::append_blocks(const Request& r, StepPlan& plan) const {
  for (int g = 0; g < tables.num_groups(); ++g) {
    if (!tables.has_blocks(g)) continue;
    const auto fresh = r.table(g).subspan(static_cast<size_t>(r.step_blocks));
    plan.blocks.insert(plan.blocks.end(), fresh.begin(), fresh.end());
  }
}

// ---- outputs

void Scheduler::process_outputs(const StepPlan& plan, std::span<const int32_t> tokens,
                                std::vector<RequestOutput>& outputs) {
  Impl& s = *impl_;
  assert(tokens.size() == plan.entries.size());
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    if (!plan.entries[i].samples && !s.flight.token_at_any_entry) continue;
    const Slot slot = s.requests.find(plan.entries[i].id);
    if (slot == kNoSlot) continue;  // ended meanwhile
    Request& r = s.requests[slot];
    if (s.flight.token_at_any_entry) {
      if (r.num_computed < r.num_tokens) continue;
    } else {
      --r.in_flight;
    }
    r.tokens.push_back(tokens[i]);
    ++r.num_tokens;
    RequestOutput& output = outputs.emplace_back();
    output.id = r.id;
    output.token = tokens[i];
    const std::optional<EndReason> reason = stop_reason(r, tokens[i], output.stop_token);
    // At depth 2 a block can become full of known tokens here. Not for a preempted request: it has no blocks.
    const int32_t computed = r.num_computed - r.in_flight;
    if (r.running && computed >= r.index_at) s.tables.index(r, computed);
    if (!reason) {
      if (r.running && r.num_tokens >= r.index_at) s.tables.expect_index(r);
      continue;
    }
    output.ended = true;
    output.reason = *reason;
    s.end(slot);
  }
}

// ---- questions

bool Scheduler::has_work() const { return has_requests() || !impl_->ended.empty(); }
bool Scheduler::has_requests() const { return impl_->requests.size() > 0; }
int32_t Scheduler::num_running() const { return static_cast<int32_t>(impl_->running.size()); }
int32_t Scheduler::num_waiting() const { return static_cast<int32_t>(impl_->waiting.size()); }
int64_t Scheduler::num_free_blocks() const { return impl_->tables.pool().num_free(); }
int64_t Scheduler::num_usable_blocks() const { return impl_->tables.pool().num_usable(); }
const SchedulerStats& Scheduler::stats() const { return impl_->stats; }
void Scheduler::reset_stats() { impl_->stats = {}; }
bool Scheduler::reset_prefix_cache() { return impl_->tables.reset_prefix_cache(); }
const BlockPool& Scheduler::pool() const { return impl_->tables.pool(); }

std::optional<RequestState> Scheduler::state(RequestId id) const {
  const Slot slot = impl_->requests.find(id);
  if (slot == kNoSlot) return std::nullopt;
  const Request& r = impl_->requests[slot];
  RequestState state;
  state.num_prompt = r.num_prompt;
  state.num_tokens = r.num_tokens;
  state.num_computed = r.num_computed;
  state.in_flight = r.in_flight;
  state.num_preemptions = r.num_preemptions;
  if (r.admitted_before) state.cached_tokens = r.cached_tokens;
  state.running = r.running;
  return state;
}

std::span<const int32_t> Scheduler::tokens(RequestId id) const {
  const Slot slot = impl_->requests.find(id);
  if (slot == kNoSlot) return {};
  return impl_->requests[slot].tokens;
}

std::vector<RequestId> Scheduler::running_ids() const {
  std::vector<RequestId> ids;
  for (const Slot slot : impl_->running) ids.push_back(impl_->requests[slot].id);
  return ids;
}

std::vector<RequestId> Scheduler::waiting_ids() const {
  std::vector<RequestId> ids;
  for (const Slot slot : impl_->waiting.in_order()) ids.push_back(impl_->requests[slot].id);
  return ids;
}

std::vector<BlockId> Scheduler::block_table(RequestId id, int group) const {
  const Slot slot = impl_->requests.find(id);
  if (slot == kNoSlot || !impl_->tables.has_blocks(group)) return {};
  const auto table = std::as_const(impl_->requests[slot]).table(group);
  return {table.begin(), table.end()};
}

}  // namespace vllm
