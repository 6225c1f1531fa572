#pragma once

// The plain CPU executor: a readable float32 forward of the Llama family over a flattened batch of prefill
// and decode tokens with a paged KV cache. It is the reference that fast kernels are tested against. A row's
// result does not depend on what else is in the batch, nor on the number of threads.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/device_memory.h"
#include "backend/executor.h"
#include "base/clock.h"
#include "base/cpu_features.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "config/model_config.h"
#include "kv/plan.h"
#include "model/weights.h"

namespace vllm {

struct CpuExecutorConfig {
  int max_num_seqs = 128;
  int max_num_batched_tokens = 2048;
  int threads = 1;
  bool pin_threads = false;
  std::optional<Isa> isa;  // none: the best that this machine has
  int64_t seed = 42;       // for requests without a seed of their own
};

class CpuExecutor final : public Executor {
 public:
  struct Impl;
  explicit CpuExecutor(std::unique_ptr<Impl> impl);  // for create()
  // `memory` and `clock` outlive the executor. Takes the workspace of the largest step from `memory`.
  static Result<std::unique_ptr<CpuExecutor>> create(const ModelConfig& model, ModelWeights weights,
                                                     const CpuExecutorConfig& config, DeviceMemory& memory,
                                                     const Clock& clock);
  ~CpuExecutor() override;

  // Bytes of workspace that such a configuration takes, before anything is loaded.
  static int64_t estimate_workspace_bytes(const ModelConfig& model, const CpuExecutorConfig& config);

  // Runs one forward at the largest shape (max_num_batched_tokens tokens, max_num_seqs rows of logits,
  // sampler included) on a scratch cache, and returns the transient peak in bytes: what the process took in
  // it beyond the workspace that is held already, the weights and the scratch cache. Before allocate_kv.
  Result<int64_t> profile_workspace();

  // The pool. Must be called once before the first launch; the bytes allocated equal plan.pool_bytes.
  Status allocate_kv(const KvPlan& plan);

  void add_request(RequestId id, const SamplingParams& params) override;
  Status launch(const StepPlan& plan) override;
  Status collect(StepResult& result) override;
  int max_in_flight() const override;
  std::string name() const override;  // "cpu-plain-avx512"
  Isa isa() const;

  // Logits of the last collected step's sampling entries, in their order; for tests. [entry][vocab].
  // Overwritten by the next step, so meaningful only while nothing is in flight.
  const float* logits_row(int sampling_entry) const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace vllm
