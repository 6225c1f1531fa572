#include "workload/generate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/file.h"
#include "base/log.h"
#include "config/model_config.h"
#include "formats/sha256.h"
#include "workload/generator.h"

namespace vllm {
namespace {

struct Totals {
  int64_t count = 0, sum = 0, low = INT64_MAX, high = 0;
  void add(int64_t value) {
    ++count;
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::string text() const {
    return fmt::format("{} (mean {:.1f}, {} to {})", sum,
                       static_cast<double>(sum) / static_cast<double>(count), low, high);
  }
};

struct Made {
  Totals input, output;
  TimeNs first_ns = 0, last_ns = 0;
  int64_t bytes = 0;
  std::string sha256;
};

// The vocabulary is that of --model, cut by --vocab-size.
Result<TokenRange> token_range(const Options& options) {
  TokenRange range;
  range.vocab_size = options.workload.vocab_size;
  if (options.model.model.empty()) return range;
  VLLM_ASSIGN_OR_RETURN(const ModelConfig model, load_model_config(options.model.model));
  if (range.vocab_size > model.vocab_size) {
    return usage_error("--vocab-size {} is above the {} tokens of {}", range.vocab_size, model.vocab_size,
                       model.source);
  }
  if (range.vocab_size == 0) range.vocab_size = model.vocab_size;
  range.special = model.eos_token_ids;
  if (model.bos_token_id) range.special.push_back(*model.bos_token_id);
  const WorkloadOptions& w = options.workload;
  if (int64_t{w.input_len_max} + w.output_len_max > model.max_position_embeddings) {
    log_warning("requests may have up to {} tokens, {} has a context of {}",
                int64_t{w.input_len_max} + w.output_len_max, model.source, model.max_position_embeddings);
  }
  return range;
}

Result<Made> write_rows(WorkloadGenerator& generator, const WorkloadOptions& options) {
  auto opened = AtomicFile::create(options.output);
  if (!opened) return usage_error("--output: {}", opened.status().message());
  AtomicFile file = std::move(*opened);
  Made made;
  Sha256 hash;
  // A line of progress for each tenth, when there is enough to wait for.
  const int64_t tenth = options.num_reqs >= 100'000 ? options.num_reqs / 10 : INT64_MAX;
  for (int64_t i = 0; i < options.num_reqs; ++i) {
    VLLM_ASSIGN_OR_RETURN(const WorkloadRequest request, generator.next());
    const std::string line = workload_row_json(request) + "\n";
    VLLM_RETURN_IF_ERROR(file.write(line));
    hash.update(line.data(), line.size());
    made.bytes += static_cast<int64_t>(line.size());
    made.input.add(request.input_toks);
    made.output.add(request.output_toks);
    if (i == 0) made.first_ns = request.arrival_ns;
    made.last_ns = request.arrival_ns;
    if ((i + 1) % tenth == 0) log_info("{} of {} requests written", i + 1, options.num_reqs);
  }
  VLLM_RETURN_IF_ERROR(file.commit());
  made.sha256 = hash.hex();
  return made;
}

std::string rate_text(const Made& made, const WorkloadOptions& options) {
  if (std::isinf(options.rate)) return "all at once";
  const std::string asked =
      fmt::format("asked for {:g} requests/s, burstiness {:g}", options.rate, options.burstiness);
  const double span_s = ns_to_s(made.last_ns - made.first_ns);
  if (span_s <= 0) return asked;
  return fmt::format("{:.3f} requests/s over {:.3f} s ({})",
                     static_cast<double>(made.input.count - 1) / span_s, span_s, asked);
}

}  // namespace

Status generate_workload(const ParsedOptions& parsed) {
  const WorkloadOptions& options = parsed.options.workload;
  VLLM_ASSIGN_OR_RETURN(const TokenRange tokens, token_range(parsed.options));
  VLLM_ASSIGN_OR_RETURN(
      WorkloadGenerator generator,
      WorkloadGenerator::create(options, tokens, static_cast<uint64_t>(parsed.options.runtime.seed)));
  VLLM_ASSIGN_OR_RETURN(const Made made, write_rows(generator, options));
  std::string text = fmt::format("{}: {} requests, {} bytes\n", options.output, made.input.count, made.bytes);
  text += fmt::format("  input tokens   {}\n", made.input.text());
  text += fmt::format("  output tokens  {}\n", made.output.text());
  text += fmt::format("  arrivals       {}\n", rate_text(made, options));
  text += fmt::format("  token ids      0 to {}, {} special ids left out\n", tokens.vocab_size - 1,
                      tokens.special.size());
  if (options.prefix_share > 0) {
    text += fmt::format("  shared prefix  {} requests begin with one of {} ({} tokens)\n",
                        generator.num_shared(), options.num_prefixes, options.prefix_len);
  }
  text += fmt::format("  seed           {}\n  sha256         {}\n", parsed.options.runtime.seed, made.sha256);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    return io_error("cannot write to stdout");
  return Status::ok();
}

}  // namespace vllm
