#include "bench/meta.h"

#include <optional>
#include <utility>

#include "base/cpu_features.h"
#include "base/version.h"
#include "bench/environment.h"
#include "config/libraries.h"
#include "formats/json.h"

namespace vllm {
namespace {

constexpr int kSchemaVersion = 1;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string resolved_value(const ParsedOptions& parsed, const std::string& name) {
  for (const ResolvedOption& option : parsed.resolved) {
    if (option.name == name) return option.value;
  }
  return {};
}

const char* source_name(OptionSource source) {
  switch (source) {
    case OptionSource::kDefault:
      return "default";
    case OptionSource::kConfigFile:
      return "config file";
    case OptionSource::kCommandLine:
      return "command line";
  }
  return "default";
}

Json engine_kwargs(const ParsedOptions& parsed, const EngineFacts* engine) {
  const Options& o = parsed.options;
  Json out;
  out["model"] = o.model.model;
  out["tensor_parallel_size"] = o.parallel.tensor_parallel_size;
  out["data_parallel_size"] = o.parallel.data_parallel_size;
  out["enable_expert_parallel"] = o.parallel.enable_expert_parallel;
  out["disable_custom_all_reduce"] = o.parallel.disable_custom_all_reduce;
  out["max_num_seqs"] = o.scheduler.max_num_seqs;
  out["max_num_batched_tokens"] = o.scheduler.max_num_batched_tokens;
  out["max_model_len"] = or_null(o.model.max_model_len);
  // What "auto" became; a GGUF keeps its own types.
  const bool one_dtype = engine != nullptr && !o.model.dtype && engine->dtype != "as stored";
  out["dtype"] = one_dtype ? engine->dtype : resolved_value(parsed, "dtype");
  out["kv_cache_dtype"] = resolved_value(parsed, "kv-cache-dtype");
  out["kv_cache_memory_bytes"] = or_null(o.kv.kv_cache_memory_bytes);
  out["load_format"] = resolved_value(parsed, "load-format");
  out["skip_tokenizer_init"] = o.model.skip_tokenizer_init;
  out["enforce_eager"] = o.runtime.enforce_eager;
  out["seed"] = o.runtime.seed;
  out["num_blocks"] = or_null(o.kv.num_blocks);
  out["gpu_memory_utilization"] = or_null(o.kv.gpu_memory_utilization);
  out["block_size"] = o.kv.block_size;
  return out;
}

Json capacity(const RunFacts& facts) {
  Json out;
  out["schema_version"] = kSchemaVersion;
  if (facts.engine == nullptr) {
    out["status"] = "unknown";
    out["per_engine"] = nullptr;
    out["reason"] = "the target does not tell its capacity";
    return out;
  }
  const KvPlan& plan = facts.engine->plan;
  const ParallelOptions& parallel = facts.parsed->options.parallel;
  Json engine;
  engine["data_parallel_rank"] = 0;
  engine["num_gpu_blocks"] = plan.blocks;
  engine["block_size"] = plan.spec.block_size;
  engine["token_capacity"] = plan.tokens;
  engine["tensor_parallel_size"] = parallel.tensor_parallel_size;
  engine["pipeline_parallel_size"] = 1;
  engine["data_parallel_size"] = parallel.data_parallel_size;
  out["status"] = "complete";
  out["per_engine"] = Json::array({engine});
  out["reason"] = nullptr;
  return out;
}

Json kv_cache(const RunFacts& facts) {
  const Options& o = facts.parsed->options;
  Json out;
  if (facts.engine != nullptr) {
    const KvPlan& plan = facts.engine->plan;
    out["num_gpu_blocks"] = plan.blocks;
    out["num_cpu_blocks"] = nullptr;
    out["block_size"] = plan.spec.block_size;
    out["gpu_memory_utilization"] = or_null(o.kv.gpu_memory_utilization);
    out["enable_prefix_caching"] = o.scheduler.enable_prefix_caching;
    out["kv_cache_memory_bytes"] = or_null(o.kv.kv_cache_memory_bytes);
    // The product, null block included, as readers of this key know it; what can hold tokens is in
    // `capacity`.
    out["num_kv_tokens"] = plan.blocks * plan.spec.block_size;
    out["kv_cache_dtype"] = kv_dtype_name(plan.spec.dtype);
    out["pool_bytes"] = plan.pool_bytes;
  }
  out["capacity"] = capacity(facts);
  return out;
}

// The limits that decided the plans, with the names of the scheduler's options.
Json scheduler(const RunFacts& facts) {
  const SchedulerOptions& s = facts.parsed->options.scheduler;
  Json out;
  out["max_num_seqs"] = s.max_num_seqs;
  out["max_num_batched_tokens"] = s.max_num_batched_tokens;
  out["max_model_len"] = facts.engine != nullptr ? Json(facts.engine->plan.max_model_len) : Json(nullptr);
  out["long_prefill_token_threshold"] = s.long_prefill_token_threshold;
  out["enable_chunked_prefill"] = s.enable_chunked_prefill;
  out["enable_prefix_caching"] = s.enable_prefix_caching;
  out["policy"] = s.policy == SchedulingPolicy::kPriority ? "priority" : "fcfs";
  out["scheduler_reserve_full_isl"] = s.reserve_full_isl;
  out["watermark"] = s.watermark;
  out["scheduling_depth"] = s.scheduling_depth;
  out["async_scheduling"] = s.scheduling_depth > 1;
  return out;
}

Json resolved_config(const ParsedOptions& parsed) {
  Json out = Json::object();
  for (const ResolvedOption& option : parsed.resolved) {
    out[option.group][option.name] = Json{{"value", option.value}, {"source", source_name(option.source)}};
  }
  return out;
}

Json version_facts() {
  Json out;
  out["version"] = version_string();
  out["commit"] = version_commit();
  out["build_type"] = version_build_type();
  out["sanitizers"] = version_sanitizers();
  out["compiler"] = compiler_version();
  out["isa"] = isa_name(best_isa());
  Json libraries = Json::object();
  for (const auto& [name, version] : linked_libraries()) libraries[name] = version;
  out["libraries"] = libraries;
  return out;
}

Json engine_facts(const EngineFacts& engine) {
  Json out;
  out["architecture"] = engine.model.architecture;
  out["num_parameters"] = engine.model.num_parameters();
  out["vocab_size"] = engine.model.vocab_size;
  out["executor"] = engine.executor;
  out["isa"] = engine.isa;
  out["dtype"] = engine.dtype;
  out["threads"] = engine.threads;
  out["weights_bytes"] = engine.weights_bytes;
  out["weights_load_s"] = ns_to_s(engine.weights_load_ns);
  out["load_s"] = ns_to_s(engine.load_ns);
  return out;
}

Json execution(const RunFacts& facts) {
  if (facts.engine != nullptr) return execution_json(facts.engine->executor, facts.engine->threads);
  return Json{{"status", "unknown"}, {"reason", "the target does not tell how it executes steps"}};
}

Json memory_json(const RunOutcome& outcome) {
  Json out;
  out["process_peak_rss_bytes"] = outcome.process_peak_bytes;
  for (const MemoryUse& use : outcome.memory) {
    out[use.purpose] = Json{{"held_bytes", use.held_bytes}, {"peak_bytes", use.peak_bytes}};
  }
  return out;
}

Json replay_json(const RunFacts& facts) {
  const BenchRunOptions& b = facts.parsed->options.bench_run;
  Json out;
  out["speed"] = b.speed;
  out["warmup_requests"] = b.warmup;
  out["on_session"] = b.on_session == SessionPolicy::kReplay ? "replay" : "skip";
  out["sessions_skipped"] = facts.sessions_skipped;
  out["sessions_replayed"] = facts.sessions_replayed;
  out["issue_thread_priority"] = facts.issue_thread_priority;
  return out;
}

// Keys from `model` to the dataset, which all three files share.
void add_identity(const RunFacts& facts, Json& out) {
  out["model"] = facts.parsed->options.model.model;
  out["vllm_version"] = fmt::format("vllm-twin-{}", version_string());
}

void add_dataset(const RunFacts& facts, Json& out) {
  out["dataset_path"] = facts.dataset_path;
  out["dataset_hash"] = facts.dataset_sha256;
}

void add_results(const RunOutcome& outcome, Json& out) {
  const LoadSummary& summary = *outcome.summary;
  out["send_lag"] = send_lag_json(summary.send_lag);
  out["client_limited"] = summary.send_lag.client_limited;
  out["offered_request_rate"] = or_null(summary.send_lag.offered_rate);
  out["achieved_request_rate"] = or_null(summary.send_lag.achieved_rate);
  out["results"] = load_summary_json(summary);
  const CoreCounters& c = outcome.counters;
  Json counters;
  counters["steps"] = outcome.steps;
  counters["prompt_tokens"] = c.prompt_tokens;
  counters["prompt_tokens_computed"] = c.prompt_tokens_computed;
  counters["prompt_tokens_cached"] = c.prompt_tokens_cached;
  counters["generation_tokens"] = c.generation_tokens;
  counters["preemptions"] = c.preemptions;
  out["counters"] = counters;
}

}  // namespace

std::string diagnostic_reason(const Options& options) {
  std::string out;
  const auto add = [&out](const std::string& reason) { out += (out.empty() ? "" : "; ") + reason; };
  if (options.bench_run.null_executor) add("null executor: no model was computed");
  if (options.bench_run.speed != 1.0)
    add(fmt::format("paced: arrivals are those of --speed {}", options.bench_run.speed));
  if (options.bench_run.record_gate_stats) add("gate statistics were asked for");
  return out;
}

Json engine_start_json(const RunFacts& facts) {
  Json out;
  out["schema_version"] = kSchemaVersion;
  out["status"] = "engine_initialized";
  add_identity(facts, out);
  out["started_at"] = format_utc(facts.started_epoch_ns);
  add_dataset(facts, out);
  out["num_requests"] = facts.num_requests;
  out["engine_kwargs"] = engine_kwargs(*facts.parsed, facts.engine);
  out["kv_cache"] = kv_cache(facts);
  out["resolved_config"] = resolved_config(*facts.parsed);
  return out;
}

Json meta_json(const RunFacts& facts, const RunOutcome& outcome) {
  const Options& options = facts.parsed->options;
  Json out;
  out["schema_version"] = kSchemaVersion;
  add_identity(facts, out);
  out["engine_kwargs"] = engine_kwargs(*facts.parsed, facts.engine);
  add_dataset(facts, out);
  out["num_requests"] = outcome.summary != nullptr ? facts.num_requests : 0;
  out["started_at"] = format_utc(facts.started_epoch_ns);
  out["finished_at"] = format_utc(outcome.finished_epoch_ns);
  out["tick_seconds"] = options.bench_run.tick_seconds;
  out["kv_cache"] = kv_cache(facts);
  out["hardware"] = facts.hardware;
  out["resolved_config"] = resolved_config(*facts.parsed);
  out["execution"] = execution(facts);
  if (options.bench_run.resolve_only) out["resolve_only"] = true;
  const std::string diagnostic = diagnostic_reason(options);
  if (!diagnostic.empty()) out["diagnostic"] = diagnostic;

  out["target"] = facts.target;
  out["engine"] = "vllm-twin";
  out["engine_version"] = version_string();
  out["version"] = version_facts();
  if (facts.engine != nullptr) out["engine_facts"] = engine_facts(*facts.engine);
  out["scheduler"] = scheduler(facts);
  out["kv_plan"] = facts.engine != nullptr ? kv_plan_json(facts.engine->plan) : Json(nullptr);
  out["replay"] = replay_json(facts);
  if (outcome.summary != nullptr) add_results(outcome, out);
  out["memory"] = memory_json(outcome);
  out["load_average"] =
      Json{{"at_start", facts.load_average_at_start}, {"at_end", outcome.load_average_at_end}};
  return out;
}

Json aborted_json(const RunFacts& facts, const AbortFacts& abort) {
  Json out;
  out["schema_version"] = kSchemaVersion;
  out["status"] = "aborted";
  out["reason"] = abort.reason;
  add_identity(facts, out);
  out["started_at"] = format_utc(facts.started_epoch_ns);
  out["aborted_at"] = format_utc(abort.epoch_ns);
  add_dataset(facts, out);
  out["num_requests"] = facts.num_requests;
  out["num_issued"] = abort.num_issued;
  out["num_finished"] = abort.num_finished;
  out["diagnostic"] = "failed run: " + abort.reason;
  Json requests = Json::array();
  for (const std::string& line : abort.finished_requests) {
    // The lines are our own; one that does not parse would be a fault of ours and is kept as text.
    Result<Json> record = parse_json(line, "requests.jsonl");
    requests.push_back(record ? *std::move(record) : Json(line));
  }
  out["finished_requests"] = std::move(requests);
  return out;
}

}  // namespace vllm
