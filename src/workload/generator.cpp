#include "workload/generator.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace vllm {
namespace {

// Numbers of the streams; a workload of a seed changes when they do.
enum Stream : uint64_t { kInputLengths = 1, kOutputLengths, kArrivals, kTokenIds, kPrefixes, kSharing };

// All prefixes are kept: this many ids together, 1 GiB.
constexpr int64_t kMaxPrefixTokens = int64_t{1} << 28;

int64_t decimal_digits(int64_t value) { return static_cast<int64_t>(std::to_string(value).size()); }

}  // namespace

Result<WorkloadGenerator> WorkloadGenerator::create(const WorkloadOptions& options, const TokenRange& tokens,
                                                    uint64_t seed) {
  if (options.num_reqs > kMaxWorkloadRows) {
    return usage_error("--num-reqs is {}, accepted is 1 to {}", options.num_reqs, kMaxWorkloadRows);
  }
  TokenRange range = tokens;
  std::sort(range.special.begin(), range.special.end());
  range.special.erase(std::unique(range.special.begin(), range.special.end()), range.special.end());
  std::erase_if(range.special, [&](int64_t id) { return id < 0 || id >= range.vocab_size; });
  if (range.vocab_size - static_cast<int64_t>(range.special.size()) < 1) {
    return usage_error("a vocabulary of {} tokens, {} of them special, leaves none for prompts",
                       range.vocab_size, range.special.size());
  }
  const int64_t line_bytes =
      int64_t{options.input_len_max} * (decimal_digits(range.vocab_size - 1) + 1) + 256;
  if (line_bytes > kMaxWorkloadLineBytes) {
    return usage_error("--input-len-max is {}: such a line could have {} bytes, at most {} can be read back",
                       options.input_len_max, line_bytes, kMaxWorkloadLineBytes);
  }
  if (options.prefix_share > 0) {
    if (options.prefix_len >= options.input_len_max) {
      return usage_error(
          "--prefix-len {} must be below --input-len-max {}: a prompt needs a token of its own",
          options.prefix_len, options.input_len_max);
    }
    if (int64_t{options.prefix_len} * options.num_prefixes > kMaxPrefixTokens) {
      return usage_error("--num-prefixes {} of --prefix-len {} are {} tokens, at most {} are kept",
                         options.num_prefixes, options.prefix_len,
                         int64_t{options.prefix_len} * options.num_prefixes, kMaxPrefixTokens);
    }
  }
  return WorkloadGenerator(options, std::move(range), seed);
}

WorkloadGenerator::WorkloadGenerator(const WorkloadOptions& options, TokenRange tokens, uint64_t seed)
    : options_(options),
      tokens_(std::move(tokens)),
      input_lengths_(seed, kInputLengths),
      output_lengths_(seed, kOutputLengths),
      arrivals_(seed, kArrivals),
      token_ids_(seed, kTokenIds),
      sharing_(seed, kSharing),
      arrival_ns_(static_cast<TimeNs>(std::floor(options.first_arrival_s * 1e9 + 0.5))) {
  if (options_.prefix_share <= 0) return;
  Random random(seed, kPrefixes);
  prefixes_.resize(static_cast<size_t>(options_.num_prefixes));
  for (auto& prefix : prefixes_) {
    prefix.resize(static_cast<size_t>(options_.prefix_len));
    for (int32_t& id : prefix) id = draw_token(random);
  }
}

int32_t WorkloadGenerator::draw_length(Random& random, int low, int high) const {
  if (options_.length_distribution == "fixed" || low == high) return high;
  if (options_.length_distribution == "uniform") return static_cast<int32_t>(random.between(low, high));
  // Lognormal around the geometric middle, the bounds at two standard deviations, what is beyond them on
  // them.
  const double log_low = portable_log(low), log_high = portable_log(high);
  const double length = portable_exp((log_low + log_high) / 2 + (log_high - log_low) / 4 * random.normal());
  return static_cast<int32_t>(std::clamp(std::floor(length + 0.5), double(low), double(high)));
}

Status WorkloadGenerator::advance_arrival() {
  if (made_ == 0 || std::isinf(options_.rate)) return Status::ok();
  // Gaps of mean 1/rate; burstiness is the shape of their Gamma distribution.
  const double gap_s = arrivals_.gamma(options_.burstiness) / (options_.rate * options_.burstiness);
  const double gap_ns = std::floor(gap_s * 1e9 + 0.5);
  if (!(gap_ns < static_cast<double>(kMaxWorkloadTimeNs - arrival_ns_))) {
    return usage_error("--rate {} with --burstiness {} puts request {} more than 73 years after the start",
                       options_.rate, options_.burstiness, made_);
  }
  arrival_ns_ += static_cast<TimeNs>(gap_ns);
  return Status::ok();
}

int32_t WorkloadGenerator::draw_token(Random& random) const {
  // The ids that are allowed are counted through; those at and above a special one lie one higher.
  const auto allowed = static_cast<uint64_t>(tokens_.vocab_size) - tokens_.special.size();
  auto id = static_cast<int64_t>(random.below(allowed));
  for (const int64_t special : tokens_.special) {
    if (id >= special) ++id;
  }
  return static_cast<int32_t>(id);
}

void WorkloadGenerator::fill_prompt(WorkloadRequest& request) {
  auto& ids = request.input_tok_ids;
  ids.reserve(static_cast<size_t>(request.input_toks));
  if (!prefixes_.empty() && sharing_.uniform() < options_.prefix_share) {
    const auto& prefix = prefixes_[static_cast<size_t>(sharing_.below(prefixes_.size()))];
    // A short prompt takes the prefix's beginning: its last token is always its own.
    const auto shared = std::min(static_cast<int64_t>(prefix.size()), int64_t{request.input_toks} - 1);
    ids.assign(prefix.begin(), prefix.begin() + shared);
    if (shared > 0) ++num_shared_;
  }
  while (static_cast<int64_t>(ids.size()) < request.input_toks) ids.push_back(draw_token(token_ids_));
}

Result<WorkloadRequest> WorkloadGenerator::next() {
  WorkloadRequest request;
  VLLM_RETURN_IF_ERROR(advance_arrival());
  request.line = ++made_;
  request.arrival_ns = arrival_ns_;
  request.input_toks = draw_length(input_lengths_, options_.input_len_min, options_.input_len_max);
  request.output_toks = draw_length(output_lengths_, options_.output_len_min, options_.output_len_max);
  fill_prompt(request);
  return request;
}

}  // namespace vllm
