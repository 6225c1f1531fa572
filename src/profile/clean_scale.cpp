#include "profile/clean_scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/least_squares.h"
#include "sim/step_run.h"

namespace vllm {
namespace {

constexpr int kSeeds = 6, kRounds = 4;
constexpr double kStep = 0.03;  // of a factor's logarithm, for differences
// How far the means of one recording stray, and how far the factors are believed to be from 1.
constexpr double kTtftSd = 0.026, kTpotSd = 0.019, kLatencySd = 0.019;
constexpr double kHostSd = 0.15, kDeviceSd = 0.02;

using Means = std::array<double, 3>;  // TTFT, TPOT, latency

// A recording without its workload: prompts are made up, so that as many tokens of each hit the prefix cache
// as did.
struct MadeUpWorkload {
  std::vector<std::vector<int32_t>> prompts;
  std::vector<StepRunRequest> requests;  // the first fills the cache
  Means recorded{};
  std::string dir;
};

std::vector<int32_t> made_up_prompt(int64_t length, int64_t cached, int64_t index) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    const int64_t token = i < cached ? i : (int64_t{1} << 20) + index * 131 + i * 7919;
    prompt[static_cast<size_t>(i)] = static_cast<int32_t>(token % INT32_MAX);
  }
  return prompt;
}

bool complete(const RequestRecord& r) {
  return r.arrival_time_s && r.queued_ts_s && r.first_token_ts_s && r.last_token_ts_s && r.input_toks > 0 &&
         r.output_toks > 0;
}

Result<MadeUpWorkload> make_up(const StepRecording& recording) {
  constexpr int64_t kMostTokens = int64_t{1} << 27;
  MadeUpWorkload made;
  made.dir = recording.dir;
  double first = std::numeric_limits<double>::infinity(), offset = first;
  int64_t most_cached = 0, tokens = 0, count = 0;
  for (const RequestRecord& r : recording.requests) {
    if (!complete(r)) continue;
    first = std::min(first, *r.arrival_time_s);
    offset = std::min(offset, *r.queued_ts_s - *r.arrival_time_s);
    most_cached = std::max(most_cached, r.cached_toks.value_or(0));
    tokens = r.input_toks > kMostTokens ? kMostTokens + 1 : std::min(kMostTokens + 1, tokens + r.input_toks);
    ++count;
  }
  if (count == 0) return bad_input("--clean {}: no request of it was answered", recording.dir);
  if (tokens > kMostTokens) {
    return refused("--clean {}: its prompts have more than {} tokens together", recording.dir, kMostTokens);
  }
  const auto bounded = [](int64_t tokens_of) {
    return static_cast<int32_t>(std::min<int64_t>(tokens_of, INT32_MAX));
  };
  made.prompts.reserve(recording.requests.size() + 1);
  made.prompts.push_back(made_up_prompt(most_cached + 1, most_cached, 0));
  made.requests.push_back({0, 0, made.prompts.back(), 1});
  constexpr TimeNs kBegin = 10 * kNsPerSecond;  // the first request is done by then
  double tpot_count = 0;
  for (const RequestRecord& r : recording.requests) {
    if (!complete(r)) continue;
    const int64_t cached = std::min(r.cached_toks.value_or(0), r.input_toks);
    made.prompts.push_back(made_up_prompt(r.input_toks, cached, static_cast<int64_t>(made.prompts.size())));
    const auto arrival = static_cast<TimeNs>(std::llround((*r.arrival_time_s - first) * 1e9));
    made.requests.push_back({static_cast<int64_t>(made.prompts.size()) - 1, kBegin + arrival,
                             made.prompts.back(), bounded(r.output_toks)});
    const double arrived = *r.arrival_time_s + offset;
    made.recorded[0] += (*r.first_token_ts_s - arrived) * 1e3;
    made.recorded[2] += (*r.last_token_ts_s - arrived) * 1e3;
    if (r.output_toks < 2) continue;
    made.recorded[1] +=
        (*r.last_token_ts_s - *r.first_token_ts_s) * 1e3 / static_cast<double>(r.output_toks - 1);
    ++tpot_count;
  }
  made.recorded[0] /= static_cast<double>(count);
  made.recorded[1] /= std::max(1.0, tpot_count);
  made.recorded[2] /= static_cast<double>(count);
  return made;
}

StepRunConfig config_of(const StepRecording& recording, const StepBundle& bundle) {
  StepRunConfig config;
  const RecordedLimits& limits = recording.limits;
  config.scheduler.num_blocks = limits.num_blocks;
  config.scheduler.block_size = limits.block_size;
  config.scheduler.max_model_len = limits.max_model_len;
  SchedulerOptions& options = config.scheduler.options;
  options.max_num_seqs = limits.max_num_seqs;
  options.max_num_batched_tokens = limits.max_num_batched_tokens;
  options.long_prefill_token_threshold = limits.long_prefill_token_threshold;
  options.enable_chunked_prefill = limits.chunked_prefill;
  options.enable_prefix_caching = limits.prefix_caching;
  options.reserve_full_isl = limits.reserve_full_isl;
  options.watermark = limits.watermark;
  options.scheduling_depth = limits.scheduling_depth.value_or(bundle.scheduling_depth);
  config.graphs =
      recording.graphs_known ? recording.graphs : StepGraphs{bundle.capture_sizes, bundle.full_graph_rows};
  return config;
}

Result<Means> simulated_means(const StepBundle& bundle, StepRunConfig config,
                              const MadeUpWorkload& workload) {
  Means sum{};
  for (int seed = 0; seed < kSeeds; ++seed) {
    config.seed = static_cast<uint64_t>(seed);
    auto run = run_steps(bundle, config, workload.requests);
    if (!run) return run.status().with_context("--clean " + workload.dir);
    std::erase(run->finished, size_t{0});
    const RunStatistics statistics = run_statistics(*run, workload.requests, false);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += statistics[5 * i] / kSeeds;
  }
  return sum;
}

struct Group {
  CleanGroup told;
  StepRunConfig config;
  MadeUpWorkload workload;  // the first recording's
  Means recorded{};
};

// Repeats: the same requests at about the same times.
bool same_workload(const MadeUpWorkload& a, const MadeUpWorkload& b) {
  if (a.requests.size() != b.requests.size()) return false;
  for (size_t i = 0; i < a.requests.size(); ++i) {
    if (a.requests[i].prompt.size() != b.requests[i].prompt.size() ||
        a.requests[i].output_toks != b.requests[i].output_toks ||
        std::abs(a.requests[i].arrival_ns - b.requests[i].arrival_ns) > 500 * kNsPerMs) {
      return false;
    }
  }
  return true;
}

// The pool differs a little from one start of an engine to the next.
bool similar(int64_t a, int64_t b) {
  return std::abs(static_cast<double>(a - b)) <= 0.05 * static_cast<double>(std::max(a, b));
}

Result<std::vector<Group>> group_recordings(const std::vector<StepRecording>& recordings,
                                            const StepBundle& bundle) {
  std::vector<Group> groups;
  for (const StepRecording& recording : recordings) {
    VLLM_ASSIGN_OR_RETURN(MadeUpWorkload workload, make_up(recording));
    const StepRunConfig config = config_of(recording, bundle);
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      const SchedulerOptions &a = g.config.scheduler.options, &b = config.scheduler.options;
      return same_workload(g.workload, workload) && a.max_num_seqs == b.max_num_seqs &&
             a.max_num_batched_tokens == b.max_num_batched_tokens &&
             similar(g.config.scheduler.num_blocks, config.scheduler.num_blocks);
    });
    if (same != groups.end()) {
      same->told.dirs.push_back(recording.dir);
      for (size_t i = 0; i < 3; ++i) same->recorded[i] += workload.recorded[i];
      continue;
    }
    Group group{{}, config, std::move(workload), {}};
    group.told.dirs = {recording.dir};
    group.recorded = group.workload.recorded;
    groups.push_back(std::move(group));
  }
  for (Group& group : groups) {
    for (double& mean : group.recorded) mean /= static_cast<double>(group.told.dirs.size());
  }
  return groups;
}

// ln(simulated / recorded) of each group and mean.
Result<std::vector<double>> errors_of(const std::vector<Group>& groups, const StepBundle& bundle, double host,
                                      double device) {
  StepBundle scaled = bundle;
  scaled.host_scale *= std::exp(host);
  scaled.device_scale *= std::exp(device);
  std::vector<double> errors;
  for (const Group& group : groups) {
    VLLM_ASSIGN_OR_RETURN(const Means means, simulated_means(scaled, group.config, group.workload));
    for (size_t i = 0; i < 3; ++i) {
      const bool known = means[i] > 0 && group.recorded[i] > 0;
      errors.push_back(known ? std::log(means[i] / group.recorded[i]) : 0);
    }
  }
  return errors;
}

}  // namespace

Result<std::vector<CleanGroup>> scale_to_clean(const std::vector<StepRecording>& recordings,
                                               StepBundle& bundle) {
  VLLM_ASSIGN_OR_RETURN(std::vector<Group> groups, group_recordings(recordings, bundle));
  double host = 0, device = 0;
  for (int round = 0; round < kRounds; ++round) {
    VLLM_ASSIGN_OR_RETURN(const auto at, errors_of(groups, bundle, host, device));
    VLLM_ASSIGN_OR_RETURN(const auto more_host, errors_of(groups, bundle, host + kStep, device));
    VLLM_ASSIGN_OR_RETURN(const auto more_device, errors_of(groups, bundle, host, device + kStep));
    DesignMatrix x;
    x.columns = 2;
    std::vector<double> y;
    for (size_t i = 0; i < at.size(); ++i) {
      const double sd = std::array{kTtftSd, kTpotSd, kLatencySd}[i % 3] /
                        std::sqrt(static_cast<double>(groups[i / 3].told.dirs.size()));
      const double row[] = {(more_host[i] - at[i]) / kStep / sd, (more_device[i] - at[i]) / kStep / sd};
      x.add_row(row);
      y.push_back(-at[i] / sd);
    }
    // What is believed beforehand.
    const double host_row[] = {1 / kHostSd, 0}, device_row[] = {0, 1 / kDeviceSd};
    x.add_row(host_row);
    y.push_back(-host / kHostSd);
    x.add_row(device_row);
    y.push_back(-device / kDeviceSd);
    const auto step = least_squares(x, y, {});
    if (!step) break;
    host += std::clamp((*step)[0], -0.2, 0.2);
    device += std::clamp((*step)[1], -0.1, 0.1);
  }
  bundle.host_scale *= std::exp(host);
  bundle.device_scale *= std::exp(device);
  std::vector<CleanGroup> told;
  for (Group& group : groups) {
    VLLM_ASSIGN_OR_RETURN(const Means means, simulated_means(bundle, group.config, group.workload));
    group.told.ttft_ms = group.recorded[0];
    group.told.tpot_ms = group.recorded[1];
    group.told.latency_ms = group.recorded[2];
    group.told.sim_ttft_ms = means[0];
    group.told.sim_tpot_ms = means[1];
    group.told.sim_latency_ms = means[2];
    told.push_back(std::move(group.told));
    for (const std::string& dir : told.back().dirs) bundle.sources.push_back(dir);
  }
  return told;
}

std::string clean_groups_text(const std::vector<CleanGroup>& groups) {
  std::string text = fmt::format("\n{:<34} {:>10} {:>10} {:>8}\n", "clean recordings, mean in ms", "recorded",
                                 "simulated", "diff");
  for (const CleanGroup& group : groups) {
    text += fmt::format("{}{}\n", group.dirs.front(),
                        group.dirs.size() > 1 ? fmt::format(" and {} repeats", group.dirs.size() - 1) : "");
    const auto line = [&text](const char* name, double recorded, double simulated) {
      text += fmt::format("  {:<32} {:>10.2f} {:>10.2f} {:>+7.1f}%\n", name, recorded, simulated,
                          (simulated / recorded - 1) * 100);
    };
    line("TTFT", group.ttft_ms, group.sim_ttft_ms);
    line("TPOT", group.tpot_ms, group.sim_tpot_ms);
    line("latency", group.latency_ms, group.sim_latency_ms);
  }
  return text;
}

}  // namespace vllm
