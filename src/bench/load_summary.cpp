#include "bench/load_summary.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"
#include "formats/json.h"
#include "metrics/load_report.h"

namespace vllm {
namespace {

constexpr int kWidth = 50;

int64_t peak_concurrency_of(const std::vector<CallTrace>& traces) {
  std::vector<std::pair<TimeNs, TimeNs>> lives;
  for (const CallTrace& trace : traces) {
    if (trace.finished) lives.emplace_back(trace.issued_ns, trace.times.finished_ns);
  }
  return peak_concurrency(lives);
}

double peak_tokens_per_second(const std::vector<CallTrace>& traces, TimeNs start_ns) {
  TokensBySecond seconds;
  for (const CallTrace& trace : traces) {
    if (!trace.finished) continue;
    for (const TimeNs t : trace.token_ns) seconds.add(t - start_ns);
  }
  return static_cast<double>(seconds.peak());
}

Json summary_json(const Summary& s) {
  return Json{{"count", s.count}, {"mean", s.mean}, {"median", s.median}, {"std", s.std}, {"p90", s.p90},
              {"p95", s.p95},     {"p99", s.p99},   {"min", s.min},       {"max", s.max}};
}

std::string count_line(const char* label, int64_t value) {
  return fmt::format("{:<40} {:<10}\n", label, value);
}
std::string value_line(const std::string& label, double value) {
  return fmt::format("{:<40} {:<10.2f}\n", label, value);
}
std::string text_line(const char* label, const std::string& value) {
  return fmt::format("{:<40} {}\n", label, value);
}

std::string metric_block(const char* header, const char* name, const Summary& s) {
  std::string out = fmt::format("{:-^{}}\n", header, kWidth);
  if (s.count == 0) return out + text_line(name, "no request has one");
  out += value_line(fmt::format("Mean {} (ms):", name), s.mean);
  out += value_line(fmt::format("Median {} (ms):", name), s.median);
  out += value_line(fmt::format("P90 {} (ms):", name), s.p90);
  out += value_line(fmt::format("P95 {} (ms):", name), s.p95);
  out += value_line(fmt::format("P99 {} (ms):", name), s.p99);
  return out;
}

std::string rate_text(const std::optional<double>& rate) {
  return rate ? fmt::format("{:.2f}", *rate) : "all at once";
}

std::string footer_lines(const LoadSummary& summary, const ReportFooter& footer) {
  const SendLag& lag = summary.send_lag;
  std::string out = fmt::format("{:-^{}}\n", "Replay", kWidth);
  out += text_line("Offered request rate (req/s):", rate_text(lag.offered_rate));
  out += text_line("Achieved request rate (req/s):", rate_text(lag.achieved_rate));
  out += text_line("Send lag P50 / P99 (ms):",
                   fmt::format("{:.3f} / {:.3f}", lag.lag_ms.median, lag.lag_ms.p99));
  out += text_line("Prompt tokens from the prefix cache:",
                   fmt::format("{} ({:.1f} %)", summary.cached_tokens,
                               summary.input_tokens > 0 ? 100.0 * static_cast<double>(summary.cached_tokens) /
                                                              static_cast<double>(summary.input_tokens)
                                                        : 0.0));
  out += count_line("Preemptions:", summary.preemptions);
  if (footer.plan != nullptr) {
    const KvPlan& plan = *footer.plan;
    out += text_line("KV plan:",
                     fmt::format("{} blocks of {} tokens, {}, by {}", plan.blocks, plan.spec.block_size,
                                 format_bytes(plan.pool_bytes), plan.decided_by));
  }
  std::string peak = format_bytes(footer.process_peak_bytes);
  for (const MemoryUse& use : footer.memory) {
    if (use.peak_bytes == 0) continue;  // weights that stay in their file's mapping
    peak += fmt::format(", {} {}", use.purpose, format_bytes(use.peak_bytes));
  }
  out += text_line("Peak memory of the process:", peak);
  std::string verdict = lag.client_limited
                            ? fmt::format(
                                  "client-limited: P99 send lag is above {:.3f} ms, so the bench measured "
                                  "itself; lower the rate or give it a core of its own",
                                  lag.limit_ms)
                            : fmt::format(
                                  "schedule kept (P99 send lag within {:.3f} ms); every request gave exactly "
                                  "the tokens asked for",
                                  lag.limit_ms);
  out += text_line("Verdict:", verdict);
  if (!footer.diagnostic.empty()) out += text_line("Diagnostic run:", footer.diagnostic);
  if (!footer.output_dir.empty()) out += text_line("Results:", footer.output_dir);
  return out;
}

}  // namespace

LoadSummary summarise_load(const ReplayInput& input, const std::vector<CallTrace>& traces) {
  LoadSummary out;
  std::vector<double> ttft, tpot, itl, e2el;
  std::vector<IssueTime> issues;
  TimeNs first_ns = 0, last_ns = 0;
  for (size_t i = 0; i < traces.size(); ++i) {
    const CallTrace& trace = traces[i];
    if (trace.issued) issues.push_back({trace.due_ns, trace.issued_ns});
    if (!trace.finished) {
      ++out.failed;
      continue;
    }
    const auto tokens = static_cast<int64_t>(trace.token_ns.size());
    const RequestLatency latency = request_latency(0.0, ns_to_s(trace.times.first_token_ns - trace.due_ns),
                                                   ns_to_s(trace.times.last_token_ns - trace.due_ns), tokens);
    ttft.push_back(latency.ttft_ms);
    e2el.push_back(latency.latency_ms);
    if (latency.tpot_ms) tpot.push_back(*latency.tpot_ms);
    for (size_t k = 1; k < trace.token_ns.size(); ++k) {
      itl.push_back(ns_to_ms(trace.token_ns[k] - trace.token_ns[k - 1]));
    }
    first_ns = out.completed == 0 ? trace.issued_ns : std::min(first_ns, trace.issued_ns);
    last_ns = std::max(last_ns, trace.times.finished_ns);
    ++out.completed;
    out.input_tokens += input.calls[i].input_toks;
    out.output_tokens += tokens;
    out.cached_tokens += trace.times.cached_tokens;
    out.preemptions += trace.times.num_preemptions;
  }
  out.duration_s = ns_to_s(last_ns - first_ns);
  if (out.duration_s > 0) {
    out.request_throughput = static_cast<double>(out.completed) / out.duration_s;
    out.output_throughput = static_cast<double>(out.output_tokens) / out.duration_s;
    out.total_throughput = static_cast<double>(out.input_tokens + out.output_tokens) / out.duration_s;
  }
  out.peak_output_throughput = peak_tokens_per_second(traces, first_ns);
  out.peak_concurrency = peak_concurrency_of(traces);
  out.ttft_ms = summarise(std::move(ttft));
  out.tpot_ms = summarise(std::move(tpot));
  out.itl_ms = summarise(std::move(itl));
  out.e2el_ms = summarise(std::move(e2el));
  out.send_lag = assess_send_lag(issues);
  return out;
}

Json load_summary_json(const LoadSummary& s) {
  Json out;
  out["completed"] = s.completed;
  out["failed"] = s.failed;
  out["duration"] = s.duration_s;
  out["total_input_tokens"] = s.input_tokens;
  out["total_output_tokens"] = s.output_tokens;
  out["cached_tokens"] = s.cached_tokens;
  out["preemptions"] = s.preemptions;
  out["request_throughput"] = s.request_throughput;
  out["output_throughput"] = s.output_throughput;
  out["total_token_throughput"] = s.total_throughput;
  out["max_output_tokens_per_s"] = s.peak_output_throughput;
  out["max_concurrent_requests"] = s.peak_concurrency;
  out["ttft_ms"] = summary_json(s.ttft_ms);
  out["tpot_ms"] = summary_json(s.tpot_ms);
  out["itl_ms"] = summary_json(s.itl_ms);
  out["e2el_ms"] = summary_json(s.e2el_ms);
  return out;
}

std::string load_report(const LoadSummary& s, const ReportFooter& footer) {
  std::string out = fmt::format("{:=^{}}\n", " Serving Benchmark Result ", kWidth);
  out += count_line("Successful requests:", s.completed);
  out += count_line("Failed requests:", s.failed);
  out += value_line("Benchmark duration (s):", s.duration_s);
  out += count_line("Total input tokens:", s.input_tokens);
  out += count_line("Total generated tokens:", s.output_tokens);
  out += value_line("Request throughput (req/s):", s.request_throughput);
  out += value_line("Output token throughput (tok/s):", s.output_throughput);
  out += value_line("Peak output token throughput (tok/s):", s.peak_output_throughput);
  out += value_line("Peak concurrent requests:", static_cast<double>(s.peak_concurrency));
  out += value_line("Total token throughput (tok/s):", s.total_throughput);
  out += metric_block("Time to First Token", "TTFT", s.ttft_ms);
  out += metric_block("Time per Output Token (excl. 1st token)", "TPOT", s.tpot_ms);
  out += metric_block("Inter-token Latency", "ITL", s.itl_ms);
  out += metric_block("End-to-end Latency", "E2EL", s.e2el_ms);
  out += footer_lines(s, footer);
  out += fmt::format("{:=^{}}\n", "", kWidth);
  return out;
}

}  // namespace vllm
