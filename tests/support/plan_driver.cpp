#include "support/plan_driver.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/reference.h"

namespace vllm::testing {

KvPlan make_test_plan(const ModelConfig& model, KvCacheDType dtype, int block_size, int64_t blocks) {
  KvPlan plan;
  plan.device = "cpu";
  plan.spec.block_size = block_size;
  plan.spec.dtype = dtype;
  const int64_t layer_bytes =
      block_size * model.num_kv_heads * (model.head_dim + model.v_head_dim) * kv_dtype_bytes(dtype);
  std::map<int64_t, KvGroup> by_window;
  for (int i = 0; i < static_cast<int>(model.num_layers); ++i) {
    const LayerConfig& layer = model.layers[static_cast<size_t>(i)];
    KvGroup& group = by_window[layer.kind == LayerKind::kSliding ? layer.sliding_window : 0];
    group.kind = layer.kind;
    group.window = layer.kind == LayerKind::kSliding ? layer.sliding_window : 0;
    group.layers.push_back(i);
    group.bytes_per_block += layer_bytes;
  }
  for (const auto& [window, group] : by_window) {
    plan.spec.bytes_per_block = std::max(plan.spec.bytes_per_block, group.bytes_per_block);
    plan.spec.groups.push_back(group);
  }
  plan.blocks = blocks;
  plan.usable_blocks = blocks - 1;
  plan.pool_bytes = blocks * plan.spec.bytes_per_block;
  return plan;
}

PlanDriver::PlanDriver(CpuExecutor& executor, const KvPlan& plan, int64_t vocab_size)
    : executor_(executor), plan_(plan), vocab_size_(vocab_size) {
  for (BlockId block = static_cast<BlockId>(plan.blocks - 1); block > 0; --block) free_.push_back(block);
}

void PlanDriver::add(RequestId id, std::vector<int32_t> prompt, const SamplingParams& params) {
  Sequence& sequence = sequences_[id];
  sequence.prompt = static_cast<int32_t>(prompt.size());
  sequence.tokens = std::move(prompt);
  sequence.tables.resize(plan_.spec.groups.size());
  executor_.add_request(id, params);
}

void PlanDriver::share_prefix(RequestId id, RequestId from, int blocks) {
  Sequence& to = sequences_.at(id);
  const Sequence& source = sequences_.at(from);
  to.computed = blocks * plan_.spec.block_size;
  for (size_t group = 0; group < to.tables.size(); ++group) {
    for (int i = 0; i < blocks; ++i) {
      const BlockId block = source.tables[group][static_cast<size_t>(i)];
      ++users_[block];
      to.tables[group].push_back(block);
    }
  }
}

void PlanDriver::release(Sequence& sequence) {
  for (std::vector<BlockId>& table : sequence.tables) {
    for (const BlockId block : table) {
      if (--users_[block] == 0) free_.push_back(block);
    }
    table.clear();
  }
}

void PlanDriver::preempt(RequestId id) {
  Sequence& sequence = sequences_.at(id);
  release(sequence);
  sequence.computed = 0;
  sequence.starts = true;
  step_.preempted.push_back(id);
}

void PlanDriver::end(RequestId id) {
  release(sequences_.at(id));
  step_.ended.push_back(id);
}

void PlanDriver::add_entry(const Piece& piece) {
  Sequence& sequence = sequences_.at(piece.id);
  StepEntry entry{
      .id = piece.id,
      .num_tokens = piece.num_tokens,
      .num_computed = sequence.computed,
      .samples = sequence.computed + piece.num_tokens == static_cast<int32_t>(sequence.tokens.size()),
      .starts = sequence.starts,
      .token_offset = static_cast<int32_t>(step_.tokens.size()),
      .block_offset = static_cast<int32_t>(step_.blocks.size()),
      .block_count_offset = static_cast<int32_t>(step_.block_counts.size())};
  for (int32_t i = 0; i < piece.num_tokens; ++i) {
    step_.tokens.push_back(sequence.tokens.at(static_cast<size_t>(sequence.computed + i)));
  }
  const int block_size = plan_.spec.block_size;
  const auto needed =
      static_cast<size_t>((sequence.computed + piece.num_tokens + block_size - 1) / block_size);
  for (std::vector<BlockId>& table : sequence.tables) {
    const size_t before = sequence.starts ? 0 : table.size();  // shared blocks are news to the executor
    while (table.size() < needed) {
      if (free_.empty()) throw std::runtime_error("the test's pool is too small");
      table.push_back(free_.back());
      ++users_[free_.back()];
      free_.pop_back();
    }
    step_.blocks.insert(step_.blocks.end(), table.begin() + static_cast<std::ptrdiff_t>(before), table.end());
    step_.block_counts.push_back(static_cast<int32_t>(table.size() - before));
  }
  sequence.starts = false;
  sequence.computed += piece.num_tokens;
  step_.entries.push_back(entry);
}

Status PlanDriver::step(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) add_entry(piece);
  step_.total_tokens = static_cast<int64_t>(step_.tokens.size());
  VLLM_RETURN_IF_ERROR(executor_.launch(step_));
  StepResult result;
  VLLM_RETURN_IF_ERROR(executor_.collect(result));
  int row = 0;
  for (size_t i = 0; i < step_.entries.size(); ++i) {
    if (!step_.entries[i].samples) continue;
    Sequence& sequence = sequences_.at(step_.entries[i].id);
    sequence.tokens.push_back(result.tokens.at(i));
    const float* logits = executor_.logits_row(row++);
    sequence.logits.emplace_back(logits, logits + vocab_size_);
  }
  const int64_t number = step_.step + 1;
  step_.clear();
  step_.step = number;
  return Status::ok();
}

Status PlanDriver::generate(RequestId id, int count) {
  while (static_cast<int>(at(id).tokens.size()) < at(id).prompt + count) {
    VLLM_RETURN_IF_ERROR(step({{id, static_cast<int32_t>(at(id).tokens.size()) - at(id).computed}}));
  }
  return Status::ok();
}

namespace {

void start(Rig& rig, ModelWeights weights, const RigOptions& options) {
  auto executor =
      CpuExecutor::create(rig.model, std::move(weights), options.executor, *rig.memory, rig.clock);
  ASSERT_TRUE(executor.is_ok()) << executor.status().message();
  rig.executor = std::move(executor).value();
  rig.plan = make_test_plan(rig.model, options.kv, options.block_size, options.blocks);
  const Status allocated = rig.executor->allocate_kv(rig.plan);
  ASSERT_TRUE(allocated.is_ok()) << allocated.message();
  rig.driver = std::make_unique<PlanDriver>(*rig.executor, rig.plan, rig.model.vocab_size);
}

}  // namespace

std::unique_ptr<Rig> make_rig(const std::string& model_path, const RigOptions& options) {
  auto rig = std::make_unique<Rig>();
  auto model = load_model_config(model_path);
  if (!model.is_ok()) {
    ADD_FAILURE() << model.status().message();
    return nullptr;
  }
  rig->model = *model;
  auto weights = load_weights(model_path, rig->model, LoadFormat::kAuto, DType::kF32, 0);
  if (!weights.is_ok()) {
    ADD_FAILURE() << weights.status().message();
    return nullptr;
  }
  start(*rig, std::move(weights).value(), options);
  return rig->driver ? std::move(rig) : nullptr;
}

std::unique_ptr<Rig> make_dummy_rig(const ModelConfig& model, DType dtype, const RigOptions& options) {
  auto rig = std::make_unique<Rig>();
  rig->model = model;
  auto weights = load_weights("", rig->model, LoadFormat::kDummy, dtype, 1);
  if (!weights.is_ok()) {
    ADD_FAILURE() << weights.status().message();
    return nullptr;
  }
  start(*rig, std::move(weights).value(), options);
  return rig->driver ? std::move(rig) : nullptr;
}

ModelConfig small_llama(int64_t vocab) {
  ModelConfig model;
  model.architecture = "LlamaForCausalLM";
  model.model_type = "llama";
  model.source = "config.json";
  model.runnable = true;
  model.vocab_size = vocab;
  model.hidden_size = 48;
  model.intermediate_size = 80;
  model.num_layers = 2;
  model.num_heads = 6;
  model.num_kv_heads = 2;
  model.head_dim = model.v_head_dim = 8;
  model.max_position_embeddings = 512;
  model.norm_eps = 1e-5;
  model.layers.resize(2);
  return model;
}

std::string golden_path(const std::string& name) {
  return std::string(VLLM_SOURCE_DIR) + "/tests/golden/model/" + name;
}

}  // namespace vllm::testing
