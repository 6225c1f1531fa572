#pragma once

// Who runs next, for how many tokens, who is preempted: the rules of docs/scheduler.md. Pure: no clock, no
// threads, no input or output. One thread owns a scheduler and everything it holds. In the steady state no
// call allocates.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "config/options.h"
#include "kv/block_pool.h"
#include "kv/spec.h"
#include "sched/step_plan.h"

namespace vllm {

// Rules for plans in flight beyond those of scheduling_depth: pipelines have a plan in every stage.
struct FlightPolicy {
  // How many plans may be out at a time; empty: scheduling_depth of them.
  std::optional<int> max_plans;
  // Only positions whose tokens are known are planned, however many plans are out: a request whose tokens are
  // all in flight is stepped over.
  bool known_tokens_only = false;
  // An entry whose request has by then been planned up to its last known token gives a token, else none: so a
  // chunk does, when the rest of its prompt was planned behind it, and the rest then gives none. The rule of
  // an older simulator; needs known_tokens_only.
  bool token_at_any_entry = false;
};

struct SchedulerConfig {
  int64_t num_blocks = 0;  // null block included
  int block_size = 16;
  int64_t max_model_len = 0;
  SchedulerOptions options;
  std::vector<KvGroup> groups;  // empty: one group of full attention
  PoolPolicy pool;
  PrefixHash prefix_hash =
      PrefixHash::kXxh128;  // kSha256 where prompts come from people who may want collisions
  FlightPolicy flight;

  int max_plans_in_flight() const { return flight.max_plans.value_or(options.scheduling_depth); }
};

// What the scheduler must know of a request. The prompt is copied.
struct RequestInput {
  RequestId id = 0;
  std::span<const int32_t> prompt;
  int32_t max_tokens = 1;
  int32_t min_tokens = 0;  // clamped to what max_model_len leaves
  bool ignore_eos = false;
  std::span<const int32_t> eos_token_ids;
  std::span<const int32_t> stop_token_ids;
  int priority = 0;       // lower runs earlier; SchedulingPolicy::kPriority only
  TimeNs arrival_ns = 0;  // orders equal priorities
  std::string cache_salt;
  // Blocks of tokens beyond these are neither looked up in the prefix cache nor entered: what is not known of
  // a sequence must not be found.
  int32_t cacheable_tokens = std::numeric_limits<int32_t>::max();
};

enum class EndReason { kStop, kLength, kAborted };
const char* end_reason_name(EndReason reason);  // "stop", "length", "abort"

// One token that became known, in the order of the step's entries.
struct RequestOutput {
  RequestId id = 0;
  int32_t token = 0;
  bool ended = false;
  EndReason reason = EndReason::kLength;
  std::optional<int32_t> stop_token;  // the id of stop_token_ids that ended it
};

// Facts of a request that lives (is waiting or running).
struct RequestState {
  int32_t num_prompt = 0, num_tokens = 0, num_computed = 0, in_flight = 0, num_preemptions = 0;
  std::optional<int32_t> cached_tokens;  // at first admission
  bool running = false;
};

struct SchedulerStats {
  int64_t prefix_queries = 0, prefix_hits = 0;                  // tokens, at first admission
  int64_t prefix_queries_resumed = 0, prefix_hits_resumed = 0;  // tokens, at re-admissions
  int64_t preemptions = 0;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerConfig& config);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Refuses what can never fit, with both numbers, and a duplicate id; a refused request leaves no trace.
  Status add(const RequestInput& request);
  // Ends it at once, whatever is in flight. False when it does not live.
  bool abort(RequestId id);

  // Plans one step into `plan` (cleared first). Up to max_plans_in_flight() plans may be out at a time.
  void schedule(StepPlan& plan);
  // The oldest plan's outputs: `tokens` has one value for each entry, ignored for chunks and ended requests.
  // Appends what became known to `outputs`.
  void process_outputs(const StepPlan& plan, std::span<const int32_t> tokens,
                       std::vector<RequestOutput>& outputs);

  // Anything waits or runs, or a request ended since the last plan (the executor has to hear of it).
  bool has_work() const;
  bool has_requests() const;  // anything waits or runs
  int32_t num_running() const;
  int32_t num_waiting() const;
  int64_t num_free_blocks() const;  // of num_usable_blocks()
  int64_t num_usable_blocks() const;
  const SchedulerStats& stats() const;
  void reset_stats();
  std::optional<RequestState> state(RequestId id) const;
  std::span<const int32_t> tokens(
      RequestId id) const;  // prompt and known outputs; empty when it does not live

  // False, changing nothing, unless all blocks but the null block are free. Then all hashes are forgotten and
  // the free list is in its initial order.
  bool reset_prefix_cache();

  // For checkers and tests.
  const BlockPool& pool() const;
  std::vector<RequestId> running_ids() const;  // admission order
  std::vector<RequestId> waiting_ids() const;  // service order
  std::vector<BlockId> block_table(RequestId id, int group) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vllm
