#include "sim/sim_instance.h"

#include <algorithm>

namespace vllm {
namespace {

// Ids that stand for unknown ones; they never meet the prefix cache.
constexpr int32_t kUnknownToken = 0;

}  // namespace

Status PredictedExecutor::collect(StepResult& result) {
  const StepPlan& plan = *plans_.front();
  plans_.pop_front();
  result.tokens.clear();
  for (const StepEntry& entry : plan.entries) result.tokens.push_back(token_of_(entry));
  result.ready_ns = clock_.now_ns();
  return Status::ok();
}

SimInstance::SimInstance(const Config& config)
    : config_(config),
      executor_(
          *config.clock, config.scheduler.max_plans_in_flight(),
          config.token_of ? config.token_of : PredictedExecutor::TokenOf([this](const StepEntry& entry) {
            return next_token(entry);
          })),
      core_(config.scheduler, executor_, *config.clock, this) {}

int32_t SimInstance::next_token(const StepEntry& entry) {
  const WorkloadRequest& request = (*config_.ledger->requests)[static_cast<size_t>(entry.id) - 1];
  const auto next = static_cast<size_t>(outcome(entry.id).generated);
  return next < request.output_tok_ids.size() ? request.output_tok_ids[next] : kUnknownToken;
}

Status SimInstance::add(size_t index) {
  const WorkloadRequest& request = (*config_.ledger->requests)[index];
  RequestInput input;
  input.id = static_cast<RequestId>(index) + 1;
  if (request.input_tok_ids.empty()) {
    const auto length = static_cast<size_t>(request.input_toks);
    if (unknown_prompt_.size() < length) unknown_prompt_.assign(length, kUnknownToken);
    input.prompt = std::span(unknown_prompt_).first(length);
    input.cacheable_tokens = 0;
  } else {
    input.prompt = request.input_tok_ids;
    input.cacheable_tokens =
        static_cast<int32_t>(request.input_tok_ids.size() + request.output_tok_ids.size());
  }
  input.max_tokens = request.output_toks;
  input.ignore_eos = true;
  input.arrival_ns = request.arrival_ns;
  if (config_.adjust) config_.adjust(index, input);
  nothing_to_plan_ = false;
  const Status added = core_.add(input, SamplingParams{}, fmt::format("bench-{}", index));
  return added.with_context(fmt::format("line {} of the workload", request.line));
}

Result<SimBatch*> SimInstance::open(CoreLoop::EmptyPlans empty) {
  const bool drop = empty == CoreLoop::EmptyPlans::kDrop;
  if (drop && (nothing_to_plan_ || core_.num_requests() == 0)) return nullptr;
  const int64_t preemptions = core_.counters().preemptions;
  VLLM_ASSIGN_OR_RETURN(const StepPlan* plan, core_.plan_step(empty));
  if (plan == nullptr) {
    // With nothing in flight the core itself watches for requests that can never be placed.
    nothing_to_plan_ = core_.num_in_flight() > 0 && core_.counters().preemptions == preemptions;
    return nullptr;
  }
  note_plan(*plan);
  SimBatch& batch = in_flight_.emplace_back();
  batch.number = next_number_++;
  batch.plan = plan;
  batch.shape = shape_of(*plan);
  if (config_.on_plan) config_.on_plan(*plan);
  return &batch;
}

SimBatch& SimInstance::open_dummy() {
  SimBatch& batch = in_flight_.emplace_back();
  batch.number = next_number_++;
  batch.shape = dummy_shape();
  return batch;
}

SimBatch* SimInstance::find(int64_t number) {
  for (SimBatch& batch : in_flight_) {
    if (batch.number == number) return &batch;
  }
  return nullptr;
}

void SimInstance::note_plan(const StepPlan& plan) {
  RequestLedger& ledger = *config_.ledger;
  const TimeNs now_ns = config_.clock->now_ns();
  for (const RequestId id : plan.preempted) {
    ++outcome(id).preemptions;
    ++ledger.preemptions;
  }
  for (const StepEntry& entry : plan.entries) {
    RequestOutcome& out = outcome(entry.id);
    if (entry.starts) {
      const WorkloadRequest& request = (*ledger.requests)[static_cast<size_t>(entry.id) - 1];
      out.hit_tokens = entry.num_computed;
      if (out.scheduled) {
        ledger.recomputed_tokens +=
            std::max<int64_t>(0, int64_t{request.input_toks} + out.generated - entry.num_computed);
      } else {
        out.cached_tokens = entry.num_computed;
      }
    }
    const bool stamps = config_.policies.queuing_until_last_chunk ? out.generated == 0 : !out.scheduled;
    if (stamps) {
      out.queuing_ns = now_ns - (*ledger.requests)[static_cast<size_t>(entry.id) - 1].arrival_ns;
    }
    out.scheduled = true;
  }
}

// A prompt counts chunk by chunk as chunks complete, with its prefix hits at the last one; what a preempted
// request computes again counts again.
void SimInstance::count_prompts(const StepPlan& plan) {
  RequestLedger& ledger = *config_.ledger;
  const bool by_position = config_.policies.token_at_any_entry && core_.max_in_flight() > 1;
  for (const StepEntry& entry : plan.entries) {
    RequestOutcome& out = outcome(entry.id);
    if (out.ended || (out.prompt_done && entry.num_tokens == 1)) continue;
    int64_t computed = int64_t{entry.num_computed} + entry.num_tokens;
    if (by_position) {
      const std::optional<RequestState> state = core_.scheduler().state(entry.id);
      computed = state ? state->num_computed : 0;
    }
    if (!out.prompt_done && computed >= (*ledger.requests)[static_cast<size_t>(entry.id) - 1].input_toks) {
      out.prompt_done = true;
      ledger.count_prompt(int64_t{entry.num_tokens} + out.hit_tokens);
    } else if (entry.num_tokens > 1) {
      ledger.count_prompt(entry.num_tokens);
    }
  }
}

Status SimInstance::complete_oldest() {
  const SimBatch& batch = in_flight_.front();
  if (batch.plan != nullptr) {
    count_prompts(*batch.plan);
    VLLM_RETURN_IF_ERROR(core_.process_oldest());
    ++steps_;
    nothing_to_plan_ = false;
  }
  in_flight_.pop_front();
  return log_status_;
}

void SimInstance::on_token(RequestId id, int32_t /*token*/, TimeNs ready_ns) {
  RequestLedger& ledger = *config_.ledger;
  RequestOutcome& out = outcome(id);
  const WorkloadRequest& request = (*ledger.requests)[static_cast<size_t>(id) - 1];
  if (out.generated++ == 0) {
    out.first_token_ns = ready_ns;
    out.ttft_ns = ready_ns - request.arrival_ns;
    if (ledger.keep_itl) out.itl_ns.reserve(static_cast<size_t>(request.output_toks) - 1);
  } else if (ledger.keep_itl) {
    out.itl_ns.push_back(ready_ns - out.last_token_ns);
  } else {
    itl_counts_.add(ready_ns - out.last_token_ns);
  }
  out.last_token_ns = ready_ns;
  ledger.count_generated(1);
}

void SimInstance::on_end(RequestId id, EndReason reason, const RequestTimes&) {
  if (reason == EndReason::kAborted) return;
  RequestOutcome& out = outcome(id);
  out.ended = true;
  out.end_ns = out.last_token_ns;
  ++config_.ledger->finished;
  finished_.push_back(static_cast<size_t>(id) - 1);
}

void SimInstance::on_step(const StepPlan&, const StepRecord& record) {
  if (config_.steps == nullptr || !log_status_.is_ok()) return;
  log_status_ = config_.steps->append(record);
}

}  // namespace vllm
