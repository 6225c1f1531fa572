#include "sim/sim_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/units.h"
#include "config/options.h"
#include "formats/json.h"
#include "metrics/latency.h"

namespace vllm {
namespace {

constexpr int kWidth = 80;
constexpr int kValueColumn = 68;  // characters before a result's value

std::string repeated(std::string_view piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

std::string rule() { return repeated("─", kWidth) + "\n"; }

// A title in the middle of a rule; of an odd rest the larger half stands behind.
std::string titled_rule(std::string_view title) {
  const int rest = kWidth - static_cast<int>(title.size()) - 2;
  return fmt::format("{} {} {}\n", repeated("─", rest / 2), title, repeated("─", rest - rest / 2));
}

std::string centred(std::string_view title) { return fmt::format("{:^{}}\n", title, kWidth); }

// Part of the log's format: tools that read it tell by these lines whose log it is.
constexpr const char* kReferenceSubtitle =
    "A Unified Simulator for Heterogeneous Hardware and Serving Techniques in LLM";
constexpr const char* kReferenceArt[] = {
    "      _    _    __  __ ___              _           ___ _       ___   __",
    "     | |  | |  |  \\/  / __| ___ _ ___ _(_)_ _  __ _/ __(_)_ __ |_  ) /  \\",
    "     | |__| |__| |\\/| \\__ \\/ -_) '_\\ V / | ' \\/ _` \\__ \\ | '  \\ / / | () |",
    "     |____|____|_|  |_|___/\\___|_|  \\_/|_|_||_\\__, |___/_|_|_|_/___(_)__/",
    "                                              |___/"};

std::string reference_banner() {
  std::string out = titled_rule("LLMServingSim2.0") + centred(kReferenceSubtitle) + rule();
  for (const char* line : kReferenceArt) out += fmt::format("{:<{}}\n", line, kWidth);
  return out + rule();
}

std::string bullet(std::string_view label, std::string_view value) {
  return fmt::format("  • {:<26} : {}\n", label, value);
}

const char* on_off(bool on) { return on ? "ENABLED" : "DISABLED"; }

std::string value_of(const ParsedOptions& parsed, const char* name) {
  for (const ResolvedOption& r : parsed.resolved) {
    if (r.name == name) return r.value;
  }
  return "";
}

std::string result_line(std::string_view label, std::string_view value, int column = kValueColumn) {
  return fmt::format("{:<{}}{}\n", label, column, value);
}

// Mean, median and 99th percentile in milliseconds. Selects in place of sorting: there are hundreds of
// thousands of inter-token times.
struct Three {
  double mean = std::nan(""), median = std::nan(""), p99 = std::nan("");
};

double interpolated(std::vector<int64_t>& values, double q) {
  const auto [below, part] = percentile_place(values.size(), q);
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), nth, values.end());
  const auto a = static_cast<double>(*nth);
  if (below + 1 >= values.size()) return a * 1e-6;
  const auto b = static_cast<double>(*std::min_element(nth + 1, values.end()));
  return (a + part * (b - a)) * 1e-6;
}

Three three_of(std::vector<int64_t>& values_ns) {
  Three out;
  if (values_ns.empty()) return out;
  double sum = 0;
  for (const int64_t v : values_ns) sum += static_cast<double>(v);
  out.mean = sum / static_cast<double>(values_ns.size()) * 1e-6;
  out.median = interpolated(values_ns, 50);
  out.p99 = interpolated(values_ns, 99);
  return out;
}

std::string metric_lines(std::string_view metric, std::string_view colon, const Three& t) {
  return result_line(fmt::format("Mean {} (ms){}", metric, colon), fmt::format("{:.2f}", t.mean)) +
         result_line(fmt::format("Median {} (ms){}", metric, colon), fmt::format("{:.2f}", t.median)) +
         result_line(fmt::format("P99 {} (ms){}", metric, colon), fmt::format("{:.2f}", t.p99));
}

std::string instance_results(InstanceResults& i) {
  std::string out = titled_rule(fmt::format("Instance [{}]", i.id));
  out += titled_rule("Time to First Token");
  out += metric_lines("TTFT", ":", three_of(i.ttft_ns));
  out += titled_rule("Time per Output Token (excl. 1st token)");
  out += metric_lines("TPOT", ":", three_of(i.tpot_ns));
  Three itl = three_of(i.itl_ns);
  if (i.itl_mean_ms) itl.mean = *i.itl_mean_ms;
  if (i.itl_median_ms) itl.median = *i.itl_median_ms;
  if (i.itl_p99_ms) itl.p99 = *i.itl_p99_ms;
  out += titled_rule("Inter-token Latency");
  out += metric_lines("ITL", " :", itl);
  return out + rule();
}

double per_second(double amount, int64_t ns) {
  return ns > 0 ? amount / (static_cast<double>(ns) * 1e-9) : 0.0;
}

double percent(double part, double whole) { return whole > 0 ? part / whole * 100.0 : 0.0; }

std::string throughput_list(const SimResults& r) {
  std::string list;
  for (const auto& [prompt, generation] : r.throughput) {
    list +=
        fmt::format("{}({}, {})", list.empty() ? "" : ", ", python_float(prompt), python_float(generation));
  }
  return fmt::format("Throughput per {:g} sec ([prompt_throughput], [gen_throughput]): [{}]\n",
                     r.log_interval_s, list);
}

std::string throughput_results(const SimResults& r) {
  const int64_t ns = r.total_clocks_ns;
  const double prompt = per_second(static_cast<double>(r.prompt_tokens), ns);
  const double generation = per_second(static_cast<double>(r.generated_tokens), ns);
  std::string out = titled_rule("Throughput Results");
  out += result_line("Total requests:", std::to_string(r.total_requests));
  out += result_line("Total clocks (ns):", std::to_string(ns));
  out += result_line("Total latency (s):", fmt::format("{:.3f}", static_cast<double>(ns) * 1e-9));
  out += result_line("Total input tokens:", std::to_string(r.input_tokens));
  if (r.preemptions > 0) out += result_line("Preemptions:", std::to_string(r.preemptions));
  if (r.recomputed_tokens > 0) {
    out += result_line("Recomputed prompt tokens (preemption):", std::to_string(r.recomputed_tokens),
                       kValueColumn + 1);
  }
  out += result_line("Total generated tokens:", std::to_string(r.generated_tokens));
  out += result_line("Request throughput (req/s):",
                     fmt::format("{:.2f}", per_second(static_cast<double>(r.total_requests), ns)));
  out += result_line("Average prompt throughput (tok/s):", fmt::format("{:.2f}", prompt));
  out += result_line("Average generation throughput (tok/s):", fmt::format("{:.2f}", generation));
  out += result_line("Total token throughput (tok/s):", fmt::format("{:.2f}", prompt + generation));
  return out + throughput_list(r) + rule();
}

std::string prefix_results(const SimResults& r) {
  const std::string ratio = fmt::format("{:.2f}", percent(static_cast<double>(r.hit_prompt_tokens),
                                                          static_cast<double>(r.requested_prompt_tokens)));
  return titled_rule("Prefix Caching Results") +
         result_line("Total requested prompt tokens:", std::to_string(r.requested_prompt_tokens)) +
         result_line("NPU prefix hit prompt tokens:", std::to_string(r.hit_prompt_tokens)) +
         result_line("NPU prefix hit ratio (%):", ratio) + result_line("Total prefix hit ratio (%):", ratio) +
         rule();
}

std::string wall_time(int64_t ns) {
  const int64_t ms = ns / kNsPerMs;
  return fmt::format("Total simulation time: {}h {}m {}.{:03}s\n", ms / 3'600'000, ms / 60'000 % 60,
                     ms / 1000 % 60, ms % 1000);
}

std::string heartbeat_instance(const HeartbeatInstance& i) {
  std::string out = fmt::format(
      "Running Instance[{}]: {} reqs, Waiting: {} reqs, Total # {} NPUs, Each NPU Memory Usage {:.2f} MB "
      "({:.3f} % Used)",
      i.id, i.running, i.waiting, i.npus, static_cast<double>(i.used_bytes) / static_cast<double>(kMiB),
      percent(static_cast<double>(i.used_bytes), static_cast<double>(i.total_bytes)));
  if (i.prefix_caching && i.requested_tokens > 0) {
    out += fmt::format(", Prefix Cache Hit ratio {:.2f} %, ({} / {})",
                       percent(static_cast<double>(i.hit_tokens), static_cast<double>(i.requested_tokens)),
                       i.hit_tokens, i.requested_tokens);
  }
  return out;
}

// The trailing space belongs to the format.
std::string heartbeat_node(const HeartbeatNode& n) {
  std::string out =
      fmt::format("Node[{}]: Total CPU Memory Usage {:.2f} MB, {:.3f} % Used ", n.id,
                  static_cast<double>(n.cpu_used_bytes) / static_cast<double>(kMiB),
                  percent(static_cast<double>(n.cpu_used_bytes), static_cast<double>(n.cpu_total_bytes)));
  if (n.instances.size() < 2) return out;
  std::string shares;
  for (const HeartbeatInstance& i : n.instances) {
    // No instance holds anything in CPU memory: there is no second tier.
    shares += fmt::format("{}Instance[{}]: {:.2f} %", shares.empty() ? "" : ", ", i.id, 0.0);
  }
  return out + fmt::format("({})", shares);
}

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return json_double(value);
}

std::string sim_log_header(const ParsedOptions& parsed, const std::string& run_id) {
  const Options& o = parsed.options;
  const bool compat = o.sim.mode == SimMode::kCompat;
  std::string out = compat ? reference_banner() : titled_rule("vllm-sim");
  out += centred("Input configuration") + "\n";
  out += bullet("Cluster config", cluster_config_path(o.sim));
  out += bullet("Run ID", run_id);
  if (compat || !o.sim.inputs_root.empty()) {
    out += bullet("ASTRA-Sim inputs root",
                  o.sim.inputs_root.empty() ? "astra-sim/inputs/runs/" + run_id : o.sim.inputs_root);
  }
  out += bullet("Dataset", o.sim.dataset.empty() ? "None" : o.sim.dataset);
  out += bullet("Max num seqs", std::to_string(o.scheduler.max_num_seqs));
  out += bullet("Max batched tokens", std::to_string(o.scheduler.max_num_batched_tokens));
  out += bullet("Block size (tokens)", std::to_string(o.kv.block_size));
  out += bullet("Request routing", value_of(parsed, "request-routing-policy"));
  out += bullet("Expert routing", value_of(parsed, "expert-routing-policy"));
  out += bullet("Prefix caching", on_off(o.scheduler.enable_prefix_caching));
  out += bullet("Chunked prefill", on_off(o.scheduler.enable_chunked_prefill));
  out += bullet("Prefix caching scheme", "xPU-Only");
  out += bullet("Centralized prefix caching", on_off(o.sim.enable_prefix_sharing));
  out += bullet("Offload attention to PIM", on_off(o.sim.enable_attn_offloading));
  out += bullet("Sub-batch interleaving", on_off(o.sim.enable_sub_batch_interleaving));
  out += bullet("Network backend", value_of(parsed, "network-backend"));
  out += bullet("Log interval (s)", python_float(o.sim.log_interval_s));
  out += bullet("Log level", value_of(parsed, "log-level"));
  if (!compat) {
    out += bullet("Mode", "native");
    out += bullet("Scheduling depth", std::to_string(o.scheduler.scheduling_depth));
    out += bullet("Host overhead (us)", python_float(o.sim.host_overhead_us));
    out += bullet("Pick-up delay (us)", python_float(o.sim.pickup_delay_us));
  }
  return out + rule();
}

std::string sim_log_start(const std::vector<KvInitLine>& lines, const std::vector<std::string>& notes) {
  std::string out = centred("KV Cache Initialization") + "\n";
  for (const KvInitLine& l : lines) {
    out += fmt::format("  • Instance [{}] : {} tokens / {} blocks ({:.2f} GiB/rank at util {:.2f})\n",
                       l.instance, l.tokens, l.blocks, l.gib_per_rank, l.util);
  }
  for (const std::string& note : notes) out += fmt::format("  • {}\n", note);
  return out + rule() + "▶ Starting simulation...\n\n";
}

std::string sim_log_heartbeat(const Heartbeat& beat) {
  const std::string tag = fmt::format("[{:.1f}s]", beat.end_s);
  std::string out =
      fmt::format("{} Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} tokens/s\n",
                  tag, beat.prompt_tokens_per_s, beat.generation_tokens_per_s);
  const std::string indent(tag.size() + 2, ' ');
  for (size_t n = 0; n < beat.nodes.size(); ++n) {
    for (const HeartbeatInstance& i : beat.nodes[n].instances) {
      out += fmt::format("{}├─{}\n", indent, heartbeat_instance(i));
    }
    out += fmt::format("{}{}{}\n", indent, n + 1 == beat.nodes.size() ? "└─" : "├─",
                       heartbeat_node(beat.nodes[n]));
  }
  return out;
}

std::string sim_log_results(SimResults r) {
  std::string out =
      rule() + "▶ Exiting simulation...\n\nChecking Non-Exited Systems ...\nAll Request Has Been Exited\n";
  out += rule() + "▶ Simulation results...\n\n" + wall_time(r.wall_ns);
  out += throughput_results(r);
  if (r.prefix_caching) out += prefix_results(r);
  for (InstanceResults& i : r.instances) out += instance_results(i);
  for (const std::string& note : r.notes) out += note + "\n";
  if (!r.output_path.empty()) {
    out += fmt::format("Saving each request's information to output file: {}\n", r.output_path);
  }
  return out;
}

}  // namespace vllm
