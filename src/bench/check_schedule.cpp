#include "bench/check_schedule.h"

#include <cstdio>

#include "bench/schedule_comparison.h"

namespace vllm {

Status check_schedule(const ParsedOptions& parsed) {
  const CheckScheduleOptions& options = parsed.options.check_schedule;
  VLLM_ASSIGN_OR_RETURN(const RecordedRun run, read_recorded_run(options.bench_dir, options.dataset));
  const int recorded_depth = run.limits.scheduling_depth.value_or(observed_depth(run.steps));
  VLLM_ASSIGN_OR_RETURN(
      const ScheduleComparison comparison,
      compare_schedule(run, options.scheduling_depth.value_or(recorded_depth), options.max_deviations));
  const std::string text = comparison_text(run, comparison);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return io_error("the comparison could not be written to standard output");
  }
  if (comparison.all_equal()) return Status::ok();
  if (comparison.equal_steps == comparison.steps) {
    return failed("{}: all steps are equal, but what was cached or computed before differs",
                  options.bench_dir);
  }
  return failed("{}: {} of {} steps differ from what our scheduler plans", options.bench_dir,
                comparison.steps - comparison.equal_steps, comparison.steps);
}

}  // namespace vllm
