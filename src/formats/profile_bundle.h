#pragma once

// A profile bundle as it lies on disk: <hardware>/<model>/<variant>/ with meta.yaml and, for each
// tensor-parallel degree, tp<N>/{dense,per_sequence,attention,moe,skew_fit}.csv (docs/profiles.md). Times are
// integers: nanoseconds, max(1, round(us * 1000)). The reader checks everything that a look-up relies on
// (finite positive times, no hole in a grid, rows in order); sim/latency_model.h compiles the tables for
// look-ups. Plain values, no thread rules.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace vllm {

// Time of one layer over one count (tokens or sequences). Keys ascend strictly; of duplicate rows the first
// counts.
struct LayerCurve {
  std::string layer;
  std::vector<int64_t> keys;
  std::vector<int64_t> ns;
};

struct AttentionRow {
  int64_t prefill_chunk = 0, kv_prefill = 0, n_decode = 0, kv_decode = 0;
  int64_t ns = 0;
};

struct MoeRow {
  int64_t experts = 0, tokens = 0;
  int64_t ns = 0;
};

// One axis of the skew correction: right-closed bins (edge[i], edge[i+1]] with a label each.
struct SkewAxis {
  std::vector<double> edges;
  std::vector<std::string> labels;
  // Index of the bin that holds `value`; the first or last one when it lies outside of all.
  int bin(double value) const;
};

struct SkewBucket {
  int64_t pc = 0;                                // raw sum of prefill chunk lengths
  int n = 0, skew_rate = 0, kv_big = 0, kp = 0;  // indices of labels
  double alpha = 0;
};

// meta.yaml's skew_fit. Not enabled: no correction is applied, whatever else lies in the folder.
struct SkewMeta {
  bool enabled = false;
  SkewAxis n, skew_rate, kv_big, kp;
};

struct ProfileMeta {
  std::string path;  // of meta.yaml
  std::string hardware, model, variant, architecture, gpu, vllm_version;
  std::vector<int> tp_degrees;
  int64_t block_size = 0;              // engine_effective.block_size; 0: not given
  int64_t max_num_batched_tokens = 0;  // what was profiled; 0: not given
  int64_t max_num_seqs = 0;
  // Batch sizes that a CUDA graph was captured for, ascending, when the bundle states them
  // (execution.cudagraph_capture_sizes); a smaller batch is padded to the next one.
  std::vector<int64_t> cudagraph_capture_sizes;
  SkewMeta skew;
};

// The tables of one tensor-parallel degree, ordered: curves as in the file, attention rows by (chunk,
// decodes, kv_prefill, kv_decode), moe rows by (experts, tokens), skew buckets by all their keys.
struct ProfileTables {
  int tp = 1;
  std::string dir;  // ".../tp1"
  std::vector<LayerCurve> dense, per_sequence;
  std::vector<AttentionRow> attention;
  std::vector<MoeRow> moe;
  std::vector<SkewBucket> skew;
  double alpha_default = 0;  // for buckets that the fit has no entry for
};

struct ProfileBundle {
  std::string dir;
  ProfileMeta meta;
  // The degree that was asked for, and 1: layers that do not depend on the degree and all moe times are read
  // there.
  std::map<int, ProfileTables> by_tp;
  const ProfileTables* tables(int tp) const;
};

// What of a bundle to read.
struct ProfileRequest {
  int tp = 1;
  bool moe = false;  // tp1/moe.csv is needed
};

// Refuses, naming file, line and field: no such bundle or degree (with those that there are), a table without
// rows, a missing column, a time that is not a positive finite number, a negative key, a grid with a hole,
// unknown skew labels.
Result<ProfileBundle> read_profile_bundle(const std::string& dir, const ProfileRequest& request);

// "bf16", "fp16", "fp32", "fp8", "int8", with "-kv<short>" when the KV type is another: the name of the
// variant's folder. `kv` empty: auto.
std::string profile_variant(std::string_view dtype_short, std::string_view kv_short);

// The parts, for tests and fuzzing. `what` names the file in errors.
Result<ProfileMeta> parse_profile_meta(const std::string& text, const std::string& what,
                                       std::map<int, ProfileTables>* inline_skew);
Result<std::vector<LayerCurve>> parse_curves_csv(std::string_view text, const std::string& what,
                                                 std::string_view key_column);
Result<std::vector<AttentionRow>> parse_attention_csv(std::string_view text, const std::string& what);
Result<std::vector<MoeRow>> parse_moe_csv(std::string_view text, const std::string& what);
Result<std::vector<SkewBucket>> parse_skew_csv(std::string_view text, const std::string& what,
                                               const SkewMeta& meta);

}  // namespace vllm
