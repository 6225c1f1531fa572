#pragma once

// How long one layer takes for one batch, from a profile bundle: section 8 of the interface specification.
// The tables are compiled once into flat arrays; a query is a few binary searches, allocates nothing and
// never reads past a table. One thread owns a model (it counts queries); instances with the same bundle and
// degree may share it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/profile_bundle.h"
#include "sim/architecture.h"

namespace vllm {

// What differs between the two modes, each rule at one place.
struct LatencyPolicies {
  // Key of the skew correction's chunk sum: as it is (no entry unless it was profiled), or the nearest
  // profiled one (the smaller of two at the same distance).
  bool skew_nearest_pc = true;
  // Alphas outside of [0, 1] say that a batch is slower than its slowest or faster than its mean: capped.
  bool skew_clamp_alpha = true;
  // Experts that T tokens activate on a rank under balanced routing: the count that distinct draws give on
  // average, or, without it, min(round(T * k / ep), E / ep).
  bool moe_expected_distinct = true;

  static LatencyPolicies native() { return {}; }
  static LatencyPolicies compat() { return {false, false, false}; }
};

// What of a batch decides its time. Everything that pads (DP waves, graphs) is already in it.
struct BatchShape {
  int64_t tokens = 0;          // T: scheduled, padding included
  int64_t sequences = 0;       // S: max(requests, prefills + decodes, padding included)
  int64_t prefill_tokens = 0;  // pc: sum of chunk lengths (entries with more than one token)
  int64_t prefill_kv = 0;      // kp: sum of what those requests had computed before
  int64_t decodes = 0;         // nd: entries of one token, no padding
  int64_t decode_kv_mean = 0;  // kd: floor of the mean of what they had computed before
  int64_t decode_kv_max = 0;
  int64_t decode_kv_min = 0;

  bool has_attention() const { return prefill_tokens > 0 || decodes > 0; }
};

// Queries on one axis that lay outside of what was profiled (answered by extrapolation above, by the first
// value below).
struct RangeReport {
  std::string table;  // "dense tp1", "attention tp2", ...
  std::string layer;
  std::string axis;  // "tokens", "kv_decode", ...
  int64_t queries = 0, outside = 0;
  int64_t profiled_min = 0, profiled_max = 0;
  int64_t seen_min = 0, seen_max = 0;
};

// An index into a LatencyModel; what kind of query it needs is in ArchitectureLayer::kind.
using LayerHandle = int;

// One row of the sequence, bound to its table.
struct BoundLayer {
  std::string name;
  ProfiledKind kind = ProfiledKind::kDense;
  LayerHandle handle = 0;
};

// The architecture's sequence with handles. `mlp` is mlp_moe for a mixture of experts.
struct BoundSequence {
  std::vector<BoundLayer> prologue, pre_attn, post_attn, mlp, head;
};

// For whom the tables are.
struct ProfiledInstance {
  std::string hardware;  // what this kind of device never runs has no row: rotary_emb on a TPU
  int tp = 1;
  bool moe = false;  // the model is a mixture of experts
};

class LatencyModel {
 public:
  // Refuses a bundle that lacks a layer of the architecture's sequence.
  static Result<LatencyModel> compile(const ProfileBundle& bundle, const Architecture& architecture,
                                      const ProfiledInstance& instance, const LatencyPolicies& policies);

  const BoundSequence& sequence() const { return sequence_; }
  const LatencyPolicies& policies() const { return policies_; }

  // Any layer of the sequence but kMoe, in ns, at least 1.
  int64_t layer_ns(const BoundLayer& layer, const BatchShape& shape);

  // The queries behind it.
  int64_t dense_ns(LayerHandle layer, int64_t tokens);
  int64_t per_sequence_ns(LayerHandle layer, int64_t sequences);
  int64_t attention_ns(const BatchShape& shape);  // skew correction included; needs has_attention()
  // The table itself, without skew: A(pc, kp, nd, kd).
  int64_t attention_table_ns(int64_t pc, int64_t kp, int64_t nd, int64_t kd);
  // `tokens` local to the rank (> 0), `experts` distinct ones that they activate there.
  int64_t moe_ns(int64_t tokens, int64_t experts);

  // For tests: the handle of a layer by name; -1 when there is none.
  LayerHandle find_dense(std::string_view layer) const;
  LayerHandle find_per_sequence(std::string_view layer) const;

  // By layer and axis, only those with a query outside; in a fixed order.
  std::vector<RangeReport> out_of_range() const;

 private:
  struct RangeCounter {
    int64_t low = 0, high = 0;  // profiled
    int64_t queries = 0, outside = 0;
    int64_t seen_min = INT64_MAX, seen_max = INT64_MIN;
    void count(int64_t value) {
      ++queries;
      seen_min = value < seen_min ? value : seen_min;
      seen_max = value > seen_max ? value : seen_max;
      if (value < low || value > high) ++outside;
    }
  };
  // A run of entries: of points in a curve, of kp rows in a slice.
  struct Run {
    uint32_t begin = 0, end = 0;
  };
  struct Curve {
    std::string name, table;
    Run points;  // of keys_ and values_
    RangeCounter range;
  };

  double curve_value(Run run, int64_t x) const;
  double slice_value(int slice, int64_t kp, int64_t kd) const;
  double attention_value(int64_t pc, int64_t kp, int64_t nd, int64_t kd) const;
  double skew_alpha(const BatchShape& shape) const;
  Status bind(const ProfileBundle& bundle, const Architecture& architecture, const ProfiledInstance& instance,
              const std::vector<std::string>& names, std::vector<BoundLayer>& out);
  Result<LayerHandle> bind_curve(const ProfileBundle& bundle, const ArchitectureLayer& layer, int tp);
  Status compile_attention(const ProfileTables& tables);
  void compile_moe(const ProfileTables& tables);
  void compile_skew(const ProfileBundle& bundle, const ProfileTables& tables);

  LatencyPolicies policies_;
  BoundSequence sequence_;
  std::vector<int64_t> keys_, values_;  // of all curves: dense, per sequence, kd rows of attention, moe
  std::vector<Curve> dense_, per_sequence_;

  // Attention: slices by (pc, nd); an absent one is the nearest that is there. Each slice is a run of kp
  // rows, each row a run of (kd, ns) points.
  std::string attention_table_;
  std::vector<int64_t> pc_axis_, nd_axis_;
  std::vector<int> slice_of_;  // [pc index * nd_axis_.size() + nd index]
  std::vector<Run> slices_;
  std::vector<int64_t> kp_keys_;
  std::vector<Run> rows_;  // of each kp key: its points in keys_ and values_
  RangeCounter pc_range_, kp_range_, nd_range_, kd_range_;

  // Mixture of experts: one curve over tokens for each expert count.
  std::string moe_table_;
  std::vector<int64_t> moe_experts_;
  std::vector<Run> moe_curves_;
  RangeCounter moe_tokens_range_, moe_experts_range_;

  SkewMeta skew_meta_;
  std::vector<SkewBucket> skew_;   // by (pc, labels)
  std::vector<int64_t> skew_pcs_;  // each once
  double alpha_default_ = 0;
};

// What one expert-parallel rank gets under balanced routing.
struct ExpertLoad {
  int64_t tokens = 0;
  int64_t experts = 0;  // distinct, activated
};
// T tokens, each of k experts of `num_experts`, over `ep` ranks. Rounds half to even.
ExpertLoad balanced_expert_load(int64_t tokens, int64_t experts_per_token, int64_t num_experts, int64_t ep,
                                const LatencyPolicies& policies);

}  // namespace vllm
