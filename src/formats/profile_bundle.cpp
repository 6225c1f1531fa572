#include "formats/profile_bundle.h"

#include <algorithm>
#include <tuple>

#include "base/file.h"
#include "formats/csv_scan.h"

namespace vllm {
namespace {

constexpr int64_t kMaxTableBytes = int64_t{256} << 20;

// ---- holes ----
//
// Grids may be ragged: a slice may end earlier than another, and a table may be the union of two
// progressions, so that whole families of keys are absent. A key that is absent between two others is a hole
// when another set of keys has everything that this one has there and only little more: then a row was lost,
// and interpolating over it would hide it.

using KeySet = std::vector<int64_t>;

// The first key that `set` lacks and `other` has; -1 when `set` is no damaged `other`.
int64_t missing_key(const KeySet& set, const KeySet& other) {
  if (set.size() < 2) return -1;
  int64_t first = -1;
  size_t missing = 0, i = 0;
  for (const int64_t key : other) {
    if (key < set.front() || key > set.back()) continue;
    if (i < set.size() && set[i] == key) {
      ++i;
    } else if (i < set.size() && set[i] < key) {
      return -1;  // has a key that the other lacks
    } else {
      if (first < 0) first = key;
      ++missing;
    }
  }
  const bool little = missing == 1 || missing * 5 <= other.size();
  if (i != set.size() || !little) return -1;
  return first;
}

// Sets that differ, and for each the first place where it stands.
class KeySets {
 public:
  void add(const KeySet& set, size_t place) {
    constexpr size_t kMaxSets = 256;  // more are no grid any more
    if (sets_.size() == kMaxSets) return;
    for (const auto& [known, where] : sets_) {
      if (known == set) return;
    }
    sets_.emplace_back(set, place);
  }
  // {place, key} of the first hole; key -1 when there is none.
  std::pair<size_t, int64_t> hole() const {
    for (const auto& [set, place] : sets_) {
      for (const auto& [other, elsewhere] : sets_) {
        const int64_t key = missing_key(set, other);
        if (key >= 0) return {place, key};
      }
    }
    return {0, -1};
  }

 private:
  std::vector<std::pair<KeySet, size_t>> sets_;
};

Status check_curve_holes(const std::vector<LayerCurve>& curves, const std::string& what,
                         std::string_view key_column) {
  KeySets sets;
  for (size_t i = 0; i < curves.size(); ++i) sets.add(curves[i].keys, i);
  const auto [place, key] = sets.hole();
  if (key < 0) return Status::ok();
  return bad_input("{}: layer '{}' has no row with {} {}, which other layers have: the grid has a hole", what,
                   printable(curves[place].layer), key_column, key);
}

Status check_moe_holes(const std::vector<MoeRow>& rows, const std::string& what) {
  KeySets sets;
  for (size_t i = 0; i < rows.size();) {
    const size_t begin = i;
    KeySet keys;
    for (; i < rows.size() && rows[i].experts == rows[begin].experts; ++i) keys.push_back(rows[i].tokens);
    sets.add(keys, begin);
  }
  const auto [place, key] = sets.hole();
  if (key < 0) return Status::ok();
  return bad_input(
      "{}: activated_experts {} has no row with tokens {}, which other expert counts have: the grid has a "
      "hole",
      what, rows[place].experts, key);
}

// Rows are in order.
Status check_attention_holes(const std::vector<AttentionRow>& rows, const std::string& what) {
  const auto hole = [&](size_t place, std::string_view column, int64_t key, bool whole_slice) {
    const AttentionRow& r = rows[place];
    std::string at = fmt::format("prefill_chunk {}", r.prefill_chunk);
    if (column != "n_decode") at += fmt::format(", n_decode {}", r.n_decode);
    if (!whole_slice) at += fmt::format(", kv_prefill {}", r.kv_prefill);
    return bad_input("{}: {} has no row with {} {}, which similar ones have: the grid has a hole", what, at,
                     column, key);
  };
  KeySets chunks, slices, points;
  KeySet decodes, prefills, kvs;
  for (size_t i = 0; i < rows.size();) {
    const size_t chunk_begin = i;
    decodes.clear();
    while (i < rows.size() && rows[i].prefill_chunk == rows[chunk_begin].prefill_chunk) {
      const size_t slice_begin = i;
      decodes.push_back(rows[i].n_decode);
      prefills.clear();
      while (i < rows.size() && rows[i].prefill_chunk == rows[slice_begin].prefill_chunk &&
             rows[i].n_decode == rows[slice_begin].n_decode) {
        const size_t row_begin = i;
        prefills.push_back(rows[i].kv_prefill);
        kvs.clear();
        for (;
             i < rows.size() && rows[i].prefill_chunk == rows[row_begin].prefill_chunk &&
             rows[i].n_decode == rows[row_begin].n_decode && rows[i].kv_prefill == rows[row_begin].kv_prefill;
             ++i) {
          kvs.push_back(rows[i].kv_decode);
        }
        points.add(kvs, row_begin);
      }
      slices.add(prefills, slice_begin);
    }
    chunks.add(decodes, chunk_begin);
  }
  if (const auto [place, key] = points.hole(); key >= 0) return hole(place, "kv_decode", key, false);
  if (const auto [place, key] = slices.hole(); key >= 0) return hole(place, "kv_prefill", key, true);
  if (const auto [place, key] = chunks.hole(); key >= 0) return hole(place, "n_decode", key, true);
  return Status::ok();
}

// ---- reading ----

// Sorts by `key` where the file is not in order, and keeps the first of equal rows.
template <typename Row, typename Key>
void sort_and_unique(std::vector<Row>& rows, Key key) {
  const auto less = [&](const Row& a, const Row& b) { return key(a) < key(b); };
  if (!std::is_sorted(rows.begin(), rows.end(), less)) std::stable_sort(rows.begin(), rows.end(), less);
  rows.erase(
      std::unique(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return key(a) == key(b); }),
      rows.end());
}

void sort_curve(LayerCurve& curve) {
  if (std::adjacent_find(curve.keys.begin(), curve.keys.end(), std::greater_equal<>()) == curve.keys.end())
    return;
  std::vector<std::pair<int64_t, int64_t>> points;
  for (size_t i = 0; i < curve.keys.size(); ++i) points.emplace_back(curve.keys[i], curve.ns[i]);
  sort_and_unique(points, [](const auto& p) { return p.first; });
  curve.keys.clear();
  curve.ns.clear();
  for (const auto& [key, ns] : points) {
    curve.keys.push_back(key);
    curve.ns.push_back(ns);
  }
}

std::string tables_dir(const std::string& dir, int tp) { return join_path(dir, fmt::format("tp{}", tp)); }

template <typename T, typename Parse>
Status read_table(const std::string& path, std::vector<T>& out, const Parse& parse) {
  VLLM_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxTableBytes));
  VLLM_ASSIGN_OR_RETURN(out, parse(text, path));
  return Status::ok();
}

Status read_curves(ProfileTables& tables) {
  VLLM_RETURN_IF_ERROR(
      read_table(join_path(tables.dir, "dense.csv"), tables.dense,
                 [](const auto& text, const auto& path) { return parse_curves_csv(text, path, "tokens"); }));
  return read_table(
      join_path(tables.dir, "per_sequence.csv"), tables.per_sequence,
      [](const auto& text, const auto& path) { return parse_curves_csv(text, path, "sequences"); });
}

Status check_degree(const std::string& dir, const ProfileMeta& meta, int tp) {
  if (is_directory(tables_dir(dir, tp))) return Status::ok();
  std::vector<int> there;
  for (const int degree : meta.tp_degrees) {
    if (is_directory(tables_dir(dir, degree))) there.push_back(degree);
  }
  if (there.empty())
    return bad_input("{}: has no tables for tensor parallel degree {} (no folder tp{})", dir, tp, tp);
  return bad_input("{}: tensor parallel degree {} was not profiled (no folder tp{}); accepted is {}", dir, tp,
                   tp, fmt::join(there, ", "));
}

}  // namespace

int SkewAxis::bin(double value) const {
  int i = 0;
  const int last = static_cast<int>(labels.size()) - 1;
  while (i < last && value > edges[static_cast<size_t>(i) + 1]) ++i;
  return i;
}

const ProfileTables* ProfileBundle::tables(int tp) const {
  const auto found = by_tp.find(tp);
  return found == by_tp.end() ? nullptr : &found->second;
}

std::string profile_variant(std::string_view dtype_short, std::string_view kv_short) {
  if (kv_short.empty()) return std::string(dtype_short);
  return fmt::format("{}-kv{}", dtype_short, kv_short);
}

Result<std::vector<LayerCurve>> parse_curves_csv(std::string_view text, const std::string& what,
                                                 std::string_view key_column) {
  VLLM_ASSIGN_OR_RETURN(auto scan, CsvScan<3>::open(text, what, {"layer", key_column, "time_us"}));
  std::vector<LayerCurve> curves;
  CsvScan<3>::Row row;
  LayerCurve* curve = nullptr;
  constexpr size_t kMaxLayers = 256;  // looked up by a walk
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const bool more, scan.next(row));
    if (!more) break;
    VLLM_ASSIGN_OR_RETURN(const int64_t key, scan.count(row, 1));
    VLLM_ASSIGN_OR_RETURN(const int64_t ns, scan.time_ns(row, 2));
    if (curve == nullptr || curve->layer != row[0]) {
      const auto found =
          std::find_if(curves.begin(), curves.end(), [&](const LayerCurve& c) { return c.layer == row[0]; });
      if (found != curves.end()) {
        curve = &*found;
      } else {
        if (row[0].empty()) return bad_input("{}: 'layer' is empty, a name is needed", scan.where());
        if (curves.size() == kMaxLayers) return bad_input("{}: has more than {} layers", what, kMaxLayers);
        curve = &curves.emplace_back();
        curve->layer = std::string(row[0]);
      }
    }
    curve->keys.push_back(key);
    curve->ns.push_back(ns);
  }
  if (curves.empty()) return bad_input("{}: has no rows", what);
  for (LayerCurve& c : curves) sort_curve(c);
  VLLM_RETURN_IF_ERROR(check_curve_holes(curves, what, key_column));
  return curves;
}

Result<std::vector<AttentionRow>> parse_attention_csv(std::string_view text, const std::string& what) {
  VLLM_ASSIGN_OR_RETURN(
      auto scan,
      CsvScan<5>::open(text, what, {"prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"}));
  std::vector<AttentionRow> rows;
  rows.reserve(text.size() / 24);
  CsvScan<5>::Row fields;
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const bool more, scan.next(fields));
    if (!more) break;
    AttentionRow r;
    int64_t* const keys[] = {&r.prefill_chunk, &r.kv_prefill, &r.n_decode, &r.kv_decode};
    for (size_t i = 0; i < 4; ++i) {
      VLLM_ASSIGN_OR_RETURN(*keys[i], scan.count(fields, i));
    }
    VLLM_ASSIGN_OR_RETURN(r.ns, scan.time_ns(fields, 4));
    rows.push_back(r);
  }
  if (rows.empty()) return bad_input("{}: has no rows", what);
  sort_and_unique(rows, [](const AttentionRow& r) {
    return std::make_tuple(r.prefill_chunk, r.n_decode, r.kv_prefill, r.kv_decode);
  });
  VLLM_RETURN_IF_ERROR(check_attention_holes(rows, what));
  return rows;
}

Result<std::vector<MoeRow>> parse_moe_csv(std::string_view text, const std::string& what) {
  VLLM_ASSIGN_OR_RETURN(auto scan, CsvScan<3>::open(text, what, {"tokens", "activated_experts", "time_us"}));
  std::vector<MoeRow> rows;
  CsvScan<3>::Row fields;
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const bool more, scan.next(fields));
    if (!more) break;
    MoeRow r;
    VLLM_ASSIGN_OR_RETURN(r.tokens, scan.count(fields, 0));
    VLLM_ASSIGN_OR_RETURN(r.experts, scan.count(fields, 1));
    VLLM_ASSIGN_OR_RETURN(r.ns, scan.time_ns(fields, 2));
    rows.push_back(r);
  }
  if (rows.empty()) return bad_input("{}: has no rows", what);
  sort_and_unique(rows, [](const MoeRow& r) { return std::make_tuple(r.experts, r.tokens); });
  VLLM_RETURN_IF_ERROR(check_moe_holes(rows, what));
  return rows;
}

Result<std::vector<SkewBucket>> parse_skew_csv(std::string_view text, const std::string& what,
                                               const SkewMeta& meta) {
  VLLM_ASSIGN_OR_RETURN(
      auto scan, CsvScan<6>::open(text, what,
                                  {"pc", "n_label", "skew_rate_label", "kv_big_label", "kp_label", "alpha"}));
  const SkewAxis* const axes[] = {&meta.n, &meta.skew_rate, &meta.kv_big, &meta.kp};
  static constexpr const char* kColumns[] = {"n_label", "skew_rate_label", "kv_big_label", "kp_label"};
  std::vector<SkewBucket> buckets;
  CsvScan<6>::Row fields;
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const bool more, scan.next(fields));
    if (!more) break;
    SkewBucket b;
    VLLM_ASSIGN_OR_RETURN(b.pc, scan.count(fields, 0));
    int* const bins[] = {&b.n, &b.skew_rate, &b.kv_big, &b.kp};
    for (size_t i = 0; i < 4; ++i) {
      const auto& labels = axes[i]->labels;
      const auto found = std::find(labels.begin(), labels.end(), fields[i + 1]);
      if (found == labels.end()) {
        return bad_input("{}: '{}' is '{}', meta.yaml knows {}", scan.where(), kColumns[i],
                         printable(fields[i + 1]), fmt::join(labels, ", "));
      }
      *bins[i] = static_cast<int>(found - labels.begin());
    }
    VLLM_ASSIGN_OR_RETURN(b.alpha, scan.number(fields, 5));
    buckets.push_back(b);
  }
  sort_and_unique(
      buckets, [](const SkewBucket& b) { return std::make_tuple(b.pc, b.n, b.skew_rate, b.kv_big, b.kp); });
  return buckets;
}

Result<ProfileBundle> read_profile_bundle(const std::string& dir, const ProfileRequest& request) {
  if (!is_directory(dir))
    return bad_input("{}: no such profile bundle (a folder with meta.yaml is needed)", dir);
  ProfileBundle bundle;
  bundle.dir = dir;
  const std::string meta_path = join_path(dir, "meta.yaml");
  VLLM_ASSIGN_OR_RETURN(const std::string meta_text, read_file(meta_path, int64_t{16} << 20));
  std::map<int, ProfileTables> inline_skew;
  VLLM_ASSIGN_OR_RETURN(bundle.meta, parse_profile_meta(meta_text, meta_path, &inline_skew));
  VLLM_RETURN_IF_ERROR(check_degree(dir, bundle.meta, request.tp));

  ProfileTables& own = bundle.by_tp[request.tp];
  own.tp = request.tp;
  own.dir = tables_dir(dir, request.tp);
  VLLM_RETURN_IF_ERROR(read_curves(own));
  VLLM_RETURN_IF_ERROR(read_table(join_path(own.dir, "attention.csv"), own.attention, parse_attention_csv));
  if (bundle.meta.skew.enabled) {
    ProfileTables& skew = inline_skew[request.tp];
    own.alpha_default = skew.alpha_default;
    own.skew = std::move(skew.skew);
    if (own.skew.empty()) {
      VLLM_RETURN_IF_ERROR(read_table(
          join_path(own.dir, "skew_fit.csv"), own.skew,
          [&](const auto& text, const auto& path) { return parse_skew_csv(text, path, bundle.meta.skew); }));
    }
  }
  if (request.tp != 1 && is_directory(tables_dir(dir, 1))) {
    ProfileTables& one = bundle.by_tp[1];
    one.dir = tables_dir(dir, 1);
    VLLM_RETURN_IF_ERROR(read_curves(one));
  }
  if (request.moe) {
    VLLM_RETURN_IF_ERROR(check_degree(dir, bundle.meta, 1));
    ProfileTables& one = bundle.by_tp.at(1);
    VLLM_RETURN_IF_ERROR(read_table(join_path(one.dir, "moe.csv"), one.moe, parse_moe_csv));
  }
  return bundle;
}

}  // namespace vllm
