// A plan for people and for programs. Both show the same numbers; what depends on the machine is absent from
// both when an absolute size decided.

#include "base/units.h"
#include "formats/json.h"
#include "kv/plan.h"

namespace vllm {
namespace {

// "1,071,644,672": digits that can be compared by eye.
std::string grouped(int64_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

bool absolute(const KvPlan& plan) {
  return plan.decided_by == "num-blocks" || plan.decided_by == "kv-cache-memory";
}

std::string decided_by(const KvPlan& plan) {
  return plan.decided_by == "default" ? "the default (no size option is set)" : "--" + plan.decided_by;
}

void add_row(std::string& out, const char* name, std::optional<int64_t> bytes, const std::string& remark) {
  const std::string number = bytes ? grouped(*bytes) : "-";
  const std::string gib =
      bytes ? fmt::format("{:.3f}", static_cast<double>(*bytes) / static_cast<double>(kGiB)) : "-";
  std::string line = fmt::format("  {:<22}{:>22}{:>12}   {}", name, number, gib, remark);
  while (line.back() == ' ') line.pop_back();
  out += line + "\n";
}

std::string memory_table(const KvPlan& plan) {
  const std::string how = plan.measured ? "measured" : "estimated";
  const auto remark = [&](const std::optional<int64_t>& bytes, const std::string& text) {
    return bytes ? text : std::string();
  };
  std::string out = fmt::format("  {:<22}{:>22}{:>12}\n", "memory of a device", "bytes", "GiB");
  add_row(out, "KV pool", plan.pool_bytes, "decided by " + decided_by(plan));
  if (plan.recurrent_bytes > 0) {
    add_row(out, "  recurrent state", plan.recurrent_bytes,
            fmt::format("of it, for {} sequences (--max-num-seqs)", plan.max_num_seqs));
  }
  add_row(out, "weights", plan.weights_bytes,
          plan.spec.tensor_parallel_size > 1
              ? fmt::format("of one of {} ranks", plan.spec.tensor_parallel_size)
              : "");
  add_row(out, "workspace", plan.workspace_bytes,
          remark(plan.workspace_bytes, fmt::format("{}, a step of {} tokens, {} rows of logits", how,
                                                   plan.max_num_batched_tokens, plan.max_num_seqs)));
  add_row(out, "graphs", plan.graph_bytes, remark(plan.graph_bytes, how));
  add_row(out, "other of this process", plan.process_bytes, remark(plan.process_bytes, how));
  add_row(out, "reserve", plan.reserve_bytes, remark(plan.reserve_bytes, "always kept free"));
  const int64_t others = plan.total_bytes.value_or(0) - plan.free_bytes.value_or(0);
  add_row(out, "free at start", plan.free_bytes,
          remark(plan.free_bytes, others > 0 ? format_bytes(others) + " are held by others" : ""));
  add_row(out, "total", plan.total_bytes, "");
  if (absolute(plan)) {
    out +=
        "  - depends on the machine: checked at start, and left out here so that an absolute size gives the "
        "same plan "
        "everywhere\n";
  }
  return out;
}

void add_fact(std::string& out, const char* name, const std::string& value, const std::string& remark = "") {
  std::string line = fmt::format("  {:<22}{:>22}   {}", name, value, remark);
  while (line.back() == ' ') line.pop_back();
  out += line + "\n";
}

std::string pool_table(const KvPlan& plan) {
  const KvSpec& spec = plan.spec;
  std::string out = "  KV pool\n";
  add_fact(
      out, "blocks", grouped(plan.blocks),
      fmt::format("{} usable, 1 null block; {} tokens each", grouped(plan.usable_blocks), spec.block_size));
  add_fact(out, "tokens", grouped(plan.tokens), "in sequences of max_model_len");
  add_fact(out, "bytes of a block", grouped(spec.bytes_per_block),
           fmt::format("{}; {}, tensor parallel {}", format_bytes(spec.bytes_per_block),
                       kv_dtype_name(spec.dtype), spec.tensor_parallel_size));
  for (size_t i = 0; i < spec.groups.size(); ++i) {
    const KvGroup& group = spec.groups[i];
    const bool recurrent = group.kind == LayerKind::kRecurrent;
    std::string kind = layer_kind_name(group.kind);
    if (group.kind == LayerKind::kSliding) kind += fmt::format(" {}", group.window);
    add_fact(out, fmt::format("group {}", i).c_str(), kind,
             fmt::format("{} layers, {} bytes a {}", group.layers.size(),
                         grouped(recurrent ? group.bytes_per_sequence : group.bytes_per_block),
                         recurrent ? "sequence" : "block"));
  }
  return out;
}

std::string sequence_table(const KvPlan& plan) {
  const auto one = checked_mul(plan.blocks_at_max_model_len, plan.spec.bytes_per_block);
  std::string out = "  sequences\n";
  add_fact(out, "max_model_len", grouped(plan.max_model_len),
           fmt::format("{} blocks{}", grouped(plan.blocks_at_max_model_len),
                       one ? ", " + format_bytes(*one) : std::string()));
  add_fact(out, "longest that fits", grouped(plan.longest_sequence));
  add_fact(out, "at max_model_len", fmt::format("{:.2f}", plan.concurrency_at_max_model_len),
           "at the same time");
  return out;
}

std::string advice(const KvPlan& plan) {
  const std::string size = absolute(plan)                 ? "raise --" + plan.decided_by
                           : plan.decided_by == "default" ? "set --kv-cache-memory"
                                                          : "raise --gpu-memory-utilization";
  const bool narrow = plan.spec.dtype == KvCacheDType::kFp8;
  return fmt::format(
      "  For more tokens {}{}. For less memory lower that, or --max-num-seqs and "
      "--max-num-batched-tokens.\n",
      size, narrow ? "" : ", or take --kv-cache-dtype fp8");
}

Json optional_number(const std::optional<int64_t>& number) { return number ? Json(*number) : Json(nullptr); }

Json groups_json(const KvSpec& spec) {
  Json out = Json::array();
  for (const KvGroup& group : spec.groups) {
    Json entry;
    entry["kind"] = layer_kind_name(group.kind);
    if (group.kind == LayerKind::kSliding) entry["window"] = group.window;
    entry["layers"] = group.layers;
    if (group.kind == LayerKind::kRecurrent) {
      entry["bytes_per_sequence"] = group.bytes_per_sequence;
    } else {
      entry["bytes_per_block"] = group.bytes_per_block;
    }
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace

std::string kv_plan_text(const KvPlan& plan) {
  std::string out =
      fmt::format("KV plan for {}: {} blocks of {} tokens, {}, decided by {}: {}\n\n", plan.device,
                  grouped(plan.blocks), plan.spec.block_size, format_bytes(plan.pool_bytes), decided_by(plan),
                  plan.fits ? "fits" : "does not fit");
  out += memory_table(plan) + "\n" + pool_table(plan) + "\n" + sequence_table(plan);
  if (!plan.notes.empty()) out += "\n";
  for (const std::string& text : plan.notes) out += "  Note: " + text + ".\n";
  return out + "\n" + advice(plan);
}

Json kv_plan_json(const KvPlan& plan) {
  Json out;
  out["device"] = plan.device;
  out["decided_by"] = plan.decided_by;
  out["overridden"] = plan.overridden;
  out["block_size"] = plan.spec.block_size;
  out["blocks"] = plan.blocks;
  out["usable_blocks"] = plan.usable_blocks;
  out["tokens"] = plan.tokens;
  out["bytes_per_block"] = plan.spec.bytes_per_block;
  out["pool_bytes"] = plan.pool_bytes;
  out["groups"] = groups_json(plan.spec);
  out["weights_bytes"] = plan.weights_bytes;
  out["workspace_bytes"] = optional_number(plan.workspace_bytes);
  out["graph_bytes"] = optional_number(plan.graph_bytes);
  out["reserve_bytes"] = optional_number(plan.reserve_bytes);
  out["total_bytes"] = optional_number(plan.total_bytes);
  out["free_bytes"] = optional_number(plan.free_bytes);
  out["max_model_len"] = plan.max_model_len;
  out["longest_sequence"] = plan.longest_sequence;
  out["concurrency_at_max_model_len"] = plan.concurrency_at_max_model_len;
  out["fits"] = plan.fits;
  out["measured"] = plan.measured;
  out["process_bytes"] = optional_number(plan.process_bytes);
  out["recurrent_bytes"] = plan.recurrent_bytes;
  out["blocks_at_max_model_len"] = plan.blocks_at_max_model_len;
  out["kv_cache_dtype"] = kv_dtype_name(plan.spec.dtype);
  out["tensor_parallel_size"] = plan.spec.tensor_parallel_size;
  out["max_num_seqs"] = plan.max_num_seqs;
  out["max_num_batched_tokens"] = plan.max_num_batched_tokens;
  out["notes"] = plan.notes;
  return out;
}

}  // namespace vllm
