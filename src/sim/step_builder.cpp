#include "sim/step_builder.h"

#include <algorithm>

namespace vllm {
namespace {

constexpr int64_t kInputBytesPerToken = 2;   // of a weight element each: as the reference counts it
constexpr int64_t kOutputBytesPerToken = 4;  // one id

ExpertRouter::Config router_config(const StepBuilder::Config& config) {
  const InstanceSpec& spec = *config.instance;
  ExpertRouter::Config router;
  router.routing = config.expert_routing;
  router.experts = std::max<int64_t>(1, spec.model->experts);
  router.experts_per_token = spec.model->experts_per_token;
  router.ep = spec.ep;
  router.local_ep = spec.local_ep;
  if (spec.dp_group >= 0) {
    const std::vector<int>& members = config.cluster->dp_groups[static_cast<size_t>(spec.dp_group)].members;
    const auto own = std::find(members.begin(), members.end(), spec.id) - members.begin();
    router.first_rank = spec.local_ep == spec.ep ? 0 : own * spec.local_ep;
  }
  router.policies = config.policies;
  return router;
}

std::vector<int64_t> emitted_layers(const StepBuilder::Config& config) {
  const InstanceSpec& spec = *config.instance;
  std::vector<int64_t> layers = spec.stage_layers;
  if (config.policies.single_moe_layer && spec.model->is_moe() && !spec.settings.enable_block_copy &&
      !spec.has_block_rules) {
    std::fill(layers.begin(), layers.end(), 0);
    layers.front() = 1;
  }
  return layers;
}

}  // namespace

StepShape shape_of(const StepPlan& plan) {
  StepShape shape;
  BatchShape& batch = shape.batch;
  shape.requests = static_cast<int64_t>(plan.entries.size());
  batch.tokens = plan.total_tokens;
  int64_t decode_kv = 0;
  batch.decode_kv_min = INT64_MAX;
  for (const StepEntry& entry : plan.entries) {
    const int64_t computed = entry.num_computed;
    if (entry.num_tokens > 1) {
      ++shape.prefills;
      batch.prefill_tokens += entry.num_tokens;
      batch.prefill_kv += computed;
    } else {
      ++batch.decodes;
      decode_kv += computed;
      batch.decode_kv_max = std::max(batch.decode_kv_max, computed);
      batch.decode_kv_min = std::min(batch.decode_kv_min, computed);
    }
  }
  if (batch.decodes > 0) {
    batch.decode_kv_mean = decode_kv / batch.decodes;
  } else {
    batch.decode_kv_min = 0;
  }
  batch.sequences = std::max(shape.requests, shape.prefills + batch.decodes);
  return shape;
}

StepShape dummy_shape() {
  StepShape shape;
  shape.batch.tokens = shape.batch.sequences = shape.batch.decodes = 1;
  shape.batch.decode_kv_mean = shape.batch.decode_kv_max = shape.batch.decode_kv_min = 1;
  return shape;
}

void pad_shape(StepShape& shape, int64_t tokens) {
  BatchShape& batch = shape.batch;
  const int64_t padding = tokens - batch.tokens;
  if (padding <= 0) return;
  batch.tokens = tokens;
  batch.sequences = std::max(shape.requests, shape.prefills + batch.decodes + padding);
}

StepBuilder::StepBuilder(Config config)
    : config_(std::move(config)),
      network_(config_.cluster->links, config_.cluster->reduce_bandwidth),
      router_(router_config(config_)),
      spec_(*config_.instance),
      model_(*spec_.model),
      stage_layers_(emitted_layers(config_)) {}

void StepBuilder::build(const StepShape& step, bool merged, StepGraphs& out) {
  BatchShape shape = step.batch;
  if (!config_.policies.no_graph_padding) {
    const auto& sizes = config_.capture_sizes;
    const auto size = std::lower_bound(sizes.begin(), sizes.end(), shape.tokens);
    if (size != sizes.end()) shape.tokens = *size;
  }
  make_rows(shape);
  // Dense ranks of a stage do the same and share a graph.
  out.resize(static_cast<size_t>(spec_.num_npus()));
  size_t npu = 0;
  for (int stage = 0; stage < spec_.pp; ++stage) {
    std::shared_ptr<StepGraph> graph;
    for (int rank = 0; rank < spec_.tp; ++rank) {
      if (rank == 0 || model_.is_moe()) {
        graph = fresh_graph();
        build_rank(stage, rank, shape, merged, *graph);
      }
      out[npu++] = graph;
    }
  }
}

// A graph that nobody runs any more, or a new one.
std::shared_ptr<StepGraph> StepBuilder::fresh_graph() {
  for (size_t tried = 0; tried < pool_.size(); ++tried) {
    next_in_pool_ = (next_in_pool_ + 1) % pool_.size();
    if (pool_[next_in_pool_].use_count() != 1) continue;
    pool_[next_in_pool_]->clear();
    return pool_[next_in_pool_];
  }
  return pool_.emplace_back(std::make_shared<StepGraph>());
}

// ---- rows

const StepBuilder::Ring* StepBuilder::ring(CollectiveKind kind, int64_t bytes, bool experts) {
  const int key = 2 * static_cast<int>(kind) + (experts ? 1 : 0);
  auto [found, fresh] = rings_.try_emplace({key, bytes});
  if (fresh) {
    const std::vector<int> dims = experts ? ep_dimensions(spec_, *config_.cluster) : tp_dimensions();
    found->second.phases = plan_collective(network_, kind, bytes, dims);
    found->second.ns = collective_ns(network_, found->second.phases);
  }
  return &found->second;
}

void StepBuilder::make_row(std::vector<Row>& rows, const BoundLayer& layer, const BatchShape& shape) {
  if (layer.kind == ProfiledKind::kMoe) return;
  if (layer.kind == ProfiledKind::kAttention && !shape.has_attention()) return;
  Row& row = rows.emplace_back();
  row.ns = config_.latency->layer_ns(layer, shape);
  if (spec_.tp == 1) return;
  const int64_t fp = spec_.types.weight_bytes;
  const bool vocabulary = !config_.policies.no_vocabulary_collectives;
  if (layer.name == "o_proj" || layer.name == "down_proj" || (vocabulary && layer.name == "embedding")) {
    row.ring = ring(CollectiveKind::kAllReduce, shape.tokens * model_.hidden * fp, false);
  } else if (vocabulary && layer.name == "lm_head") {
    row.ring = ring(CollectiveKind::kAllGather, shape.sequences * (model_.vocab / spec_.tp) * fp, false);
  }
}

void StepBuilder::make_rows(const BatchShape& shape) {
  const BoundSequence& sequence = config_.latency->sequence();
  rows_.prologue.clear();
  rows_.layer.clear();
  rows_.head.clear();
  for (const BoundLayer& layer : sequence.prologue) make_row(rows_.prologue, layer, shape);
  for (const auto* part : {&sequence.pre_attn, &sequence.post_attn, &sequence.mlp}) {
    for (const BoundLayer& layer : *part) make_row(rows_.layer, layer, shape);
  }
  for (const BoundLayer& layer : sequence.head) make_row(rows_.head, layer, shape);

  TimeNs layer_ns = 0, other_ns = config_.host_overhead_ns;
  for (const Row& row : rows_.layer) layer_ns += row.longest_ns();
  for (const auto* part : {&rows_.prologue, &rows_.head}) {
    for (const Row& row : *part) other_ns += row.longest_ns();
  }
  expert_ns_.clear();
  gather_ = scatter_ = nullptr;
  if (model_.is_moe()) {
    TimeNs slowest = 0;
    for (const ExpertLoad& load : router_.route(shape.tokens)) {
      expert_ns_.push_back(load.tokens > 0 ? config_.latency->moe_ns(load.tokens, load.experts) : 0);
      slowest = std::max(slowest, expert_ns_.back());
    }
    layer_ns += slowest;
    if (spec_.ep > 1) {
      const int64_t fp = spec_.types.weight_bytes;
      gather_ =
          ring(CollectiveKind::kAllGather,
               std::max<int64_t>(1, shape.tokens / spec_.ep) * (model_.hidden + model_.experts) * fp, true);
      scatter_ = ring(CollectiveKind::kReduceScatter, shape.tokens * model_.hidden * fp, true);
      layer_ns += gather_->ns + scatter_->ns;
    }
  }
  longest_ns_ = other_ns + layer_ns * model_.layers;
}

// ---- graphs

int32_t StepBuilder::add_compute(Draft& draft, TimeNs ns, int32_t parent) {
  const int32_t node = draft.graph->add(NodeKind::kCompute, ns);
  draft.graph->link(parent, node);
  return node;
}

void StepBuilder::add_row(Draft& draft, const Row& row) {
  const bool fused = draft.merged && row.ring != nullptr && row.ring->phases.size() == 1;
  if (draft.may_merge) {
    draft.graph->nodes[static_cast<size_t>(draft.compute)].amount += row.ns;
  } else {
    const int32_t before = draft.compute < 0       ? draft.input
                           : draft.collective >= 0 ? draft.collective
                                                   : draft.compute;
    draft.compute = add_compute(draft, row.ns, before);
  }
  draft.collective = -1;
  draft.may_merge = draft.merged;
  if (fused) {  // the rows since the last collective and this one are one node
    GraphNode& node = draft.graph->nodes[static_cast<size_t>(draft.compute)];
    node.kind = NodeKind::kCollective;
    node.ring = &row.ring->phases;
    draft.collective = draft.compute;
    draft.may_merge = false;
  } else if (row.ring != nullptr) {
    add_collective(draft, *row.ring, draft.compute);
  }
}

void StepBuilder::add_collective(Draft& draft, const Ring& ring, int32_t parent) {
  draft.collective = draft.graph->add(NodeKind::kCollective, 0);
  draft.graph->nodes.back().ring = &ring.phases;
  draft.graph->link(parent, draft.collective);
  draft.may_merge = false;
}

// Gather, the experts of this rank, scatter. The layer's last norm is the last compute node.
void StepBuilder::add_experts(Draft& draft, int rank) {
  StepGraph& graph = *draft.graph;
  const int32_t norm = draft.collective >= 0 ? draft.collective : draft.compute;
  if (gather_ != nullptr) add_collective(draft, *gather_, norm);
  const int32_t gathered = gather_ != nullptr ? draft.collective : -1;
  for (size_t i = 0; i < expert_ns_.size(); ++i) {
    if (static_cast<int>(i) % spec_.tp != rank || expert_ns_[i] == 0) continue;
    if (gathered < 0 && draft.may_merge) {
      graph.nodes[static_cast<size_t>(draft.compute)].amount += expert_ns_[i];
      continue;
    }
    const bool waits = gathered >= 0 && (i == 0 || !config_.policies.later_experts_skip_gather);
    draft.compute = add_compute(draft, expert_ns_[i], waits ? gathered : norm);
  }
  draft.collective = -1;
  if (scatter_ != nullptr) add_collective(draft, *scatter_, draft.compute);
}

void StepBuilder::build_rank(int stage, int rank, const BatchShape& shape, bool merged, StepGraph& graph) {
  const bool first = stage == 0, last = stage == spec_.pp - 1;
  const int64_t fp = spec_.types.weight_bytes;
  const int64_t hand_off_bytes = shape.tokens * model_.hidden * fp;
  Draft draft;
  draft.graph = &graph;
  draft.merged = merged;
  draft.input = first ? graph.add(NodeKind::kHostMemory, kInputBytesPerToken * fp * shape.tokens)
                      : graph.add(NodeKind::kReceive, hand_off_bytes);
  if (!first) graph.nodes.back().peer = -spec_.tp;
  if (first) {
    for (const Row& row : rows_.prologue) add_row(draft, row);
    if (draft.compute >= 0)
      graph.nodes[static_cast<size_t>(draft.input) + 1].amount += config_.host_overhead_ns;
  }
  for (int64_t l = 0; l < stage_layers_[static_cast<size_t>(stage)]; ++l) {
    for (const Row& row : rows_.layer) add_row(draft, row);
    if (model_.is_moe()) add_experts(draft, rank);
  }
  if (last) {
    for (const Row& row : rows_.head) add_row(draft, row);
    graph.link(draft.compute, graph.add(NodeKind::kHostMemory, kOutputBytesPerToken * shape.tokens));
    return;
  }
  const int32_t send = graph.add(NodeKind::kSend, hand_off_bytes);
  graph.nodes.back().peer = spec_.tp;
  const bool behind_collective = draft.collective >= 0 && spec_.tp > 1;
  const int32_t sent = behind_collective    ? draft.collective
                       : draft.compute >= 0 ? draft.compute
                                            : draft.input;
  graph.link(sent, send);
}

}  // namespace vllm
