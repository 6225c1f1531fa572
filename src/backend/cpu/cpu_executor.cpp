#include "backend/cpu/cpu_executor.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <variant>

#include "backend/cpu/forward.h"
#include "backend/cpu/request_states.h"
#include "base/memory_facts.h"
#include "base/units.h"
#include "sample/sampler.h"

namespace vllm {
namespace {

constexpr int kMaxInFlight = 2;

WorkspaceLimits limits_of(const CpuExecutorConfig& config) {
  return {
      .tokens = config.max_num_batched_tokens, .sequences = config.max_num_seqs, .threads = config.threads};
}

// One group of all layers over float32 blocks: what profiling writes into.
KvSpec scratch_spec(const ModelConfig& model) {
  KvSpec spec;
  spec.block_size = 16;
  spec.dtype = KvCacheDType::kFloat32;
  KvGroup group;
  for (int i = 0; i < static_cast<int>(model.num_layers); ++i) group.layers.push_back(i);
  spec.bytes_per_block = spec.block_size * model.num_layers * model.num_kv_heads * 2 * model.head_dim *
                         kv_dtype_bytes(spec.dtype);
  group.bytes_per_block = spec.bytes_per_block;
  spec.groups.push_back(std::move(group));
  return spec;
}

// Pages of a mapped file are read when they are first used; that must not pass for workspace.
uint64_t touch(const Parameter& parameter) {
  constexpr int64_t kPage = 4096;
  uint64_t sum = 0;
  for (int64_t i = 0; i < parameter.rows * parameter.row_bytes; i += kPage) {
    sum += static_cast<uint64_t>(parameter.data[i]);
  }
  return sum;
}

uint64_t touch_all(const ModelWeights& weights) {
  uint64_t sum = touch(weights.embedding) + touch(weights.head);
  for (const LayerWeights& layer : weights.layers) {
    for (const Parameter* p : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      sum += touch(*p);
    }
  }
  return sum;
}

// Made while there is memory for it.
const Status& out_of_memory() {
  static const Status status = failed("out of memory in the executor's thread");
  return status;
}

}  // namespace

// The core's thread hands commands over; one thread of the executor's own carries them out in order, so that
// a plan can be launched while the one before it still runs. That thread owns everything that a step touches.
struct CpuExecutor::Impl {
  struct AddRequest {
    RequestId id;
    SamplingParams params;
  };
  using Command = std::variant<AddRequest, const StepPlan*>;
  struct Outcome {
    Status status;
    StepResult result;
  };

  Impl(const ModelConfig& model_config, ModelWeights model_weights, const CpuExecutorConfig& executor_config,
       DeviceMemory& device_memory, const Clock& device_clock)
      : model(model_config),
        weights(std::move(model_weights)),
        config(executor_config),
        memory(device_memory),
        clock(device_clock),
        pool(config.threads, config.pin_threads),
        tasks(pool),
        states(model.vocab_size, config.seed) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    if (driver.joinable()) driver.join();
  }

  void send(const Command& command);
  void drive();
  Outcome run(const StepPlan& plan);
  Status sample(const StepPlan& plan, std::vector<int32_t>& tokens);
  Batch largest_batch(const std::vector<std::vector<std::vector<BlockId>>>& tables) const;

  // In the order of dependence.
  const ModelConfig model;
  const ModelWeights weights;
  const CpuExecutorConfig config;
  DeviceMemory& memory;
  const Clock& clock;
  Isa isa = Isa::kGeneric;
  ThreadPool pool;
  TaskRunner tasks;
  DeviceBuffer workspace_buffer;
  Workspace workspace;
  std::optional<LlamaForward> forward;
  std::optional<CpuKvCache> cache;
  RequestStates states;
  Batch batch;
  Status health;  // the first failure; later plans get it too

  std::mutex mutex;
  std::condition_variable wake, done;
  std::deque<Command> commands;
  std::deque<Outcome> outcomes;
  int in_flight = 0;  // launched and not collected; the core's thread only
  bool stop = false;
  std::thread driver;
};

void CpuExecutor::Impl::send(const Command& command) {
  {
    const std::lock_guard lock(mutex);
    commands.push_back(command);
  }
  wake.notify_one();
}

void CpuExecutor::Impl::drive() {
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [this] { return stop || !commands.empty(); });
    if (stop) return;
    const Command command = commands.front();
    commands.pop_front();
    lock.unlock();
    const auto* const plan = std::get_if<const StepPlan*>(&command);
    Outcome outcome;
    try {
      if (plan != nullptr) {
        outcome = run(**plan);
      } else {
        const auto& added = std::get<AddRequest>(command);
        states.add(added.id, added.params);
      }
    } catch (const std::bad_alloc&) {
      health = out_of_memory();
      outcome.status = health;
      outcome.result.ready_ns = clock.now_ns();
    }
    lock.lock();
    if (plan == nullptr) continue;
    outcomes.push_back(std::move(outcome));
    done.notify_one();
  }
}

CpuExecutor::Impl::Outcome CpuExecutor::Impl::run(const StepPlan& plan) {
  Outcome outcome;
  if (health.is_ok()) health = states.apply(plan, batch);
  if (health.is_ok() && static_cast<int64_t>(batch.tokens.size()) > config.max_num_batched_tokens) {
    health = failed("Step {} has {} tokens, more than max_num_batched_tokens = {}", plan.step,
                    batch.tokens.size(), config.max_num_batched_tokens);
  }
  if (health.is_ok() && static_cast<int64_t>(batch.logits_rows.size()) > config.max_num_seqs) {
    health = failed("Step {} samples {} requests, more than max_num_seqs = {}", plan.step,
                    batch.logits_rows.size(), config.max_num_seqs);
  }
  if (health.is_ok()) {
    forward->run(batch, *cache, workspace, tasks);
    health = sample(plan, outcome.result.tokens);
  }
  outcome.status = health;
  outcome.result.ready_ns = clock.now_ns();
  return outcome;
}

Status CpuExecutor::Impl::sample(const StepPlan& plan, std::vector<int32_t>& tokens) {
  tokens.assign(plan.entries.size(), 0);
  std::vector<size_t> sampling;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    if (plan.entries[i].samples) sampling.push_back(i);
  }
  std::atomic<int64_t> bad_row{-1};
  const auto vocab = static_cast<size_t>(model.vocab_size);
  tasks.run(static_cast<int64_t>(sampling.size()), [&](int64_t row, int thread) {
    const StepEntry& entry = plan.entries[sampling[static_cast<size_t>(row)]];
    RequestStates::State& state = states.at(entry.id);
    float* scratch = workspace.scratch[static_cast<size_t>(thread)];
    const SamplerScratch parts{.weights = {scratch, vocab},
                               .order = {reinterpret_cast<int32_t*>(scratch + vocab), vocab}};
    const std::optional<int32_t> token =
        sample_token({workspace.logits + row * model.vocab_size, vocab}, state.params, state.key,
                     int64_t{entry.num_computed} + entry.num_tokens, parts);
    if (!token) {
      bad_row = row;
      return;
    }
    state.last_token = *token;
    tokens[sampling[static_cast<size_t>(row)]] = *token;
  });
  if (bad_row < 0) return Status::ok();
  return failed("Step {}: the logits of request {} are not finite, so no token can be chosen", plan.step,
                plan.entries[sampling[static_cast<size_t>(bad_row.load())]].id);
}

CpuExecutor::CpuExecutor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CpuExecutor::~CpuExecutor() = default;

int64_t CpuExecutor::estimate_workspace_bytes(const ModelConfig& model, const CpuExecutorConfig& config) {
  return workspace_bytes(model, limits_of(config));
}

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::create(const ModelConfig& model, ModelWeights weights,
                                                         const CpuExecutorConfig& config,
                                                         DeviceMemory& memory, const Clock& clock) {
  const Isa isa = config.isa.value_or(best_isa());
  if (isa > best_isa()) {
    return refused("This machine's processor has no {}; the best that it has is {}", isa_name(isa),
                   isa_name(best_isa()));
  }
  if (config.threads < 1 || config.max_num_seqs < 1 || config.max_num_batched_tokens < 1) {
    return usage_error(
        "The CPU executor needs at least 1 thread, 1 sequence and 1 token a step, not {}, {} and {}",
        config.threads, config.max_num_seqs, config.max_num_batched_tokens);
  }
  auto impl = std::make_unique<Impl>(model, std::move(weights), config, memory, clock);
  VLLM_RETURN_IF_ERROR(impl->pool.status().with_context("--threads"));
  impl->isa = isa;
  VLLM_ASSIGN_OR_RETURN(LlamaForward forward,
                        LlamaForward::create(impl->model, impl->weights, cpu_kernels(isa)));
  impl->forward.emplace(std::move(forward));
  VLLM_ASSIGN_OR_RETURN(impl->workspace_buffer,
                        memory.allocate(MemoryPurpose::kWorkspace, estimate_workspace_bytes(model, config)));
  impl->workspace = Workspace::cut(impl->model, limits_of(config), impl->workspace_buffer);
  return std::make_unique<CpuExecutor>(std::move(impl));
}

Batch CpuExecutor::Impl::largest_batch(const std::vector<std::vector<std::vector<BlockId>>>& tables) const {
  Batch out;
  const int64_t sequences = static_cast<int64_t>(tables.size());
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t begin = config.max_num_batched_tokens * i / sequences;
    const int64_t end = config.max_num_batched_tokens * (i + 1) / sequences;
    out.sequences.push_back(
        {.row = begin, .count = end - begin, .position = 0, .tables = &tables[static_cast<size_t>(i)]});
    for (int64_t t = begin; t < end; ++t) out.tokens.push_back(static_cast<int32_t>(t % model.vocab_size));
    out.logits_rows.push_back(end - 1);
  }
  return out;
}

Result<int64_t> CpuExecutor::profile_workspace() {
  Impl& impl = *impl_;
  const int64_t sequences = std::min(impl.config.max_num_seqs, impl.config.max_num_batched_tokens);
  const int64_t longest = ceil_div(impl.config.max_num_batched_tokens, sequences);
  const KvSpec spec = scratch_spec(impl.model);
  const int64_t blocks_each = ceil_div(longest, spec.block_size);
  const int64_t blocks = sequences * blocks_each;
  std::vector<std::vector<std::vector<BlockId>>> tables;
  for (int64_t i = 0; i < sequences; ++i) {
    std::vector<BlockId> table;
    for (int64_t b = 0; b < blocks_each; ++b) table.push_back(static_cast<BlockId>(i * blocks_each + b));
    tables.push_back({std::move(table)});
  }
  VLLM_ASSIGN_OR_RETURN(CpuKvCache scratch, CpuKvCache::create(impl.model, spec, blocks,
                                                               blocks * spec.bytes_per_block, impl.memory));
  const uint64_t touched = touch_all(impl.weights);
  log_debug("Profiling {} tokens of {} sequences (weights read, checksum {})",
            impl.config.max_num_batched_tokens, sequences, touched);

  const ProcessMemory before = read_process_memory();
  const Batch batch = impl.largest_batch(tables);
  impl.forward->run(batch, scratch, impl.workspace, impl.tasks);
  const SamplingParams params{.temperature = 1.0, .top_p = 0.9, .top_k = 0, .min_p = 0, .seed = 0};
  const auto vocab = static_cast<size_t>(impl.model.vocab_size);
  impl.tasks.run(static_cast<int64_t>(batch.logits_rows.size()), [&](int64_t row, int thread) {
    float* part = impl.workspace.scratch[static_cast<size_t>(thread)];
    sample_token({impl.workspace.logits + row * impl.model.vocab_size, vocab}, params, 0, row,
                 {.weights = {part, vocab}, .order = {reinterpret_cast<int32_t*>(part + vocab), vocab}});
  });
  const ProcessMemory after = read_process_memory();
  // The peak is the process's since it began, so it says something only when this step raised it.
  const int64_t reached =
      after.peak_rss_bytes > before.peak_rss_bytes ? after.peak_rss_bytes : after.rss_bytes;
  return std::max<int64_t>(reached - before.rss_bytes, 0);
}

Status CpuExecutor::allocate_kv(const KvPlan& plan) {
  Impl& impl = *impl_;
  if (impl.cache) return failed("The KV pool was allocated before");
  VLLM_ASSIGN_OR_RETURN(CpuKvCache cache,
                        CpuKvCache::create(impl.model, plan.spec, plan.blocks, plan.pool_bytes, impl.memory));
  impl.states.set_cache_shape(cache.num_groups(), cache.block_size(), cache.blocks());
  impl.cache.emplace(std::move(cache));
  static_cast<void>(out_of_memory());
  try {
    impl.driver = std::thread([&impl] { impl.drive(); });
  } catch (const std::system_error& error) {
    return failed("the executor's thread could not be started: the system says {}", error.code().message());
  }
  return Status::ok();
}

void CpuExecutor::add_request(RequestId id, const SamplingParams& params) {
  impl_->send(Impl::AddRequest{.id = id, .params = params});
}

Status CpuExecutor::launch(const StepPlan& plan) {
  if (!impl_->cache) return failed("Step {} was launched before the KV pool was allocated", plan.step);
  if (impl_->in_flight >= kMaxInFlight) {
    return failed("Step {} was launched while {} steps were in flight", plan.step, impl_->in_flight);
  }
  ++impl_->in_flight;
  impl_->send(&plan);
  return Status::ok();
}

Status CpuExecutor::collect(StepResult& result) {
  if (impl_->in_flight == 0) return failed("There is no step to collect");
  std::unique_lock lock(impl_->mutex);
  impl_->done.wait(lock, [this] { return !impl_->outcomes.empty(); });
  Impl::Outcome outcome = std::move(impl_->outcomes.front());
  impl_->outcomes.pop_front();
  --impl_->in_flight;
  result = std::move(outcome.result);
  return outcome.status;
}

int CpuExecutor::max_in_flight() const { return kMaxInFlight; }
std::string CpuExecutor::name() const { return fmt::format("cpu-plain-{}", isa_name(impl_->isa)); }
Isa CpuExecutor::isa() const { return impl_->isa; }

const float* CpuExecutor::logits_row(int sampling_entry) const {
  return impl_->workspace.logits + sampling_entry * impl_->model.vocab_size;
}

}  // namespace vllm
