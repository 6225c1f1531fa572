#include "fuzz_file.h"
#include "sim/latency_model.h"

namespace {

using namespace vllm;

// Queries inside, outside and on the keys of whatever was accepted: none may read past a table or give less
// than 1.
void query(ProfileTables tables) {
  ProfileBundle bundle;
  Architecture a;
  a.prologue = a.pre_attn = {"attention"};
  a.mlp_moe = {"moe"};
  a.catalog = {{"attention", ProfiledKind::kAttention, false}, {"moe", ProfiledKind::kMoe, false}};
  for (const LayerCurve& curve : tables.dense) {
    fuzzing::require(!curve.keys.empty() && curve.keys.size() == curve.ns.size());
    a.catalog.push_back({curve.layer, ProfiledKind::kDense, true});
    if (curve.layer != "attention" && curve.layer != "moe") a.prologue.push_back(curve.layer);
  }
  bundle.meta.skew.enabled = !tables.skew.empty();
  bundle.by_tp[1] = std::move(tables);
  for (const LatencyPolicies& policies : {LatencyPolicies::native(), LatencyPolicies::compat()}) {
    auto model = LatencyModel::compile(bundle, a, {"CARD", 1, true}, policies);
    if (!model) return;
    for (const int64_t x :
         {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{100}, int64_t{5000}, int64_t{1} << 40}) {
      for (const int64_t y : {int64_t{1}, int64_t{17}, int64_t{1} << 40}) {
        BatchShape shape = {x + y, y, x, y, y, x, x + y, 0};
        for (const auto* part : {&model->sequence().prologue, &model->sequence().pre_attn}) {
          for (const BoundLayer& layer : *part) fuzzing::require(model->layer_ns(layer, shape) >= 1);
        }
        fuzzing::require(model->moe_ns(y, x) >= 1);
      }
    }
    (void)model->out_of_range();
  }
}

}  // namespace

// The tables of a profile bundle: the first byte says which, the rest is the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  vllm::ProfileTables tables;
  tables.attention = {{0, 0, 1, 16, 5}, {16, 0, 0, 0, 7}};
  tables.moe = {{8, 1, 5}};
  switch (data[0]) {
    case 'd':
      if (auto curves = vllm::parse_curves_csv(text, "fuzz", "tokens"))
        tables.dense = std::move(curves).value();
      break;
    case 'a':
      if (auto rows = vllm::parse_attention_csv(text, "fuzz")) tables.attention = std::move(rows).value();
      break;
    case 'm':
      if (auto rows = vllm::parse_moe_csv(text, "fuzz")) tables.moe = std::move(rows).value();
      break;
    default: {
      const auto meta = vllm::parse_profile_meta("{}", "fuzz", nullptr);
      if (auto buckets = vllm::parse_skew_csv(text, "fuzz", meta->skew))
        tables.skew = std::move(buckets).value();
    }
  }
  query(std::move(tables));
  return 0;
}
