#include "kv/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.h"

namespace vllm {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
// Block ids are 32 bits wide.
constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();

constexpr int64_t kCpuReserveBytes = 128 * kMiB;
constexpr int64_t kGpuReserveBytes = 256 * kMiB;
constexpr int64_t kIntegratedReserveBytes = 4 * kGiB;

constexpr double kDefaultGpuFraction = 0.90;
constexpr double kDefaultIntegratedFraction = 0.50;
constexpr int64_t kDefaultCpuPoolBytes = kGiB;
constexpr int64_t kDefaultCpuShare = 4;  // a quarter of what is available

int64_t add(int64_t a, int64_t b) { return checked_add(a, b).value_or(kLargest); }
int64_t mul(int64_t a, int64_t b) { return checked_mul(a, b).value_or(kLargest); }
// What is left of `a`, however much is taken: a negative number says how much is missing.
int64_t left_of(int64_t a, int64_t taken) { return taken == kLargest ? -kLargest : a - taken; }

std::string sized(int64_t bytes) { return fmt::format("{} ({} bytes)", format_bytes(bytes), bytes); }

// floor(bytes * fraction) without the rounding of a product near 2^63.
int64_t fraction_of(int64_t bytes, double fraction) {
  const auto product = static_cast<long double>(bytes) * static_cast<long double>(fraction);
  return std::min(bytes, static_cast<int64_t>(std::floor(product)));
}

// The work of make_kv_plan: fills `plan` step by step and keeps the first reason against it.
class Planner {
 public:
  Planner(const ModelConfig& model, const Options& options, const MemoryFacts& facts)
      : model_(model), options_(options), facts_(facts) {}

  PlanResult run();

 private:
  Status check_options() const;
  void name_knobs();
  void describe_device();
  Status choose_blocks();
  Status blocks_from_budget(int64_t budget_bytes);
  Status utilisation_budget(int64_t& budget_bytes) const;
  Status default_cpu_budget(int64_t& budget_bytes) const;
  void cap_default();
  Status measure_pool();
  void measure_sequences();
  Status check_memory() const;
  Status check_length();

  bool absolute() const { return options_.kv.num_blocks || options_.kv.kv_cache_memory_bytes; }
  bool integrated() const { return facts_.shared_with_host || facts_.device == "integrated"; }
  bool on_gpu() const { return facts_.device != "cpu"; }
  int64_t reserve_bytes() const { return std::max(facts_.reserve_bytes, device_reserve_bytes(facts_)); }
  // Everything but the pool.
  int64_t other_bytes() const;
  int64_t own_length() const { return model_.max_position_embeddings; }
  int64_t wanted_length() const { return options_.model.max_model_len.value_or(own_length()); }
  int64_t usable_at_most() const;
  std::string knob() const;
  std::string parts() const;
  void note(std::string text) { plan_.notes.push_back(std::move(text)); }

  const ModelConfig& model_;
  const Options& options_;
  const MemoryFacts& facts_;
  KvPlan plan_;
};

// Parsing refuses most of this already; an embedding program may not have parsed anything.
Status Planner::check_options() const {
  const KvOptions& kv = options_.kv;
  const auto whole = [](const char* name, int64_t value) {
    return value >= 1 ? Status::ok() : usage_error("--{} {}: accepted is a whole number from 1", name, value);
  };
  if (kv.num_blocks && (*kv.num_blocks < 1 || *kv.num_blocks > kMostBlocks)) {
    return usage_error("--num-blocks {}: accepted is a whole number from 2 to {}", *kv.num_blocks,
                       kMostBlocks);
  }
  if (kv.kv_cache_memory_bytes && *kv.kv_cache_memory_bytes < 1) {
    return usage_error("--kv-cache-memory {}: accepted is a positive size", *kv.kv_cache_memory_bytes);
  }
  if (kv.gpu_memory_utilization && !(*kv.gpu_memory_utilization > 0.0 && *kv.gpu_memory_utilization <= 1.0)) {
    return usage_error("--gpu-memory-utilization {}: accepted is a fraction above 0, up to 1",
                       *kv.gpu_memory_utilization);
  }
  VLLM_RETURN_IF_ERROR(whole("max-num-seqs", options_.scheduler.max_num_seqs));
  VLLM_RETURN_IF_ERROR(whole("max-num-batched-tokens", options_.scheduler.max_num_batched_tokens));
  if (options_.model.max_model_len)
    VLLM_RETURN_IF_ERROR(whole("max-model-len", *options_.model.max_model_len));
  if (wanted_length() > own_length()) {
    return usage_error("--max-model-len {}: {} has positions for {}; accepted is 1 to {}, or auto",
                       wanted_length(), model_.source, own_length(), own_length());
  }
  if (own_length() < 1)
    return bad_input("{}: its longest sequence is {} tokens", model_.source, own_length());
  return Status::ok();
}

void Planner::name_knobs() {
  const KvOptions& kv = options_.kv;
  std::vector<std::string> set;
  if (kv.num_blocks) set.push_back("num-blocks");
  if (kv.kv_cache_memory_bytes) set.push_back("kv-cache-memory");
  if (kv.gpu_memory_utilization) set.push_back("gpu-memory-utilization");
  plan_.decided_by = set.empty() ? "default" : set.front();
  if (!set.empty()) plan_.overridden.assign(set.begin() + 1, set.end());
  for (const std::string& name : plan_.overridden) {
    note(fmt::format("--{} is set, but --{} is stronger and decides", name, plan_.decided_by));
  }
}

void Planner::describe_device() {
  plan_.device = integrated() ? "integrated" : facts_.device;
  plan_.weights_bytes = facts_.weights_bytes;
  plan_.max_num_seqs = options_.scheduler.max_num_seqs;
  plan_.max_num_batched_tokens = options_.scheduler.max_num_batched_tokens;
  if (options_.kv.device_memory) {
    note(fmt::format("planned for a device that is not here, with {} and nothing else on it",
                     format_bytes(options_.kv.device_memory->bytes)));
  }
  // An absolute size is the same everywhere, so nothing of this machine may show in its plan.
  if (!absolute() || !integrated() || options_.kv.device_memory) plan_.reserve_bytes = reserve_bytes();
  if (absolute()) return;
  plan_.measured = facts_.measured;
  plan_.workspace_bytes = facts_.workspace_bytes;
  plan_.graph_bytes = facts_.graph_bytes;
  plan_.process_bytes = facts_.process_bytes;
  plan_.total_bytes = facts_.total_bytes;
  plan_.free_bytes = facts_.free_bytes;
}

int64_t Planner::other_bytes() const {
  return add(
      add(add(facts_.weights_bytes, facts_.process_bytes), add(facts_.workspace_bytes, facts_.graph_bytes)),
      reserve_bytes());
}

std::string Planner::knob() const {
  const KvOptions& kv = options_.kv;
  if (kv.num_blocks) return fmt::format("--num-blocks {}", *kv.num_blocks);
  if (kv.kv_cache_memory_bytes) return fmt::format("--kv-cache-memory {}", *kv.kv_cache_memory_bytes);
  if (kv.gpu_memory_utilization)
    return fmt::format("--gpu-memory-utilization {}", *kv.gpu_memory_utilization);
  return "the default pool size";
}

std::string Planner::parts() const {
  std::string text = fmt::format("weights {}, workspace {}", format_bytes(facts_.weights_bytes),
                                 format_bytes(facts_.workspace_bytes));
  if (facts_.graph_bytes > 0) text += fmt::format(", graphs {}", format_bytes(facts_.graph_bytes));
  if (facts_.process_bytes > 0) text += fmt::format(", other use {}", format_bytes(facts_.process_bytes));
  return text + fmt::format(", reserve {}", format_bytes(reserve_bytes()));
}

// Blocks that max_num_seqs sequences of the wanted length can hold.
int64_t Planner::usable_at_most() const {
  return mul(options_.scheduler.max_num_seqs,
             max_blocks_per_sequence(plan_.spec, wanted_length(), options_.scheduler.max_num_batched_tokens));
}

Status Planner::choose_blocks() {
  plan_.recurrent_bytes = mul(options_.scheduler.max_num_seqs, plan_.spec.recurrent_bytes_per_sequence);
  if (options_.kv.num_blocks) {
    plan_.blocks = *options_.kv.num_blocks;
    if (has_block_groups(plan_.spec) && plan_.blocks < 2) {
      return usage_error(
          "--num-blocks {}: one block is the null block, so none is left for tokens; accepted is 2 or more",
          plan_.blocks);
    }
    return Status::ok();
  }
  if (options_.kv.kv_cache_memory_bytes) return blocks_from_budget(*options_.kv.kv_cache_memory_bytes);

  int64_t budget_bytes = 0;
  const bool by_default = !options_.kv.gpu_memory_utilization;
  VLLM_RETURN_IF_ERROR(by_default && !on_gpu() ? default_cpu_budget(budget_bytes)
                                               : utilisation_budget(budget_bytes));
  VLLM_RETURN_IF_ERROR(blocks_from_budget(budget_bytes));
  if (by_default) {
    cap_default();
  } else if (has_block_groups(plan_.spec) && plan_.blocks - 1 > usable_at_most()) {
    note(fmt::format(
        "{} sequences of {} tokens hold at most {} blocks; the rest can only serve the prefix cache",
        options_.scheduler.max_num_seqs, wanted_length(), usable_at_most()));
  }
  return Status::ok();
}

Status Planner::blocks_from_budget(int64_t budget_bytes) {
  const int64_t for_blocks = budget_bytes - std::min(budget_bytes, plan_.recurrent_bytes);
  const bool state_fits = plan_.recurrent_bytes <= budget_bytes;
  if (!has_block_groups(plan_.spec)) {
    plan_.blocks = 1;
    if (state_fits) return Status::ok();
  } else {
    plan_.blocks = for_blocks / plan_.spec.bytes_per_block;
    if (plan_.blocks > kMostBlocks) {
      note(fmt::format("{} blocks are as many as there are block ids; the budget would hold {}", kMostBlocks,
                       plan_.blocks));
      plan_.blocks = kMostBlocks;
    }
    if (state_fits && plan_.blocks >= 2) return Status::ok();
  }
  const int64_t least =
      add(plan_.recurrent_bytes, has_block_groups(plan_.spec) ? mul(2, plan_.spec.bytes_per_block) : 0);
  const std::string state =
      plan_.recurrent_bytes > 0
          ? fmt::format(", after {} of recurrent state for {} sequences", format_bytes(plan_.recurrent_bytes),
                        options_.scheduler.max_num_seqs)
          : "";
  if (options_.kv.kv_cache_memory_bytes) {
    return refused(
        "{} holds {} blocks of {}{}, and one of them is the null block; accepted is {} or more, or a smaller "
        "--block-size",
        knob(), plan_.blocks, sized(plan_.spec.bytes_per_block), state, sized(least));
  }
  return refused(
      "{} leaves {} for the KV pool after {}, but two blocks of {}{} are the least; raise "
      "--gpu-memory-utilization, lower "
      "--max-num-batched-tokens or --max-num-seqs, or free memory",
      knob(), format_bytes(budget_bytes), parts(), format_bytes(plan_.spec.bytes_per_block), state);
}

// The fraction counts everything that this process takes; what others hold already must not be promised
// again.
Status Planner::utilisation_budget(int64_t& budget_bytes) const {
  const bool of_free = !options_.kv.gpu_memory_utilization && integrated();
  const double fraction = options_.kv.gpu_memory_utilization.value_or(
      integrated() ? kDefaultIntegratedFraction : kDefaultGpuFraction);
  const int64_t asked_bytes = fraction_of(of_free ? facts_.free_bytes : facts_.total_bytes, fraction);
  if (facts_.free_bytes < asked_bytes) {
    const double most = std::floor(100.0 * static_cast<double>(facts_.free_bytes) /
                                   static_cast<double>(std::max<int64_t>(1, facts_.total_bytes))) /
                        100.0;
    return refused(
        "{} asks for {} of the {} on {}, but only {} are free: others hold {}; give --gpu-memory-utilization "
        "{:.2f} or "
        "less, or --kv-cache-memory, or free memory",
        options_.kv.gpu_memory_utilization ? knob()
                                           : fmt::format("the default of {:.2f} of the device", fraction),
        format_bytes(asked_bytes), format_bytes(facts_.total_bytes), plan_.device,
        format_bytes(facts_.free_bytes), format_bytes(facts_.total_bytes - facts_.free_bytes), most);
  }
  budget_bytes = left_of(asked_bytes, other_bytes());
  if (budget_bytes > 0) return Status::ok();
  return refused(
      "{} allows {}, and nothing of it is left for the KV pool: {}; raise --gpu-memory-utilization, lower "
      "--max-num-batched-tokens or --max-num-seqs, or take a smaller model",
      options_.kv.gpu_memory_utilization ? knob() : fmt::format("the default of {:.2f}", fraction),
      format_bytes(asked_bytes), parts());
}

Status Planner::default_cpu_budget(int64_t& budget_bytes) const {
  const int64_t left_bytes = left_of(facts_.free_bytes, other_bytes());
  budget_bytes = std::min({kDefaultCpuPoolBytes, facts_.free_bytes / kDefaultCpuShare, left_bytes});
  if (budget_bytes > 0) return Status::ok();
  return refused(
      "nothing is left for the KV pool: {} are free on {}, and there are {}; free memory, lower "
      "--max-num-batched-tokens or --max-num-seqs, or take a smaller model",
      format_bytes(facts_.free_bytes), plan_.device, parts());
}

// More than this can never be in use, so the default does not take it.
void Planner::cap_default() {
  if (!has_block_groups(plan_.spec)) return;
  const int64_t most = usable_at_most();
  if (plan_.blocks - 1 <= most) return;
  plan_.blocks = most + 1;
  note(fmt::format(
      "the default stops at the {} blocks that {} sequences of {} tokens can hold (and the null block); "
      "more would only serve the prefix cache: set --kv-cache-memory for that",
      most, options_.scheduler.max_num_seqs, wanted_length()));
}

Status Planner::measure_pool() {
  plan_.usable_blocks = std::max<int64_t>(0, plan_.blocks - 1);
  const auto block_bytes = checked_mul(plan_.blocks, plan_.spec.bytes_per_block);
  const auto pool_bytes = block_bytes ? checked_add(*block_bytes, plan_.recurrent_bytes) : std::nullopt;
  if (!pool_bytes || plan_.recurrent_bytes == kLargest) {
    plan_.pool_bytes = kLargest;
    return usage_error("{} makes a pool of over 2^63 bytes; accepted is what fits into memory", knob());
  }
  plan_.pool_bytes = *pool_bytes;
  return Status::ok();
}

void Planner::measure_sequences() {
  const auto blocks_for = [&](int64_t length) {
    return max_blocks_per_sequence(plan_.spec, length, options_.scheduler.max_num_batched_tokens);
  };
  // The largest length in [0, own_length] that fits: the need never falls as the length grows.
  int64_t fits = 0, too_long = own_length() + 1;
  while (too_long - fits > 1) {
    const int64_t middle = fits + (too_long - fits) / 2;
    (blocks_for(middle) <= plan_.usable_blocks ? fits : too_long) = middle;
  }
  plan_.longest_sequence = fits;
  plan_.max_model_len = wanted_length();
  if (!options_.model.max_model_len && fits > 0 && fits < plan_.max_model_len) {
    plan_.max_model_len = fits;
    note(fmt::format(
        "max_model_len is reduced from the model's {} to {}, the longest sequence that {} usable blocks hold",
        own_length(), fits, plan_.usable_blocks));
  }
  plan_.blocks_at_max_model_len = blocks_for(plan_.max_model_len);

  const auto sequences = static_cast<double>(options_.scheduler.max_num_seqs);
  if (!has_block_groups(plan_.spec)) {
    plan_.concurrency_at_max_model_len = sequences;
    plan_.tokens = mul(options_.scheduler.max_num_seqs, plan_.max_model_len);
    return;
  }
  plan_.concurrency_at_max_model_len =
      static_cast<double>(plan_.usable_blocks) / static_cast<double>(plan_.blocks_at_max_model_len);
  // State for recurrent layers is kept for max_num_seqs sequences and no more.
  if (plan_.recurrent_bytes > 0) {
    plan_.concurrency_at_max_model_len = std::min(plan_.concurrency_at_max_model_len, sequences);
  }
  const KvGroup& first = plan_.spec.groups.front();
  const bool one_table = plan_.spec.groups.size() == 1 && first.kind != LayerKind::kSliding;
  // With one table a token is a part of one block. With several, or a window, blocks a sequence is what
  // counts.
  __extension__ typedef __int128 Wide;
  plan_.tokens = one_table
                     ? mul(plan_.usable_blocks, plan_.spec.block_size)
                     : static_cast<int64_t>(static_cast<Wide>(plan_.usable_blocks) * plan_.max_model_len /
                                            std::max<int64_t>(1, plan_.blocks_at_max_model_len));
}

Status Planner::check_memory() const {
  const int64_t needed_bytes = add(plan_.pool_bytes, other_bytes());
  if (needed_bytes <= facts_.free_bytes) return Status::ok();
  const int64_t left_bytes = left_of(facts_.free_bytes, add(other_bytes(), plan_.recurrent_bytes));
  const int64_t most = plan_.spec.bytes_per_block > 0 ? left_bytes / plan_.spec.bytes_per_block : 0;
  std::string advice = "free memory or take a smaller model: not even two blocks fit beside the rest";
  if (left_bytes > 0 && most >= 2) {
    advice = options_.kv.num_blocks ? fmt::format("accepted is --num-blocks {} or less", most)
                                    : fmt::format("accepted is --kv-cache-memory {} or less",
                                                  left_bytes + plan_.recurrent_bytes);
  }
  return refused(
      "{} makes a KV pool of {}, which does not fit: {} are free of {} on {}, and there are {}; {}", knob(),
      sized(plan_.pool_bytes), format_bytes(facts_.free_bytes), format_bytes(facts_.total_bytes),
      plan_.device, parts(), advice);
}

Status Planner::check_length() {
  if (plan_.longest_sequence < 1) {
    return refused(
        "{} gives {} usable blocks, which do not hold a sequence of one token ({} blocks); accepted is more",
        knob(), plan_.usable_blocks,
        max_blocks_per_sequence(plan_.spec, 1, options_.scheduler.max_num_batched_tokens));
  }
  if (plan_.longest_sequence >= plan_.max_model_len) return Status::ok();
  const std::string stronger = options_.kv.num_blocks               ? "--num-blocks"
                               : options_.kv.kv_cache_memory_bytes  ? "--kv-cache-memory"
                               : options_.kv.gpu_memory_utilization ? "--gpu-memory-utilization"
                                                                    : "the pool with --kv-cache-memory";
  return refused(
      "--max-model-len {}: one such sequence needs {} blocks, and the pool has {} usable ones; accepted is "
      "--max-model-len {} or less, or auto; or raise {}",
      plan_.max_model_len, plan_.blocks_at_max_model_len, plan_.usable_blocks, plan_.longest_sequence,
      stronger);
}

PlanResult Planner::run() {
  name_knobs();
  describe_device();
  const auto stop = [&](Status status) { return PlanResult{plan_, std::move(status)}; };
  if (Status status = check_options(); !status) return stop(status);
  Result<KvSpec> spec = make_kv_spec(model_, options_);
  if (!spec) return stop(spec.status());
  plan_.spec = std::move(spec).value();
  if (on_gpu() && plan_.spec.dtype == KvCacheDType::kFloat32) {
    return stop(usage_error(
        "--kv-cache-dtype float32 is for the CPU; accepted on {} is bfloat16, float16 or fp8", plan_.device));
  }
  // The plan is filled as far as it goes before the first refusal is returned.
  Status status = choose_blocks();
  if (Status pool = measure_pool(); status && !pool) status = pool;
  measure_sequences();
  if (status) status = check_memory();
  if (status) status = check_length();
  plan_.fits = status.is_ok();
  return stop(status);
}

}  // namespace

int64_t device_reserve_bytes(const MemoryFacts& facts) {
  if (facts.shared_with_host || facts.device == "integrated") {
    return std::max(kIntegratedReserveBytes, facts.total_bytes / 10);
  }
  return facts.device == "cpu" ? kCpuReserveBytes : kGpuReserveBytes;
}

MemoryFacts hypothetical_memory_facts(const DeviceMemoryOption& option) {
  MemoryFacts facts;
  facts.device = option.integrated ? "integrated" : "cuda";
  facts.shared_with_host = option.integrated;
  facts.total_bytes = facts.free_bytes = option.bytes;
  return facts;
}

PlanResult make_kv_plan(const ModelConfig& model, const Options& options, const MemoryFacts& facts) {
  return Planner(model, options, facts).run();
}

Status check_request_fits(const KvPlan& plan, int64_t prompt_tokens, int64_t max_tokens,
                          int64_t max_num_batched_tokens) {
  if (prompt_tokens < 1) return refused("the prompt is empty; accepted is at least 1 token");
  if (max_tokens < 1) return refused("max_tokens is {}; accepted is at least 1", max_tokens);
  if (prompt_tokens >= plan.max_model_len) {
    return refused("the prompt has {} tokens, but max_model_len is {} and one token has to follow",
                   prompt_tokens, plan.max_model_len);
  }
  const int64_t length = add(prompt_tokens, max_tokens);
  if (length > plan.max_model_len) {
    return refused("the prompt's {} tokens and {} to generate are {}, but max_model_len is {}", prompt_tokens,
                   max_tokens, length, plan.max_model_len);
  }
  // The last token is never computed, so it needs no place.
  const int64_t blocks = blocks_of_sequence(plan.spec, length - 1, max_num_batched_tokens);
  if (blocks > plan.usable_blocks) {
    return refused(
        "the prompt's {} tokens and {} to generate need {} blocks, but the KV pool has {} usable ones",
        prompt_tokens, max_tokens, blocks, plan.usable_blocks);
  }
  return Status::ok();
}

}  // namespace vllm
