// Whether a recording and a simulation belong together.

#include <algorithm>
#include <cmath>

#include "bench/validate/comparison.h"

namespace vllm {
namespace {

// Arrivals that differ by more were not those of the same replay.
constexpr double kArrivalTolerance_s = 1.0;

void add(Comparison& out, std::string name, CheckResult result, std::string text) {
  if (result == CheckResult::kBad) out.refusals.push_back(text);
  out.checks.push_back({std::move(name), result, std::move(text)});
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string file_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// That a further recording is equal, too, is not worth a line.
void check_requests(const RealRun& run, const SimRun& sim, bool first, Comparison& out) {
  if (run.requests.size() != sim.requests.size()) {
    add(out, "Requests", CheckResult::kBad,
        fmt::format("{} has {} requests, {} has {}", run.dir, run.requests.size(), sim.csv_path,
                    sim.requests.size()));
  } else if (first) {
    add(out, "Requests", CheckResult::kGood, fmt::format("{} on both sides", run.requests.size()));
  }
  if (run.input_toks != sim.input_toks || run.output_toks != sim.output_toks) {
    add(out, "Tokens", CheckResult::kBad,
        fmt::format("{} has {} input and {} output tokens, {} has {} and {}: not the same workload", run.dir,
                    run.input_toks, run.output_toks, sim.csv_path, sim.input_toks, sim.output_toks));
  } else if (first) {
    add(out, "Tokens", CheckResult::kGood,
        fmt::format("{} in and {} out on both sides", run.input_toks, run.output_toks));
  }
}

std::vector<int64_t> block_counts(const RealRun& run) {
  std::vector<int64_t> out;
  for (const EngineCapacity& engine : run.capacity.engines) out.push_back(engine.num_blocks);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<int64_t> block_counts(const SimRun& sim) {
  std::vector<int64_t> out;
  for (const SimLogPool& pool : sim.log.pools) out.push_back(pool.blocks);
  std::sort(out.begin(), out.end());
  return out;
}

// Empty when the pools are equal.
std::string pool_difference(const RealRun& run, const SimRun& sim) {
  const auto real = block_counts(run), simulated = block_counts(sim);
  if (real != simulated) {
    return fmt::format(
        "{} had {} KV blocks, the simulator {}: simulate with the recorded pool (vllm-sim --match-capacity)",
        run.dir, fmt::join(real, " and "), fmt::join(simulated, " and "));
  }
  const int size = run.capacity.engines[0].block_size;
  if (sim.block_size == 0 || sim.block_size == size) return {};
  return fmt::format("{} had KV blocks of {} tokens, the simulator of {}", run.dir, size, sim.block_size);
}

// Recordings of one machine can differ by a few blocks between two starts; it is enough that the simulator
// has the pool of one of them.
void check_pool(const std::vector<RealRun>& real, const SimRun& sim, Comparison& out) {
  if (sim.log.pools.empty()) {
    add(out, "KV blocks", CheckResult::kUnknown,
        fmt::format("{} does not say the simulator's", sim.log_path));
    return;
  }
  std::vector<std::string> differences;
  int64_t known = 0, equal = 0;
  for (const RealRun& run : real) {
    if (run.capacity.engines.empty()) continue;
    ++known;
    const std::string difference = pool_difference(run, sim);
    if (difference.empty()) {
      ++equal;
    } else {
      differences.push_back(difference);
    }
  }
  if (known == 0) {
    add(out, "KV blocks", CheckResult::kUnknown,
        fmt::format("{}: {}", real[0].dir, real[0].capacity.unknown));
  } else if (equal == 0) {
    add(out, "KV blocks", CheckResult::kBad, differences[0]);
  } else if (differences.empty()) {
    add(out, "KV blocks", CheckResult::kGood,
        fmt::format("{} of {} tokens on both sides", fmt::join(block_counts(sim), " and "), sim.block_size));
  } else {
    add(out, "KV blocks", CheckResult::kDiffers, fmt::format("{}", fmt::join(differences, "; ")));
    out.notes.insert(out.notes.end(), differences.begin(), differences.end());
  }
}

void check_dataset(const std::vector<RealRun>& real, const SimRun& sim, Comparison& out) {
  std::string first, first_dir;
  for (const RealRun& run : real) {
    if (run.dataset_hash.empty()) continue;
    if (first.empty()) {
      first = lower(run.dataset_hash);
      first_dir = run.dir;
    } else if (lower(run.dataset_hash) != first) {
      add(out, "Dataset", CheckResult::kBad,
          fmt::format("{} replayed a dataset with SHA-256 {}, {} one with {}", first_dir, first, run.dir,
                      run.dataset_hash));
      return;
    }
  }
  if (first.empty()) {
    add(out, "Dataset", CheckResult::kUnknown, "the recording does not say its dataset's hash");
  } else if (sim.dataset_hash.empty()) {
    add(out, "Dataset", CheckResult::kUnknown,
        sim.dataset_path.empty()
            ? std::string("the simulator's log names no dataset")
            : fmt::format("the simulator's dataset {} is not there to be hashed", sim.dataset_path));
  } else if (lower(sim.dataset_hash) != first) {
    add(out, "Dataset", CheckResult::kBad,
        fmt::format("{} replayed a dataset with SHA-256 {}, the simulator's {} has {}", first_dir, first,
                    sim.dataset_path, sim.dataset_hash));
  } else {
    add(out, "Dataset", CheckResult::kGood, fmt::format("SHA-256 {} on both sides", first));
  }
}

// Arrivals, each counted from the first of its side.
void check_arrivals(const RealRun& run, const SimRun& sim, Comparison& out) {
  if (!sim.has_times) return;
  std::optional<double> real_first;
  for (const RealRequest& r : run.requests) {
    if (r.arrival_s) real_first = real_first ? std::min(*real_first, *r.arrival_s) : *r.arrival_s;
  }
  double sim_first = sim.requests[0].arrival_s;
  for (const SimRequest& r : sim.requests) sim_first = std::min(sim_first, r.arrival_s);
  double most = 0;
  int64_t pairs = 0;
  for (const RealRequest& r : run.requests) {
    const auto it = std::lower_bound(sim.requests.begin(), sim.requests.end(), r.row,
                                     [](const SimRequest& s, int64_t id) { return s.id < id; });
    if (!r.arrival_s || it == sim.requests.end() || it->id != r.row) continue;
    ++pairs;
    most = std::max(most, std::abs((*r.arrival_s - *real_first) - (it->arrival_s - sim_first)));
  }
  if (pairs == 0) return;
  const bool near = most <= kArrivalTolerance_s;
  const std::string text = fmt::format("arrivals of the same request differ by up to {:.3f} s", most);
  add(out, "Arrivals", near ? CheckResult::kGood : CheckResult::kDiffers, text);
  if (!near) {
    out.notes.push_back(fmt::format("{}: {}: the two sides did not replay the same arrivals (another speed?)",
                                    run.dir, text));
  }
}

// "ENABLED", "True", "true" and "on" are one value, as are "false" and "DISABLED".
std::string one_wording(const std::string& value) {
  const std::string text = lower(value);
  if (text == "enabled" || text == "true" || text == "on" || text == "yes") return "on";
  if (text == "disabled" || text == "false" || text == "off" || text == "no") return "off";
  return value;
}

void align(Comparison& out, std::string name, const std::string& real, const std::string& sim) {
  AlignedSetting setting{std::move(name), one_wording(real), one_wording(sim), CheckResult::kUnknown};
  if (setting.real.empty() && setting.sim.empty()) return;
  if (!setting.real.empty() && !setting.sim.empty()) {
    setting.result = setting.real == setting.sim ? CheckResult::kGood : CheckResult::kDiffers;
  }
  out.settings.push_back(std::move(setting));
}

void align_settings(const RealRun& run, const SimRun& sim, Comparison& out) {
  const auto logged = [&](const char* label) {
    const std::string* value = sim.log.setting(label);
    return value != nullptr ? *value : std::string();
  };
  const auto scheduler = [&](const std::string& key, const std::string& config, const std::string& ours) {
    return run.setting({"scheduler." + key, "resolved_config." + config + "." + key, "engine_kwargs." + key,
                        "kv_cache." + key, "resolved_config.Scheduler." + ours});
  };
  align(out, "Model", run.model, sim.model);
  align(out, "Dataset", file_name(run.dataset_path), file_name(sim.dataset_path));
  align(out, "Requests at once, at most", scheduler("max_num_seqs", "scheduler_config", "max-num-seqs"),
        logged("Max num seqs"));
  align(out, "Tokens a step, at most",
        scheduler("max_num_batched_tokens", "scheduler_config", "max-num-batched-tokens"),
        logged("Max batched tokens"));
  align(out, "KV blocks", fmt::format("{}", fmt::join(block_counts(run), " and ")),
        fmt::format("{}", fmt::join(block_counts(sim), " and ")));
  align(out, "Tokens a KV block",
        run.capacity.engines.empty()
            ? run.setting({"kv_cache.block_size", "block_size", "engine_kwargs.block_size"})
            : std::to_string(run.capacity.engines[0].block_size),
        sim.block_size > 0 ? std::to_string(sim.block_size) : "");
  align(out, "Prefix caching", scheduler("enable_prefix_caching", "cache_config", "enable-prefix-caching"),
        logged("Prefix caching"));
  align(out, "Chunked prefill",
        scheduler("enable_chunked_prefill", "scheduler_config", "enable-chunked-prefill"),
        logged("Chunked prefill"));
  std::string depth = run.setting({"scheduler.scheduling_depth"});
  if (depth.empty()) {
    const std::string async = one_wording(
        run.setting({"scheduler.async_scheduling", "resolved_config.scheduler_config.async_scheduling"}));
    depth = async == "on" ? "2" : async == "off" ? "1" : "";
  }
  align(out, "Scheduling depth", depth, logged("Scheduling depth"));
  align(out, "Data type", run.setting({"engine_kwargs.dtype"}), logged("Data type"));
  align(out, "KV cache data type", run.setting({"kv_cache.kv_cache_dtype", "engine_kwargs.kv_cache_dtype"}),
        logged("KV cache data type"));
  for (const AlignedSetting& s : out.settings) {
    const bool decides = s.name != "Model" && s.name != "Dataset" && s.name != "KV blocks";
    if (s.result == CheckResult::kDiffers && decides) {
      out.notes.push_back(
          fmt::format("the settings differ: {}: {} recorded, {} simulated", s.name, s.real, s.sim));
    }
  }
}

}  // namespace

void check_comparable(const std::vector<RealRun>& real, const SimRun& sim, Comparison& out) {
  for (const RealRun& run : real) {
    out.refusals.insert(out.refusals.end(), run.refusals.begin(), run.refusals.end());
    out.notes.insert(out.notes.end(), run.notes.begin(), run.notes.end());
    for (const std::string& why : run.refusals) out.checks.push_back({"Recording", CheckResult::kBad, why});
  }
  for (const RealRun& run : real) check_requests(run, sim, &run == real.data(), out);
  check_pool(real, sim, out);
  check_dataset(real, sim, out);
  check_arrivals(real[0], sim, out);
  align_settings(real[0], sim, out);
  const int64_t unmatched = static_cast<int64_t>(real[0].requests.size()) - out.metrics[2].matched.count;
  if (unmatched > 0) {
    out.notes.push_back(fmt::format(
        "{} of {} requests have no partner of the same row and lengths and are in no matched error",
        unmatched, real[0].requests.size()));
  }
  if (!sim.log.has_results) {
    out.notes.push_back(fmt::format("{}: has no results at its end: the log may be cut off", sim.log_path));
  }
}

}  // namespace vllm
