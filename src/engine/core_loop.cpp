#include "engine/core_loop.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vllm {
namespace {

struct LiveRequest {
  std::string name;
  RequestTimes times;
  int32_t num_prompt = 0;
  // Stamps of a virtual clock may be 0, so what has happened is kept apart from when.
  bool admitted = false;
  bool has_token = false;
};

struct Slot {
  StepPlan plan;
  StepResult result;
  StepRecord record;
};

// An empty plan with nothing in flight, no preemption and no end leaves the scheduler as it was: the next
// plan would be the same. Two of them in a row mean that the requests that wait would wait for ever.
constexpr int kStalledPlans = 2;

void reserve_slot(Slot& slot, const SchedulerConfig& config) {
  const auto seqs = static_cast<size_t>(std::max(1, config.options.max_num_seqs));
  const auto tokens = static_cast<size_t>(std::max(1, config.options.max_num_batched_tokens));
  slot.plan.entries.reserve(seqs);
  slot.plan.tokens.reserve(tokens);
  slot.plan.block_counts.reserve(seqs * std::max<size_t>(1, config.groups.size()));
  slot.plan.blocks.reserve(seqs + tokens);
  slot.plan.preempted.reserve(seqs);
  slot.plan.ended.reserve(seqs);
  slot.result.tokens.reserve(seqs);
  slot.record.entries.reserve(seqs);
  slot.record.preempted.reserve(seqs);
}

}  // namespace

struct CoreLoop::Impl {
  Impl(const SchedulerConfig& config, Executor& an_executor, Clock& a_clock, CoreObserver* an_observer)
      : scheduler(config),
        executor(an_executor),
        clock(a_clock),
        observer(an_observer),
        depth(config.max_plans_in_flight()),
        records_steps(an_observer != nullptr && an_observer->wants_steps()) {
    assert(depth >= 1 && depth <= executor.max_in_flight());
    assert(depth <= 2 || config.flight.known_tokens_only);
    slots.resize(static_cast<size_t>(depth));
    for (Slot& slot : slots) reserve_slot(slot, config);
    outputs.reserve(static_cast<size_t>(std::max(1, config.options.max_num_seqs)));
  }

  Result<const StepPlan*> plan_step(EmptyPlans empty);
  Status collect_step();
  bool drop_plan(const StepPlan& plan);
  void add_untold(StepPlan& plan);
  void note_plan(const StepPlan& plan, TimeNs start_ns);
  void fill_record(Slot& slot, TimeNs start_ns, TimeNs end_ns);
  void deliver(const RequestOutput& output, TimeNs ready_ns, TimeNs now_ns);
  void end(RequestId id, EndReason reason, TimeNs now_ns);
  bool stalled(const StepPlan& plan);
  Status fail(Status why);
  void refresh_gauges();

  Scheduler scheduler;
  Executor& executor;
  Clock& clock;
  CoreObserver* observer;
  const int depth;
  const bool records_steps;

  std::vector<Slot> slots;  // a ring of `depth` steps
  int oldest = 0;
  int in_flight = 0;
  // The step just launched has nothing to be overlapped with, or there is no room: the next turn waits.
  bool collect_next = false;
  int stalled_plans = 0;
  int64_t next_step = 0;

  std::unordered_map<RequestId, LiveRequest> live;  // looked up by id only; its order decides nothing
  std::vector<RequestOutput> outputs;
  std::vector<RequestId> untold_ended, untold_preempted;  // of plans that were dropped
  CoreCounters counters;
  Status failure;
};

CoreLoop::CoreLoop(const SchedulerConfig& config, Executor& executor, Clock& clock, CoreObserver* observer)
    : impl_(std::make_unique<Impl>(config, executor, clock, observer)) {}

CoreLoop::~CoreLoop() = default;

Status CoreLoop::add(const RequestInput& request, const SamplingParams& params, const std::string& name) {
  Impl& self = *impl_;
  VLLM_RETURN_IF_ERROR(self.failure);
  VLLM_ASSIGN_OR_RETURN(const SamplingParams normalised, normalise(params));
  VLLM_RETURN_IF_ERROR(self.scheduler.add(request));
  self.executor.add_request(request.id, normalised);
  LiveRequest& live = self.live[request.id];
  live.name = name;
  live.num_prompt = static_cast<int32_t>(request.prompt.size());
  live.times.queued_ns = self.clock.now_ns();
  return Status::ok();
}

bool CoreLoop::abort(RequestId id) {
  Impl& self = *impl_;
  if (!self.live.contains(id) || !self.scheduler.abort(id)) return false;
  self.end(id, EndReason::kAborted, self.clock.now_ns());
  return true;
}

Result<bool> CoreLoop::turn() {
  Impl& self = *impl_;
  if (!self.failure.is_ok()) return self.failure;
  if (wants_to_plan()) {
    VLLM_RETURN_IF_ERROR(self.plan_step(EmptyPlans::kLaunch).status());
    return true;
  }
  if (self.in_flight > 0) {
    VLLM_RETURN_IF_ERROR(self.collect_step());
    return true;
  }
  return false;
}

Result<const StepPlan*> CoreLoop::plan_step(EmptyPlans empty) {
  VLLM_RETURN_IF_ERROR(impl_->failure);
  assert(impl_->in_flight < impl_->depth);
  return impl_->plan_step(empty);
}

Status CoreLoop::process_oldest() {
  VLLM_RETURN_IF_ERROR(impl_->failure);
  assert(impl_->in_flight > 0);
  return impl_->collect_step();
}

Result<const StepPlan*> CoreLoop::Impl::plan_step(EmptyPlans empty) {
  Slot& slot = slots[static_cast<size_t>((oldest + in_flight) % depth)];
  const TimeNs start_ns = clock.now_ns();
  scheduler.schedule(slot.plan);
  const TimeNs end_ns = clock.now_ns();
  if (stalled(slot.plan)) {
    return fail(failed(
        "none of the {} waiting requests can be placed although nothing runs: the core stops, since they "
        "would wait for ever",
        slot.plan.waiting));
  }
  note_plan(slot.plan, start_ns);
  if (empty == EmptyPlans::kDrop && drop_plan(slot.plan)) return nullptr;
  slot.plan.step = next_step++;
  add_untold(slot.plan);
  if (records_steps) fill_record(slot, start_ns, end_ns);
  if (Status launched = executor.launch(slot.plan); !launched.is_ok()) return fail(std::move(launched));
  ++in_flight;
  const bool overlaps = slot.plan.total_tokens > 0 || scheduler.has_requests();
  collect_next = in_flight == depth || !overlaps;
  return &slot.plan;
}

bool CoreLoop::Impl::drop_plan(const StepPlan& plan) {
  if (!plan.entries.empty()) return false;
  untold_ended.insert(untold_ended.end(), plan.ended.begin(), plan.ended.end());
  untold_preempted.insert(untold_preempted.end(), plan.preempted.begin(), plan.preempted.end());
  return true;
}

void CoreLoop::Impl::add_untold(StepPlan& plan) {
  if (!untold_ended.empty()) {
    plan.ended.insert(plan.ended.begin(), untold_ended.begin(), untold_ended.end());
    untold_ended.clear();
  }
  if (untold_preempted.empty()) return;
  // Those that ended meanwhile are told as ended.
  std::erase_if(untold_preempted, [this](RequestId id) { return !live.contains(id); });
  plan.preempted.insert(plan.preempted.begin(), untold_preempted.begin(), untold_preempted.end());
  untold_preempted.clear();
}

bool CoreLoop::Impl::stalled(const StepPlan& plan) {
  const bool unchanged =
      in_flight == 0 && plan.entries.empty() && plan.preempted.empty() && plan.ended.empty();
  stalled_plans = unchanged && scheduler.has_requests() ? stalled_plans + 1 : 0;
  return stalled_plans >= kStalledPlans;
}

// What the plan decided about its requests, with the step's start as the time of both events.
void CoreLoop::Impl::note_plan(const StepPlan& plan, TimeNs start_ns) {
  for (const StepEntry& entry : plan.entries) {
    if (!entry.starts) continue;
    const auto found = live.find(entry.id);
    if (found == live.end() || found->second.admitted) continue;
    found->second.admitted = true;
    found->second.times.scheduled_ns = start_ns;
    found->second.times.cached_tokens = entry.num_computed;
  }
  for (const RequestId id : plan.preempted) {
    const auto found = live.find(id);
    if (found != live.end()) ++found->second.times.num_preemptions;
  }
  counters.preemptions += static_cast<int64_t>(plan.preempted.size());
}

// Made when the step is planned, since requests may be gone when it is processed.
void CoreLoop::Impl::fill_record(Slot& slot, TimeNs start_ns, TimeNs end_ns) {
  const StepPlan& plan = slot.plan;
  StepRecord& record = slot.record;
  // Whatever a plan names lives while it is planned.
  const auto name_of = [this](RequestId id) -> const std::string& { return live.at(id).name; };
  record.step = plan.step;
  record.t_sched_ns = start_ns;
  record.t_sched_end_ns = end_ns;
  record.t_out_ns = 0;
  record.total_tokens = plan.total_tokens;
  record.running = plan.running;
  record.waiting = plan.waiting;
  record.free_blocks = plan.free_blocks;
  record.entries.resize(plan.entries.size());
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const StepEntry& entry = plan.entries[i];
    record.entries[i].request_id = name_of(entry.id);
    record.entries[i].num_tokens = entry.num_tokens;
    record.entries[i].num_computed = entry.num_computed;
  }
  record.preempted.resize(plan.preempted.size());
  for (size_t i = 0; i < plan.preempted.size(); ++i) record.preempted[i] = name_of(plan.preempted[i]);
}

Status CoreLoop::Impl::collect_step() {
  Slot& slot = slots[static_cast<size_t>(oldest)];
  if (Status collected = executor.collect(slot.result); !collected.is_ok()) return fail(std::move(collected));
  if (slot.result.tokens.size() < slot.plan.entries.size()) {
    return fail(failed("the executor {} returned {} tokens for a step of {} entries", executor.name(),
                       slot.result.tokens.size(), slot.plan.entries.size()));
  }
  if (observer) observer->on_collected();

  const TimeNs now_ns = clock.now_ns();
  outputs.clear();
  scheduler.process_outputs(slot.plan, std::span(slot.result.tokens).first(slot.plan.entries.size()),
                            outputs);
  oldest = (oldest + 1) % depth;
  --in_flight;
  collect_next = false;
  ++counters.steps;
  for (size_t i = 0; i < outputs.size(); ++i) deliver(outputs[i], slot.result.ready_ns, now_ns);
  if (records_steps) {
    slot.record.t_out_ns = slot.result.ready_ns;
    observer->on_step(slot.plan, slot.record);
  }
  return Status::ok();
}

void CoreLoop::Impl::deliver(const RequestOutput& output, TimeNs ready_ns, TimeNs now_ns) {
  const auto found = live.find(output.id);
  if (found == live.end()) return;  // the observer aborted it a moment ago
  LiveRequest& request = found->second;
  ++counters.generation_tokens;
  if (!request.has_token) {
    // The prefill is complete: the prompt counts now, whole and once, however often it was computed.
    request.has_token = true;
    request.times.first_token_ns = ready_ns;
    counters.prompt_tokens += request.num_prompt;
    counters.prompt_tokens_cached += request.times.cached_tokens;
    counters.prompt_tokens_computed += request.num_prompt - request.times.cached_tokens;
  }
  request.times.last_token_ns = ready_ns;
  if (observer) observer->on_token(output.id, output.token, ready_ns);
  if (output.ended) end(output.id, output.reason, now_ns);
}

void CoreLoop::Impl::end(RequestId id, EndReason reason, TimeNs now_ns) {
  const auto node = live.extract(id);
  assert(!node.empty());
  ++counters.requests_ended;
  RequestTimes times = node.mapped().times;
  times.finished_ns = now_ns;
  if (observer) observer->on_end(id, reason, times);
}

// The executor is not called again. What was in flight is lost, so every request ends.
Status CoreLoop::Impl::fail(Status why) {
  failure = why;
  in_flight = 0;
  collect_next = false;
  std::vector<RequestId> ids;
  for (const auto& [id, request] : live) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  const TimeNs now_ns = clock.now_ns();
  for (const RequestId id : ids) {
    scheduler.abort(id);
    if (live.contains(id)) end(id, EndReason::kAborted, now_ns);
  }
  return why;
}

void CoreLoop::Impl::refresh_gauges() {
  counters.running = scheduler.num_running();
  counters.waiting = scheduler.num_waiting();
  counters.usable_blocks = scheduler.num_usable_blocks();
  counters.used_blocks = counters.usable_blocks - scheduler.num_free_blocks();
}

bool CoreLoop::idle() const {
  return impl_->in_flight == 0 && (!impl_->failure.is_ok() || !impl_->scheduler.has_work());
}
bool CoreLoop::has_request(RequestId id) const { return impl_->live.contains(id); }
int32_t CoreLoop::num_in_flight() const { return impl_->in_flight; }
bool CoreLoop::wants_to_plan() const {
  const Impl& self = *impl_;
  return self.failure.is_ok() && !self.collect_next && self.in_flight < self.depth &&
         self.scheduler.has_work();
}
int32_t CoreLoop::max_in_flight() const { return impl_->depth; }
int64_t CoreLoop::num_requests() const { return static_cast<int64_t>(impl_->live.size()); }
const Status& CoreLoop::failure() const { return impl_->failure; }
Scheduler& CoreLoop::scheduler() { return impl_->scheduler; }

const CoreCounters& CoreLoop::counters() const {
  impl_->refresh_gauges();
  return impl_->counters;
}

void CoreLoop::reset_counters() {
  impl_->counters = CoreCounters{};
  impl_->next_step = 0;
  impl_->scheduler.reset_stats();
}

bool CoreLoop::reset_prefix_cache() { return impl_->scheduler.reset_prefix_cache(); }

}  // namespace vllm
