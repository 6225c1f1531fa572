#include "bench/schedule_comparison.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "sched/scheduler.h"

namespace vllm {
namespace {

// Stands for the token that ended a request early. All other outputs are unique, so that no output equals a
// token of a prompt: what requests generated is not in a recording.
constexpr int32_t kStopToken = INT32_MIN;

SchedulerConfig scheduler_config(const RecordedRun& run, int depth) {
  const RecordedLimits& limits = run.limits;
  SchedulerConfig config;
  config.num_blocks = limits.num_blocks;
  config.block_size = limits.block_size;
  config.max_model_len = limits.max_model_len;
  config.groups = run.groups;
  SchedulerOptions& o = config.options;
  o.max_num_seqs = limits.max_num_seqs;
  o.max_num_batched_tokens = limits.max_num_batched_tokens;
  o.long_prefill_token_threshold = limits.long_prefill_token_threshold;
  o.enable_chunked_prefill = limits.chunked_prefill;
  o.enable_prefix_caching = limits.prefix_caching;
  o.policy = limits.priority_policy ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
  o.reserve_full_isl = limits.reserve_full_isl;
  o.watermark = limits.watermark;
  o.scheduling_depth = depth;
  return config;
}

// Long lists are cut: a reader needs the first numbers, not two thousand.
std::string row_list(std::vector<int64_t> rows) {
  constexpr size_t kShown = 8;
  const size_t more = rows.size() > kShown ? rows.size() - kShown : 0;
  rows.resize(rows.size() - more);
  std::string text = fmt::format("[{}", fmt::join(rows, ", "));
  if (more > 0) text += fmt::format(", and {} more", more);
  return text + "]";
}

// Plays the recording into a scheduler.
class Replay {
 public:
  Replay(const RecordedRun& run, int depth, int max_deviating_steps)
      : run_(run),
        depth_(depth),
        max_deviating_steps_(max_deviating_steps),
        scheduler_(scheduler_config(run, depth)) {
    result_.depth = depth;
  }

  Result<ScheduleComparison> compare() {
    for (const RecordedRequest& request : run_.requests) {
      by_row_.emplace(request.index, &request);
      if (request.aborted_ns) aborts_.emplace(*request.aborted_ns, request.index);
    }
    for (size_t k = 0; k < run_.steps.size(); ++k) {
      VLLM_RETURN_IF_ERROR(advance(k));
      VLLM_RETURN_IF_ERROR(take_arrivals(run_.steps[k].t_sched_ns));
      auto plan = std::make_unique<StepPlan>();
      scheduler_.schedule(*plan);
      note_cached(*plan);
      compare_step(k, *plan);
      in_flight_.emplace_back(k, std::move(plan));
    }
    result_.steps = static_cast<int64_t>(run_.steps.size());
    result_.preemptions_planned = scheduler_.stats().preemptions;
    return result_;
  }

 private:
  // Outputs and aborts that came before step k was planned, by time. At most `depth` steps are in flight with
  // step k, whatever the stamps say: that is what the depth means.
  Status advance(size_t k) {
    const TimeNs now = run_.steps[k].t_sched_ns;
    for (;;) {
      const bool abort_due = !aborts_.empty() && aborts_.begin()->first <= now;
      bool output_due = false;
      if (!in_flight_.empty()) {
        const size_t j = in_flight_.front().first;
        const TimeNs t_out = run_.steps[j].t_out_ns;
        const bool must = j + static_cast<size_t>(depth_) <= k;
        // The scheduler's tables are cut for `depth` steps in flight; a log cannot ask for more.
        if (must && t_out <= 0 && !run_.steps[j].entries.empty()) {
          return bad_input(
              "{}: step {} of the step log has no t_out, but step {} was planned after it; at depth {} only "
              "the "
              "last {} may be without one",
              run_.dir, run_.steps[j].step, run_.steps[k].step, depth_,
              depth_ == 1 ? "step" : fmt::format("{} steps", depth_));
        }
        output_due = must || (t_out > 0 && t_out < now);
        if (output_due && abort_due && aborts_.begin()->first < t_out) output_due = false;
      }
      if (output_due) {
        process(*in_flight_.front().second);
        in_flight_.pop_front();
      } else if (abort_due) {
        // It may have arrived since the last plan.
        VLLM_RETURN_IF_ERROR(take_arrivals(aborts_.begin()->first));
        scheduler_.abort(static_cast<RequestId>(aborts_.begin()->second));
        aborts_.erase(aborts_.begin());
      } else {
        return Status::ok();
      }
    }
  }

  Status take_arrivals(TimeNs now) {
    for (; next_arrival_ < run_.requests.size(); ++next_arrival_) {
      const RecordedRequest& request = run_.requests[next_arrival_];
      if (request.queued_ns > now) break;
      const WorkloadRequest& row = run_.workload.requests[static_cast<size_t>(request.index)];
      RequestInput input;
      input.id = static_cast<RequestId>(request.index);
      input.prompt = row.input_tok_ids;
      input.max_tokens = row.output_toks;
      input.arrival_ns = request.arrival_ns;
      if (request.stopped_early) input.stop_token_ids = {&kStopToken, 1};
      const Status added = scheduler_.add(input);
      if (!added.is_ok()) {
        return added.with_context(
            fmt::format("{}: row {} (line {} of {})", run_.dir, request.index, row.line, run_.workload.path));
      }
    }
    return Status::ok();
  }

  void process(const StepPlan& plan) {
    tokens_.clear();
    for (const StepEntry& entry : plan.entries) {
      const auto state = scheduler_.state(entry.id);
      const RecordedRequest& request = *by_row_.at(static_cast<int64_t>(entry.id));
      const bool last = state && state->num_tokens - state->num_prompt + 1 == request.output_tokens;
      tokens_.push_back(request.stopped_early && last ? kStopToken : next_token_--);
    }
    outputs_.clear();
    scheduler_.process_outputs(plan, tokens_, outputs_);
  }

  void note_cached(const StepPlan& plan) {
    for (const StepEntry& entry : plan.entries) {
      const RecordedRequest& request = *by_row_.at(static_cast<int64_t>(entry.id));
      if (!entry.starts || !request.cached_tokens || !first_admissions_.insert(entry.id).second) continue;
      ++result_.cached_known;
      result_.cached_equal += *request.cached_tokens == entry.num_computed ? 1 : 0;
    }
  }

  void compare_step(size_t k, const StepPlan& plan) {
    const StepRecord& recorded = run_.steps[k];
    const size_t before = result_.first.size();
    bool equal = compare_entries(k, plan);
    equal &= compare_number(k, StepField::kTotal, plan.total_tokens, recorded.total_tokens);
    equal &= compare_number(k, StepField::kRunning, plan.running, recorded.running);
    equal &= compare_number(k, StepField::kWaiting, plan.waiting, recorded.waiting);
    equal &= compare_number(k, StepField::kFreeBlocks, plan.free_blocks, recorded.free_blocks);
    equal &= compare_preempted(k, plan);
    compare_computed(recorded, plan);
    result_.equal_steps += equal ? 1 : 0;
    deviating_steps_ += result_.first.size() > before ? 1 : 0;
  }

  bool count(size_t k, StepField field, bool equal, const auto& ours, const auto& theirs) {
    if (equal) {
      ++result_.equal[static_cast<size_t>(field)];
    } else if (deviating_steps_ < max_deviating_steps_) {
      result_.first.push_back({static_cast<int64_t>(k), field, ours(), theirs()});
    }
    return equal;
  }

  bool compare_number(size_t k, StepField field, int64_t ours, int64_t theirs) {
    return count(
        k, field, ours == theirs, [&] { return fmt::format("{}", ours); },
        [&] { return fmt::format("{}", theirs); });
  }

  bool compare_entries(size_t k, const StepPlan& plan) {
    const auto& entries = run_.steps[k].entries;
    const auto& rows = run_.entry_rows[k];
    const auto same = [&](size_t i) {
      return static_cast<int64_t>(plan.entries[i].id) == rows[i] &&
             plan.entries[i].num_tokens == entries[i].num_tokens;
    };
    size_t i = 0;
    const size_t common = std::min(plan.entries.size(), entries.size());
    while (i < common && same(i)) ++i;
    const bool equal = i == plan.entries.size() && i == entries.size();
    const auto ours = [&] {
      if (i == plan.entries.size()) return fmt::format("no entry {}, {} in all", i, plan.entries.size());
      return fmt::format("entry {} is row {} with {} tokens, {} in all", i, plan.entries[i].id,
                         plan.entries[i].num_tokens, plan.entries.size());
    };
    const auto theirs = [&] {
      if (i == entries.size()) return fmt::format("no entry {}, {} in all", i, entries.size());
      return fmt::format("entry {} is row {} with {} tokens, {} in all", i, rows[i], entries[i].num_tokens,
                         entries.size());
    };
    return count(k, StepField::kTokens, equal, ours, theirs);
  }

  // Recordings list the victims of a step in different orders.
  bool compare_preempted(size_t k, const StepPlan& plan) {
    std::vector<int64_t> ours(plan.preempted.begin(), plan.preempted.end());
    std::vector<int64_t> theirs = run_.preempted_rows[k];
    result_.preemptions_recorded += static_cast<int64_t>(theirs.size());
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    return count(
        k, StepField::kPreempted, ours == theirs, [&] { return row_list(ours); },
        [&] { return row_list(theirs); });
  }

  void compare_computed(const StepRecord& recorded, const StepPlan& plan) {
    const auto says = [](const StepRecord::Entry& entry) { return entry.num_computed >= 0; };
    if (recorded.entries.empty() || !std::all_of(recorded.entries.begin(), recorded.entries.end(), says))
      return;
    ++result_.computed_known;
    result_.computed_equal += std::equal(
        recorded.entries.begin(), recorded.entries.end(), plan.entries.begin(), plan.entries.end(),
        [](const StepRecord::Entry& a, const StepEntry& b) { return a.num_computed == b.num_computed; });
  }

  const RecordedRun& run_;
  const int depth_;
  const int max_deviating_steps_;
  Scheduler scheduler_;
  ScheduleComparison result_;
  int deviating_steps_ = 0;
  std::map<int64_t, const RecordedRequest*> by_row_;
  std::multimap<TimeNs, int64_t> aborts_;
  std::set<RequestId> first_admissions_;
  size_t next_arrival_ = 0;
  std::deque<std::pair<size_t, std::unique_ptr<StepPlan>>> in_flight_;
  std::vector<int32_t> tokens_;
  std::vector<RequestOutput> outputs_;
  int32_t next_token_ = -2;
};

std::string fraction_line(const std::string& name, int64_t equal, int64_t all) {
  // Rounded down: 100 % is said only when all are equal.
  const double share = all == 0 ? 100.0 : static_cast<double>(equal * 100'000 / all) / 1000.0;
  return fmt::format("{:<20} {:>9} {:>9} {:>10.3f} %\n", name, equal, all, share);
}

std::string deviation_lines(const ScheduleComparison& c) {
  if (c.equal_steps == c.steps) return {};
  std::string text = fmt::format("\n{} steps differ. ", c.steps - c.equal_steps);
  if (c.first.empty()) return text + "--max-deviations shows the first of them.\n";
  text +=
      "The first of them (what follows the first one may be its consequence; requests are rows of the "
      "workload, from 0):\n";
  int64_t step = -1;
  for (const StepDeviation& d : c.first) {
    if (d.step != step) text += fmt::format("  step {}\n", d.step);
    step = d.step;
    text += fmt::format("    {:<17} ours      {}\n    {:<17} recorded  {}\n", step_field_name(d.field),
                        d.ours, "", d.recorded);
  }
  return text;
}

}  // namespace

const char* step_field_name(StepField field) {
  switch (field) {
    case StepField::kTokens:
      return "tokens and order";
    case StepField::kTotal:
      return "total";
    case StepField::kRunning:
      return "running";
    case StepField::kWaiting:
      return "waiting";
    case StepField::kFreeBlocks:
      return "free blocks";
    case StepField::kPreempted:
      return "preempted";
  }
  return "";
}

Result<ScheduleComparison> compare_schedule(const RecordedRun& run, int depth, int max_deviating_steps) {
  return Replay(run, depth, max_deviating_steps).compare();
}

std::string comparison_text(const RecordedRun& run, const ScheduleComparison& c) {
  std::string text =
      fmt::format("{}: {} requests, {} steps, {} preemptions recorded and {} planned\n", run.dir,
                  run.requests.size(), c.steps, c.preemptions_recorded, c.preemptions_planned);
  text += fmt::format(
      "{} blocks of {} tokens, max_model_len {}, max_num_seqs {}, max_num_batched_tokens {}, "
      "depth {}\n\n",
      run.limits.num_blocks, run.limits.block_size, run.limits.max_model_len, run.limits.max_num_seqs,
      run.limits.max_num_batched_tokens, c.depth);
  text += fmt::format("{:<20} {:>9} {:>9} {:>12}\n", "field", "equal", "of", "share");
  for (size_t f = 0; f < kNumStepFields; ++f) {
    text += fraction_line(step_field_name(static_cast<StepField>(f)), c.equal[f], c.steps);
  }
  text += fraction_line("all fields", c.equal_steps, c.steps);
  if (c.computed_known > 0) text += fraction_line("computed before", c.computed_equal, c.computed_known);
  if (c.cached_known > 0) {
    text += fmt::format("cached tokens equal {}/{} requests\n", c.cached_equal, c.cached_known);
  } else {
    text += "cached tokens: the recording does not say\n";
  }
  return text + deviation_lines(c);
}

}  // namespace vllm
