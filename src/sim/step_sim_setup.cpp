#include "sim/step_sim_setup.h"

#include <cmath>

#include "base/file.h"
#include "formats/json.h"
#include "formats/recorded_graphs.h"
#include "formats/recording.h"
#include "sim/step_samples.h"

namespace vllm {
namespace {

SchedulerOptions scheduler_options(const ParsedOptions& parsed, const RecordedLimits& limits,
                                   const StepBundle& bundle) {
  SchedulerOptions options = parsed.options.scheduler;
  const auto take = [&parsed](const char* name, auto& field, const auto& recorded) {
    if (!parsed.set(name)) field = recorded;
  };
  take("max-num-seqs", options.max_num_seqs, limits.max_num_seqs);
  take("max-num-batched-tokens", options.max_num_batched_tokens, limits.max_num_batched_tokens);
  take("long-prefill-token-threshold", options.long_prefill_token_threshold,
       limits.long_prefill_token_threshold);
  take("enable-chunked-prefill", options.enable_chunked_prefill, limits.chunked_prefill);
  take("enable-prefix-caching", options.enable_prefix_caching, limits.prefix_caching);
  take("reserve-full-isl", options.reserve_full_isl, limits.reserve_full_isl);
  take("watermark", options.watermark, limits.watermark);
  take("scheduling-policy", options.policy,
       limits.priority_policy ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs);
  take("scheduling-depth", options.scheduling_depth,
       limits.scheduling_depth.value_or(bundle.scheduling_depth));
  return options;
}

std::string model_name(const Json& meta) {
  for (const char* place : {"engine_kwargs", "resolved_config"}) {
    const auto outer = meta.find(place);
    if (outer == meta.end() || !outer->is_object()) continue;
    const auto model = outer->find("model");
    if (model != outer->end() && model->is_string()) return model->get<std::string>();
  }
  const auto model = meta.find("model");
  return model != meta.end() && model->is_string() ? model->get<std::string>() : "model";
}

Status read_capacity(const ParsedOptions& parsed, StepSimSetup& setup) {
  const std::string& dir = parsed.options.sim.match_capacity;
  if (!is_directory(dir)) return bad_input("--match-capacity {}: there is no such folder", dir);
  const std::string path = join_path(dir, "meta.json");
  if (!file_exists(path)) {
    return bad_input("--match-capacity {}: it has no meta.json, so it is not a complete recording", dir);
  }
  VLLM_ASSIGN_OR_RETURN(const Json meta, read_json_file(path));
  VLLM_ASSIGN_OR_RETURN(const RecordedLimits limits, recorded_limits(meta, path));
  SchedulerConfig& scheduler = setup.config.scheduler;
  scheduler.num_blocks = limits.num_blocks;
  scheduler.block_size = limits.block_size;
  scheduler.max_model_len = limits.max_model_len;
  setup.kv_tokens = limits.kv_tokens();
  scheduler.options = scheduler_options(parsed, limits, setup.bundle);
  if (scheduler.options.scheduling_depth != setup.bundle.scheduling_depth) {
    setup.notes.push_back(fmt::format("The bundle was fitted at scheduling depth {}, simulated is depth {}",
                                      setup.bundle.scheduling_depth, scheduler.options.scheduling_depth));
  }
  VLLM_ASSIGN_OR_RETURN(const RecordedGraphs graphs,
                        recorded_graphs(meta, scheduler.options.max_num_seqs, path));
  setup.config.graphs = graphs.known ? StepGraphs{graphs.sizes, graphs.full_rows}
                                     : StepGraphs{setup.bundle.capture_sizes, setup.bundle.full_graph_rows};
  if (!setup.config.graphs.sizes.empty() && setup.bundle.graph.terms.empty()) {
    return bad_input(
        "--match-capacity {}: its engine ran graphs, the bundle was fitted on steps without any; fit one "
        "with "
        "recordings of such an engine",
        dir);
  }
  setup.model = model_name(meta);
  return Status::ok();
}

// Ids that occur in no other prompt, so that nothing hits the prefix cache.
std::vector<int32_t> make_up_prompt(int64_t row, int32_t length) {
  std::vector<int32_t> prompt;
  uint64_t state = static_cast<uint64_t>(row);
  for (int32_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>(splitmix64(state) >> 33));
  return prompt;
}

Status read_requests(const ParsedOptions& parsed, StepSimSetup& setup) {
  WorkloadReadOptions read;
  read.max_rows = parsed.options.sim.num_reqs;
  VLLM_ASSIGN_OR_RETURN(setup.workload, read_workload(parsed.options.sim.dataset, read));
  const Workload& workload = setup.workload;
  if (!workload.sessions.empty()) {
    return refused("{}:{}: sessions cannot be simulated with a step bundle yet; give a file of flat rows",
                   workload.path, workload.sessions.front().line);
  }
  int64_t made_up = 0;
  setup.made_up.resize(workload.requests.size());
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    const WorkloadRequest& row = workload.requests[i];
    if (row.input_toks < 1 || row.output_toks < 1) {
      return bad_input("{}:{}: {} input and {} output tokens; at least 1 of each is needed", workload.path,
                       row.line, row.input_toks, row.output_toks);
    }
    StepRunRequest request;
    request.line = row.line;
    request.arrival_ns =
        static_cast<TimeNs>(static_cast<double>(row.arrival_ns) / parsed.options.step_sim.speed);
    request.output_toks = row.output_toks;
    request.prompt = row.input_tok_ids;
    if (row.input_tok_ids.empty()) {
      setup.made_up[i] = make_up_prompt(static_cast<int64_t>(i), row.input_toks);
      request.prompt = setup.made_up[i];
      ++made_up;
    }
    setup.requests.push_back(request);
  }
  if (made_up > 0) {
    setup.notes.push_back(
        fmt::format("{} rows have no token ids: none of them hits the prefix cache", made_up));
  }
  return Status::ok();
}

// A recording's own launches stand for the run that it is: the factors that make up for a recorder are not
// applied on top.
Status scale_host(const ParsedOptions& parsed, StepSimSetup& setup) {
  const std::string& dir = parsed.options.step_sim.host_scale_from;
  if (dir.empty()) return Status::ok();
  StepBundle& bundle = setup.bundle;
  const auto recording = read_step_recording(dir, true);
  if (!recording) return recording.status().with_context("--host-scale-from");
  const auto mean = mean_launch_ms(*recording, bundle);
  if (!mean) return mean.status().with_context("--host-scale-from");
  if (!(bundle.host.eager_launch_ms > 0) || !(*mean > 0)) {
    return refused("--host-scale-from {}: launches take no time, there is nothing to scale by", dir);
  }
  bundle.host_scale = *mean / bundle.host.eager_launch_ms;
  bundle.device_scale = 1;
  setup.notes.push_back(
      fmt::format("Host scaled by {:.4f}: launches of {:.3f} ms in {}, {:.3f} ms in the bundle",
                  bundle.host_scale, *mean, dir, bundle.host.eager_launch_ms));
  return Status::ok();
}

}  // namespace

Result<StepSimSetup> make_step_sim_setup(const ParsedOptions& parsed) {
  StepSimSetup setup;
  VLLM_ASSIGN_OR_RETURN(setup.bundle, read_step_bundle(parsed.options.step_sim.step_bundle));
  VLLM_RETURN_IF_ERROR(read_capacity(parsed, setup));
  VLLM_RETURN_IF_ERROR(read_requests(parsed, setup));
  VLLM_RETURN_IF_ERROR(scale_host(parsed, setup));
  setup.config.seed = static_cast<uint64_t>(parsed.options.runtime.seed);
  return setup;
}

}  // namespace vllm
