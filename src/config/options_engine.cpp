// The options of everything that runs an engine or plans for one. What larger and smaller values do is said
// here, in the words of --help; docs/options.md is made from the same text.

#include "base/units.h"
#include "config/option_table.h"

namespace vllm {
namespace {

// Token positions and block ids are 32-bit in a step plan.
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

Status parse_device_memory(std::string_view text, std::optional<DeviceMemoryOption>& field) {
  if (text == "auto") {
    field.reset();
    return Status::ok();
  }
  DeviceMemoryOption out;
  const size_t comma = text.find(',');
  if (comma != std::string_view::npos) {
    const std::string_view kind = text.substr(comma + 1);
    if (kind != "integrated") {
      return usage_error("'{}' ends in '{}'; accepted is SIZE or SIZE,integrated, like 80GiB", text, kind);
    }
    out.integrated = true;
  }
  const auto bytes = parse_size(text.substr(0, comma));
  if (!bytes) return out.integrated ? bytes.status().with_context(fmt::format("'{}'", text)) : bytes.status();
  out.bytes = *bytes;
  field = out;
  return Status::ok();
}

std::string device_memory_text(const std::optional<DeviceMemoryOption>& field) {
  if (!field) return "auto";
  return fmt::format("{}{}", field->bytes, field->integrated ? ",integrated" : "");
}

void declare_model(OptionTable& t, Options& o) {
  const ProgramSet engines = engine_programs();
  t.group("Model");
  t.text("model", o.model.model, "PATH", "a folder with config.json and safetensors, or a .gguf file",
         engines | ProgramSet{Program::kWorkload},
         "The model: a folder with config.json and safetensors, a .gguf file, or a folder with config.json "
         "alone "
         "(enough for --print-plan and for --load-format dummy). vllm-workload reads its vocabulary size "
         "from it, vllm-sim the model's dimensions in place of those that --configs-root has for it.")
      .required_by(ProgramSet{Program::kServer, Program::kCli, Program::kBenchRun, Program::kBenchLoad});
  t.choice(
      "load-format", o.model.load_format,
      Choices<LoadFormat>{{"auto", LoadFormat::kAuto}, {"dummy", LoadFormat::kDummy}}, engines,
      "auto reads the weights that lie in --model; dummy makes random ones from --seed and reads no weight "
      "file: for measuring, its tokens mean nothing.");
  t.flag("skip-tokenizer-init", o.model.skip_tokenizer_init, engines,
         "Start without a tokenizer: prompts are token ids. Replay never needs one, so it changes nothing "
         "there.");
  t.choice_or_auto(
       "dtype", o.model.dtype,
       Choices<DType>{{"bfloat16", DType::kBF16}, {"float16", DType::kF16}, {"float32", DType::kF32}},
       ProgramSet{Program::kServer, Program::kCli, Program::kBenchRun, Program::kBenchLoad,
                  Program::kProfile},
       "Type of the weights and of computing with unquantised matrices; auto is what config.json says, and "
       "a GGUF file keeps its own types. 16-bit types take half the memory of float32.")
      .note("in vllm-bench run bfloat16, unless --model is a .gguf");
  t.integer_or_auto(
      "max-model-len", o.model.max_model_len, {1, kMaxInt32}, engines,
      "Longest sequence, prompt and output together. Larger needs more KV blocks for one request; auto is "
      "the model's own limit, reduced to what fits into the KV pool.");
}

void declare_parallel(OptionTable& t, Options& o) {
  const ProgramSet engines = engine_programs();
  t.group("Parallelism");
  t.integer(
      "tensor-parallel-size", o.parallel.tensor_parallel_size, {1, 1024}, engines,
      "Devices that share each layer: weights and KV heads are divided by it. This build runs 1; a plan "
      "(--print-plan) answers for more.");
  t.integer("data-parallel-size", o.parallel.data_parallel_size, {1, 1024}, engines,
            "Independent engines, each with its own pool and scheduler. This build runs 1.");
  t.flag("enable-expert-parallel", o.parallel.enable_expert_parallel, engines,
         "Spread whole experts over the ranks in place of slices of each. Not in this build.");
  t.flag("disable-custom-all-reduce", o.parallel.disable_custom_all_reduce, engines,
         "Use the library's all-reduce only. Accepted and recorded; with one rank there are no collectives, "
         "so it "
         "changes nothing.");
}

void declare_kv(OptionTable& t, Options& o) {
  const ProgramSet engines = engine_programs();
  t.group("KV cache");
  t.integer_or_auto(
      "num-blocks", o.kv.num_blocks, {2, kMaxInt32}, engines,
      "Exactly this many blocks in the KV pool. One is the null block, the others hold block-size tokens "
      "each. More serve more or longer requests at once and take more memory. Stronger than the two "
      "options below.");
  t.size_or_auto(
       "kv-cache-memory", o.kv.kv_cache_memory_bytes, engines,
       "The whole KV pool of all layers takes at most this many bytes on each device. Stronger than "
       "--gpu-memory-utilization, weaker than --num-blocks.")
      .alias("kv-cache-memory-bytes");
  t.number_or_auto(
       "gpu-memory-utilization", o.kv.gpu_memory_utilization, {.min = 0, .max = 1, .above_min = true},
       engines,
       "Fraction of the device's total memory that this engine may use: weights, workspace and KV pool "
       "together. Larger leaves less for neighbours.")
      .alias("memory-utilization")
      .note(
          "without any of the three: 0.90 of a discrete GPU, 0.50 of what an integrated device has free, on "
          "a CPU "
          "the smaller of 1 GiB and a quarter of the free memory, never more than the requests can use");
  t.integer("block-size", o.kv.block_size, {1, 65536}, engines,
            "Tokens in a KV block. Smaller wastes less at the end of a sequence and shares finer prefixes; "
            "larger needs "
            "less bookkeeping.");
  t.choice_or_auto(
      "kv-cache-dtype", o.kv.kv_cache_dtype,
      Choices<KvCacheDType>{{"bfloat16", KvCacheDType::kBFloat16},
                            {"float16", KvCacheDType::kFloat16},
                            {"float32", KvCacheDType::kFloat32},
                            {"fp8", KvCacheDType::kFp8}},
      engines,
      "Element type of K and V. fp8 holds twice the tokens of 16-bit types at some loss of precision; auto "
      "is the resolved --dtype, for a GGUF file bfloat16.");
  OptionDeclaration& d =
      t.add("device-memory", OptionShape::kValue, engines,
            "Plan for a device with this much memory that is not here, with --print-plan or in vllm-sim. "
            "',integrated' says that it shares its memory with the host.");
  d.value_name = "auto|SIZE[,integrated]";
  d.accepted = "a size like 80GiB, or 64GiB,integrated, or auto";
  d.assign = [&field = o.kv.device_memory](std::string_view text) {
    return parse_device_memory(text, field);
  };
  d.text = [&field = o.kv.device_memory] { return device_memory_text(field); };
}

void declare_scheduler(OptionTable& t, Options& o) {
  const ProgramSet engines = engine_programs();
  SchedulerOptions& s = o.scheduler;
  t.group("Scheduler");
  t.integer(
       "max-num-seqs", s.max_num_seqs, {1, 1 << 20}, engines,
       "Requests that run at once. Larger raises throughput and the time of each token; it also bounds the "
       "workspace.")
      .note("vllm-cli's one-shot and chat modes, when they are built: the number of answers asked for");
  t.integer("max-num-batched-tokens", s.max_num_batched_tokens, {1, 1 << 24}, engines,
            "Tokens computed in one step, over all requests. Larger starts prompts sooner and makes running "
            "requests "
            "wait longer for their next token; it also bounds the workspace.");
  t.integer("long-prefill-token-threshold", s.long_prefill_token_threshold, {0, kMaxInt32}, engines,
            "A prompt gets at most this many tokens in a step, so that long ones leave room for others. 0: "
            "no limit.");
  t.negatable("enable-chunked-prefill", s.enable_chunked_prefill, engines,
              "Cut a prompt over several steps when the budget of one step does not hold it. Without it a "
              "prompt waits "
              "for a step that does.");
  t.negatable("enable-prefix-caching", s.enable_prefix_caching, engines,
              "Keep full blocks of ended requests and reuse them for prompts that begin alike. It saves "
              "computing; it "
              "costs hashing, and no memory that somebody else needs.");
  t.choice(
      "scheduling-policy", s.policy,
      Choices<SchedulingPolicy>{{"fcfs", SchedulingPolicy::kFcfs}, {"priority", SchedulingPolicy::kPriority}},
      engines,
      "Who is served first and preempted last: fcfs, by arrival; priority, the smaller priority, then "
      "arrival.");
  t.negatable(
      "reserve-full-isl", s.reserve_full_isl, engines,
      "Admit a request only when its whole prompt fits into the free blocks, not just its first chunk. Fewer "
      "preemptions, later admissions.");
  t.number("watermark", s.watermark, {.min = 0, .max = 1, .below_max = true}, engines,
           "Fraction of all blocks that stays free when a request is admitted beside running ones. Larger "
           "means fewer "
           "preemptions and fewer requests at once.");
  OptionDeclaration& d = t.integer(
      "scheduling-depth", s.scheduling_depth, {1, 2, "1 or 2"}, engines,
      "Steps planned and not yet answered: 2 plans the next step while this one computes. It hides the "
      "planning and costs a surplus row at an end by eos.");
  d.value_name = "1|2";
}

}  // namespace

void OptionTable::declare_engine(Options& options) {
  declare_model(*this, options);
  declare_parallel(*this, options);
  declare_kv(*this, options);
  declare_scheduler(*this, options);
}

}  // namespace vllm
