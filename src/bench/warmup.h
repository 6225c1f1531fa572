#pragma once

// Requests before the measured ones: prompts of our own, each different, none from the dataset.

#include "base/clock.h"
#include "base/status.h"
#include "bench/replay_input.h"
#include "bench/system_under_test.h"

#include <atomic>
#include <cstdint>

namespace vllm {

struct WarmupPlan {
  int count = 0;
  int64_t prompt_tokens = 0;
  int32_t output_tokens = 0;
};

// Lengths near the dataset's: its median prompt and its median output up to 8 tokens; both within what fits.
WarmupPlan plan_warmup(const ReplayInput& input, int count);

// The prompts, a pure function of the seed; none equals a prompt of the dataset.
std::vector<std::vector<int32_t>> warmup_prompts(const WarmupPlan& plan, const ReplayInput& input,
                                                 int64_t vocab_size, int64_t seed);

// Issues all at once, waits for their ends, and resets the target. An error names the request that failed.
Status run_warmup(SystemUnderTest& target, Clock& clock, std::vector<std::vector<int32_t>> prompts,
                  int32_t output_tokens, const std::atomic<bool>& interrupted);

}  // namespace vllm
