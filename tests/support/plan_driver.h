#pragma once

// Drives an executor with plans made by hand: a small scheduler of the tests' own that does exactly what a
// test says (which requests, how many tokens each), keeps their blocks and collects what comes back.

#include <map>
#include <set>

#include "backend/cpu/cpu_executor.h"
#include "backend/device_memory.h"
#include "base/clock.h"
#include "config/model_config.h"
#include "kv/plan.h"

namespace vllm::testing {

// A plan of exactly `blocks` blocks (the null block included), one group for full layers and one for each
// window.
KvPlan make_test_plan(const ModelConfig& model, KvCacheDType dtype, int block_size, int64_t blocks);

class PlanDriver {
 public:
  struct Sequence {
    std::vector<int32_t> tokens;  // prompt, then what was generated
    int32_t prompt = 0;
    int32_t computed = 0;
    bool starts = true;
    std::vector<std::vector<BlockId>> tables;
    std::vector<std::vector<float>> logits;  // of every sampled token, in order
    std::vector<int32_t> generated() const { return {tokens.begin() + prompt, tokens.end()}; }
  };
  struct Piece {
    RequestId id;
    int32_t num_tokens;
  };

  PlanDriver(CpuExecutor& executor, const KvPlan& plan, int64_t vocab_size);

  void add(RequestId id, std::vector<int32_t> prompt, const SamplingParams& params = {});
  // The request's first `blocks` blocks are those of `from`, whose tokens must be the same: a prefix hit.
  void share_prefix(RequestId id, RequestId from, int blocks);
  void preempt(RequestId id);
  void end(RequestId id);
  // One step. A request samples when all its tokens are computed.
  Status step(const std::vector<Piece>& pieces);
  // Everything that is left of the prompt, then single tokens, until `count` tokens were generated.
  Status generate(RequestId id, int count);

  const Sequence& at(RequestId id) const { return sequences_.at(id); }
  size_t free_blocks() const { return free_.size(); }

 private:
  void release(Sequence& sequence);
  void add_entry(const Piece& piece);

  CpuExecutor& executor_;
  const KvPlan plan_;
  int64_t vocab_size_;
  std::map<RequestId, Sequence> sequences_;
  std::map<BlockId, int> users_;
  std::vector<BlockId> free_;
  StepPlan step_;
};

// An executor with all it needs, for one model.
struct Rig {
  ModelConfig model;
  RealClock clock;
  std::unique_ptr<DeviceMemory> memory = make_cpu_device_memory();
  KvPlan plan;
  std::unique_ptr<CpuExecutor> executor;
  std::unique_ptr<PlanDriver> driver;
};
struct RigOptions {
  static CpuExecutorConfig default_config() {
    CpuExecutorConfig config;
    config.max_num_seqs = 32;
    config.max_num_batched_tokens = 1024;
    config.threads = 2;
    return config;
  }
  KvCacheDType kv = KvCacheDType::kFloat32;
  int block_size = 16;
  int64_t blocks = 128;
  CpuExecutorConfig executor = default_config();
};
// Loads a model from files; test failures say why there is none.
std::unique_ptr<Rig> make_rig(const std::string& model_path, const RigOptions& options = {});
// Dummy weights for a configuration.
std::unique_ptr<Rig> make_dummy_rig(const ModelConfig& model, DType dtype, const RigOptions& options = {});

// A Llama of two layers with `vocab` tokens, for dummy weights.
ModelConfig small_llama(int64_t vocab = 96);

std::string golden_path(const std::string& name);  // below tests/golden/model

}  // namespace vllm::testing
