#include "sim/latency_model.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>

namespace vllm {
namespace {

// Pairs of (prefill_chunk, n_decode); the nearest one of each absent pair is found by a walk.
constexpr size_t kMaxSlicePairs = size_t{1} << 14;

// Where x lies on an ascending axis: value(low) + t * (value(high) - value(low)). Below the first key t is 0,
// above the last one it is beyond 1, and on a key both are that key.
struct Bracket {
  size_t low = 0, high = 0;
  double t = 0;
};

Bracket bracket(const int64_t* keys, size_t n, int64_t x) {
  const auto above = static_cast<size_t>(std::upper_bound(keys, keys + n, x) - keys);
  if (above == 0) return {0, 0, 0};
  if (keys[above - 1] == x || n == 1) return {above - 1, above - 1, 0};
  const size_t high = above == n ? n - 1 : above;
  const size_t low = high - 1;
  const double t = static_cast<double>(x - keys[low]) / static_cast<double>(keys[high] - keys[low]);
  return {low, high, t};
}

double blend(double low, double high, double t) { return low + t * (high - low); }

// Truncated, at least 1. Extrapolation may leave what an integer holds; a simulated time beyond a century is
// none.
int64_t whole_ns(double value) {
  constexpr double kMaxNs = 4e18;
  if (!(value > 1)) return 1;
  return static_cast<int64_t>(std::min(value, kMaxNs));
}

const LayerCurve* find_curve(const std::vector<LayerCurve>& curves, std::string_view name) {
  for (const LayerCurve& c : curves) {
    if (c.layer == name) return &c;
  }
  return nullptr;
}

const char* table_name(ProfiledKind kind) { return kind == ProfiledKind::kDense ? "dense" : "per_sequence"; }

}  // namespace

// ---- compiling ----

Result<LayerHandle> LatencyModel::bind_curve(const ProfileBundle& bundle, const ArchitectureLayer& layer,
                                             int tp) {
  const bool dense = layer.kind == ProfiledKind::kDense;
  std::vector<Curve>& bound = dense ? dense_ : per_sequence_;
  for (size_t i = 0; i < bound.size(); ++i) {
    if (bound[i].name == layer.name) return static_cast<LayerHandle>(i);
  }
  const int degree = layer.tp_stable ? 1 : tp;
  const ProfileTables* tables = bundle.tables(degree);
  if (tables == nullptr) {
    return bad_input("{}: has no tables tp{}, which layer '{}' is read from whatever the degree", bundle.dir,
                     degree, layer.name);
  }
  const LayerCurve* curve = find_curve(dense ? tables->dense : tables->per_sequence, layer.name);
  if (curve == nullptr) {
    return bad_input("{}/{}.csv: has no rows for layer '{}', which the architecture's sequence has",
                     tables->dir, table_name(layer.kind), layer.name);
  }
  Curve& c = bound.emplace_back();
  c.name = layer.name;
  c.table = fmt::format("{} tp{}", table_name(layer.kind), degree);
  c.points.begin = static_cast<uint32_t>(keys_.size());
  keys_.insert(keys_.end(), curve->keys.begin(), curve->keys.end());
  values_.insert(values_.end(), curve->ns.begin(), curve->ns.end());
  c.points.end = static_cast<uint32_t>(keys_.size());
  c.range.low = curve->keys.front();
  c.range.high = curve->keys.back();
  return static_cast<LayerHandle>(bound.size() - 1);
}

Status LatencyModel::bind(const ProfileBundle& bundle, const Architecture& architecture,
                          const ProfiledInstance& instance, const std::vector<std::string>& names,
                          std::vector<BoundLayer>& out) {
  const bool tpu = instance.hardware.find("TPU") != std::string::npos;
  for (const std::string& name : names) {
    if (tpu && name == "rotary_emb") continue;
    const ArchitectureLayer* layer = architecture.find(name);
    if (layer == nullptr)
      return bad_input("{}: layer '{}' of the sequence is not in the catalog", architecture.path, name);
    BoundLayer bound = {name, layer->kind, 0};
    if (layer->kind == ProfiledKind::kDense || layer->kind == ProfiledKind::kPerSequence) {
      VLLM_ASSIGN_OR_RETURN(bound.handle, bind_curve(bundle, *layer, instance.tp));
    }
    out.push_back(std::move(bound));
  }
  return Status::ok();
}

Status LatencyModel::compile_attention(const ProfileTables& tables) {
  attention_table_ = fmt::format("attention tp{}", tables.tp);
  for (const AttentionRow& r : tables.attention) {
    pc_axis_.push_back(r.prefill_chunk);
    nd_axis_.push_back(r.n_decode);
  }
  for (std::vector<int64_t>* axis : {&pc_axis_, &nd_axis_}) {
    std::sort(axis->begin(), axis->end());
    axis->erase(std::unique(axis->begin(), axis->end()), axis->end());
  }
  if (pc_axis_.size() * nd_axis_.size() > kMaxSlicePairs) {
    return bad_input(
        "{}/attention.csv: has {} values of prefill_chunk and {} of n_decode, at most {} pairs are accepted",
        tables.dir, pc_axis_.size(), nd_axis_.size(), kMaxSlicePairs);
  }
  slice_of_.assign(pc_axis_.size() * nd_axis_.size(), -1);
  struct Pair {
    int64_t pc, nd;
  };
  std::vector<Pair> pairs;  // of each slice, ascending
  keys_.reserve(keys_.size() + tables.attention.size());
  values_.reserve(keys_.capacity());
  kp_range_.low = kd_range_.low = INT64_MAX;
  const AttentionRow* before = nullptr;
  for (const AttentionRow& r : tables.attention) {
    const bool new_slice =
        before == nullptr || before->prefill_chunk != r.prefill_chunk || before->n_decode != r.n_decode;
    if (new_slice) {
      const auto p = static_cast<size_t>(std::lower_bound(pc_axis_.begin(), pc_axis_.end(), r.prefill_chunk) -
                                         pc_axis_.begin());
      const auto n = static_cast<size_t>(std::lower_bound(nd_axis_.begin(), nd_axis_.end(), r.n_decode) -
                                         nd_axis_.begin());
      slice_of_[p * nd_axis_.size() + n] = static_cast<int>(slices_.size());
      const auto at = static_cast<uint32_t>(rows_.size());
      slices_.push_back({at, at});
      pairs.push_back({r.prefill_chunk, r.n_decode});
    }
    if (new_slice || before->kv_prefill != r.kv_prefill) {
      const auto at = static_cast<uint32_t>(keys_.size());
      rows_.push_back({at, at});
      kp_keys_.push_back(r.kv_prefill);
      ++slices_.back().end;
    }
    keys_.push_back(r.kv_decode);
    values_.push_back(r.ns);
    ++rows_.back().end;
    // A slice without prefills has kv_prefill 0 only, one without decodes kv_decode 0 only: no range of that
    // axis.
    kp_range_.low = std::min(kp_range_.low, r.kv_prefill);
    kp_range_.high = std::max(kp_range_.high, r.kv_prefill);
    kd_range_.low = std::min(kd_range_.low, r.kv_decode);
    kd_range_.high = std::max(kd_range_.high, r.kv_decode);
    before = &r;
  }
  for (size_t p = 0; p < pc_axis_.size(); ++p) {
    for (size_t n = 0; n < nd_axis_.size(); ++n) {
      int& slice = slice_of_[p * nd_axis_.size() + n];
      if (slice >= 0) continue;
      int64_t best = INT64_MAX;
      for (size_t i = 0; i < pairs.size(); ++i) {
        const int64_t dp = pairs[i].pc - pc_axis_[p], dn = pairs[i].nd - nd_axis_[n];
        const int64_t distance = dp * dp + dn * dn;
        if (distance >= best) continue;  // of equally near ones the smallest (pc, nd)
        best = distance;
        slice = static_cast<int>(i);
      }
    }
  }
  pc_range_.low = pc_axis_.front();
  pc_range_.high = pc_axis_.back();
  nd_range_.low = nd_axis_.front();
  nd_range_.high = nd_axis_.back();
  return Status::ok();
}

void LatencyModel::compile_moe(const ProfileTables& tables) {
  moe_table_ = fmt::format("moe tp{}", tables.tp);
  moe_tokens_range_.low = INT64_MAX;
  for (const MoeRow& r : tables.moe) {
    if (moe_experts_.empty() || moe_experts_.back() != r.experts) {
      const auto at = static_cast<uint32_t>(keys_.size());
      moe_experts_.push_back(r.experts);
      moe_curves_.push_back({at, at});
    }
    keys_.push_back(r.tokens);
    values_.push_back(r.ns);
    ++moe_curves_.back().end;
    moe_tokens_range_.low = std::min(moe_tokens_range_.low, r.tokens);
    moe_tokens_range_.high = std::max(moe_tokens_range_.high, r.tokens);
  }
  moe_experts_range_.low = moe_experts_.front();
  moe_experts_range_.high = moe_experts_.back();
}

void LatencyModel::compile_skew(const ProfileBundle& bundle, const ProfileTables& tables) {
  skew_meta_ = bundle.meta.skew;
  if (!skew_meta_.enabled) return;
  alpha_default_ = tables.alpha_default;
  skew_ = tables.skew;
  for (const SkewBucket& b : skew_) {
    if (skew_pcs_.empty() || skew_pcs_.back() != b.pc) skew_pcs_.push_back(b.pc);
  }
}

Result<LatencyModel> LatencyModel::compile(const ProfileBundle& bundle, const Architecture& architecture,
                                           const ProfiledInstance& instance,
                                           const LatencyPolicies& policies) {
  const ProfileTables* tables = bundle.tables(instance.tp);
  if (tables == nullptr) {
    return bad_input("{}: tensor parallel degree {} was not read", bundle.dir, instance.tp);
  }
  LatencyModel model;
  model.policies_ = policies;
  const std::vector<std::string>& mlp = instance.moe ? architecture.mlp_moe : architecture.mlp_dense;
  if (mlp.empty()) {
    return bad_input("{}: 'sequence.{}' is empty, which a {} model needs", architecture.path,
                     instance.moe ? "mlp_moe" : "mlp_dense", instance.moe ? "mixture-of-experts" : "dense");
  }
  BoundSequence& s = model.sequence_;
  const std::tuple<const std::vector<std::string>&, std::vector<BoundLayer>&> parts[] = {
      {architecture.prologue, s.prologue},
      {architecture.pre_attn, s.pre_attn},
      {architecture.post_attn, s.post_attn},
      {mlp, s.mlp},
      {architecture.head, s.head}};
  for (const auto& [names, bound] : parts) {
    VLLM_RETURN_IF_ERROR(model.bind(bundle, architecture, instance, names, bound));
  }
  VLLM_RETURN_IF_ERROR(model.compile_attention(*tables));
  if (instance.moe) {
    const ProfileTables* one = bundle.tables(1);
    if (one == nullptr || one->moe.empty()) return bad_input("{}: has no moe.csv in tp1", bundle.dir);
    model.compile_moe(*one);
  }
  model.compile_skew(bundle, *tables);
  return model;
}

// ---- looking up ----

double LatencyModel::curve_value(Run run, int64_t x) const {
  const Bracket b = bracket(keys_.data() + run.begin, run.end - run.begin, x);
  const auto low = static_cast<double>(values_[run.begin + b.low]);
  if (b.low == b.high) return low;
  return blend(low, static_cast<double>(values_[run.begin + b.high]), b.t);
}

double LatencyModel::slice_value(int slice, int64_t kp, int64_t kd) const {
  const Run rows = slices_[static_cast<size_t>(slice)];
  const Bracket b = bracket(kp_keys_.data() + rows.begin, rows.end - rows.begin, kp);
  const double low = curve_value(rows_[rows.begin + b.low], kd);
  if (b.low == b.high) return low;
  return blend(low, curve_value(rows_[rows.begin + b.high], kd), b.t);
}

double LatencyModel::attention_value(int64_t pc, int64_t kp, int64_t nd, int64_t kd) const {
  const Bracket p = bracket(pc_axis_.data(), pc_axis_.size(), pc);
  const Bracket n = bracket(nd_axis_.data(), nd_axis_.size(), nd);
  const auto at_chunk = [&](size_t chunk) {
    const int* const slices = slice_of_.data() + chunk * nd_axis_.size();
    const double low = slice_value(slices[n.low], kp, kd);
    if (n.low == n.high) return low;
    return blend(low, slice_value(slices[n.high], kp, kd), n.t);
  };
  const double low = at_chunk(p.low);
  if (p.low == p.high) return low;
  return blend(low, at_chunk(p.high), p.t);
}

int64_t LatencyModel::attention_table_ns(int64_t pc, int64_t kp, int64_t nd, int64_t kd) {
  pc_range_.count(pc);
  nd_range_.count(nd);
  if (pc > 0) kp_range_.count(kp);
  if (nd > 0) kd_range_.count(std::max(kd, kd_range_.low));
  return whole_ns(attention_value(pc, kp, nd, kd));
}

double LatencyModel::skew_alpha(const BatchShape& shape) const {
  const double spread = static_cast<double>(shape.decode_kv_max - shape.decode_kv_min);
  const double rate =
      std::clamp(static_cast<double>(shape.decode_kv_mean - shape.decode_kv_min) / spread, 0.0, 1.0);
  SkewBucket key;
  key.pc = shape.prefill_tokens;
  if (policies_.skew_nearest_pc && !skew_pcs_.empty()) {
    const auto above = std::lower_bound(skew_pcs_.begin(), skew_pcs_.end(), key.pc);
    if (above == skew_pcs_.end()) {
      key.pc = skew_pcs_.back();
    } else if (above != skew_pcs_.begin() && key.pc - *(above - 1) <= *above - key.pc) {
      key.pc = *(above - 1);
    } else {
      key.pc = *above;
    }
  }
  key.n = skew_meta_.n.bin(static_cast<double>(shape.decodes));
  key.skew_rate = skew_meta_.skew_rate.bin(rate);
  key.kv_big = skew_meta_.kv_big.bin(static_cast<double>(shape.decode_kv_max));
  key.kp = skew_meta_.kp.bin(static_cast<double>(shape.prefill_kv));
  const auto order = [](const SkewBucket& b) { return std::tie(b.pc, b.n, b.skew_rate, b.kv_big, b.kp); };
  const auto found =
      std::lower_bound(skew_.begin(), skew_.end(), key,
                       [&](const SkewBucket& a, const SkewBucket& b) { return order(a) < order(b); });
  const double alpha = found != skew_.end() && order(*found) == order(key) ? found->alpha : alpha_default_;
  return policies_.skew_clamp_alpha ? std::clamp(alpha, 0.0, 1.0) : alpha;
}

int64_t LatencyModel::attention_ns(const BatchShape& shape) {
  const int64_t mean =
      attention_table_ns(shape.prefill_tokens, shape.prefill_kv, shape.decodes, shape.decode_kv_mean);
  const bool skewed = skew_meta_.enabled && shape.decodes > 1 &&
                      shape.decode_kv_max != shape.decode_kv_mean &&
                      shape.decode_kv_max > shape.decode_kv_min;
  if (!skewed) return mean;
  const double alpha = skew_alpha(shape);
  if (alpha == 0) return mean;
  const int64_t slowest =
      attention_table_ns(shape.prefill_tokens, shape.prefill_kv, shape.decodes, shape.decode_kv_max);
  if (slowest <= mean) return mean;
  const double value =
      std::nearbyint(static_cast<double>(mean) + alpha * static_cast<double>(slowest - mean));
  return whole_ns(value);
}

int64_t LatencyModel::dense_ns(LayerHandle layer, int64_t tokens) {
  assert(layer >= 0 && static_cast<size_t>(layer) < dense_.size());
  Curve& c = dense_[static_cast<size_t>(layer)];
  const int64_t x = std::max<int64_t>(1, tokens);
  c.range.count(x);
  return whole_ns(curve_value(c.points, x));
}

int64_t LatencyModel::per_sequence_ns(LayerHandle layer, int64_t sequences) {
  assert(layer >= 0 && static_cast<size_t>(layer) < per_sequence_.size());
  Curve& c = per_sequence_[static_cast<size_t>(layer)];
  const int64_t x = std::max<int64_t>(1, sequences);
  c.range.count(x);
  return whole_ns(curve_value(c.points, x));
}

int64_t LatencyModel::moe_ns(int64_t tokens, int64_t experts) {
  moe_tokens_range_.count(tokens);
  moe_experts_range_.count(experts);
  const Bracket b = bracket(moe_experts_.data(), moe_experts_.size(), experts);
  const double low = curve_value(moe_curves_[b.low], tokens);
  if (b.low == b.high) return whole_ns(low);
  return whole_ns(blend(low, curve_value(moe_curves_[b.high], tokens), b.t));
}

int64_t LatencyModel::layer_ns(const BoundLayer& layer, const BatchShape& shape) {
  switch (layer.kind) {
    case ProfiledKind::kDense:
      return dense_ns(layer.handle, shape.tokens);
    case ProfiledKind::kPerSequence:
      return per_sequence_ns(layer.handle, shape.sequences);
    case ProfiledKind::kAttention:
      return attention_ns(shape);
    case ProfiledKind::kMoe:
      break;  // needs the rank's load: moe_ns
  }
  return 0;
}

LayerHandle LatencyModel::find_dense(std::string_view layer) const {
  for (size_t i = 0; i < dense_.size(); ++i) {
    if (dense_[i].name == layer) return static_cast<LayerHandle>(i);
  }
  return -1;
}

LayerHandle LatencyModel::find_per_sequence(std::string_view layer) const {
  for (size_t i = 0; i < per_sequence_.size(); ++i) {
    if (per_sequence_[i].name == layer) return static_cast<LayerHandle>(i);
  }
  return -1;
}

std::vector<RangeReport> LatencyModel::out_of_range() const {
  std::vector<RangeReport> out;
  const auto add = [&](const std::string& table, const std::string& layer, const char* axis,
                       const RangeCounter& c) {
    if (c.outside == 0) return;
    out.push_back({table, layer, axis, c.queries, c.outside, c.low, c.high, c.seen_min, c.seen_max});
  };
  for (const Curve& c : dense_) add(c.table, c.name, "tokens", c.range);
  for (const Curve& c : per_sequence_) add(c.table, c.name, "sequences", c.range);
  add(attention_table_, "attention", "prefill_chunk", pc_range_);
  add(attention_table_, "attention", "kv_prefill", kp_range_);
  add(attention_table_, "attention", "n_decode", nd_range_);
  add(attention_table_, "attention", "kv_decode", kd_range_);
  add(moe_table_, "moe", "tokens", moe_tokens_range_);
  add(moe_table_, "moe", "activated_experts", moe_experts_range_);
  return out;
}

ExpertLoad balanced_expert_load(int64_t tokens, int64_t experts_per_token, int64_t num_experts, int64_t ep,
                                const LatencyPolicies& policies) {
  const auto t = static_cast<double>(tokens), k = static_cast<double>(experts_per_token);
  const auto e = static_cast<double>(num_experts), ranks = static_cast<double>(ep);
  const int64_t own = num_experts / ep;
  ExpertLoad load;
  if (!policies.moe_expected_distinct) {
    load.tokens = static_cast<int64_t>(std::nearbyint(t * (1 - std::pow((ranks - 1) / ranks, k))));
    load.experts = std::min(static_cast<int64_t>(std::nearbyint(t * k / ranks)), own);
    return load;
  }
  // A token's k experts are distinct: it misses this rank with the probability that all are drawn from the
  // others.
  double miss = 1;
  for (int64_t i = 0; i < experts_per_token; ++i) {
    miss *=
        std::max(0.0, e - static_cast<double>(own) - static_cast<double>(i)) / (e - static_cast<double>(i));
  }
  load.tokens = static_cast<int64_t>(std::nearbyint(t * (1 - miss)));
  const double distinct = static_cast<double>(own) * (1 - std::pow(1 - k / e, t));
  load.experts = std::min(
      own, std::max<int64_t>(load.tokens > 0 ? 1 : 0, static_cast<int64_t>(std::nearbyint(distinct))));
  return load;
}

}  // namespace vllm
