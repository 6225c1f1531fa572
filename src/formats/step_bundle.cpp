#include "formats/step_bundle.h"

#include <cmath>
#include <limits>
#include <set>

#include "base/file.h"
#include "formats/json.h"
#include "formats/printable.h"

namespace vllm {
namespace {

constexpr int64_t kVersion = 1;
constexpr const char* kFormat = "vllm-twin step bundle";
// A step takes at most this: what is larger is a damaged file.
constexpr double kMaxMs = 1e7;
constexpr double kUnbounded = 1e15;
constexpr size_t kMaxTerms = 64;
constexpr size_t kMaxQuantiles = 10'001;
constexpr size_t kMaxList = 4096;

constexpr const char* kFeatureNames[kNumStepFeatures] = {
    "constant", "rows", "padded_rows", "tokens", "decode_context", "prefill_pairs", "busy_tokens"};

// Reads an object's members by name; the first error stays, and finish() finds members that nobody asked
// for.
class Reader {
 public:
  Reader(const Json& json, std::string where, std::string place)
      : json_(json), where_(std::move(where)), place_(std::move(place)) {
    if (!json_.is_object()) fail("is not an object");
  }

  const Json* member(const char* key) {
    if (!status_.is_ok()) return nullptr;
    known_.insert(key);
    const auto found = json_.find(key);
    if (found != json_.end()) return &*found;
    status_ = bad_input("{}: '{}' is missing", where_, path(key));
    return nullptr;
  }

  void number(const char* key, double& out, double low, double high) {
    const Json* value = member(key);
    if (value == nullptr) return;
    const double number = value->is_number() ? value->get<double>() : NAN;
    if (std::isfinite(number) && number >= low && number <= high) {
      out = number;
      return;
    }
    wrong(key, *value,
          low == -high ? fmt::format("a number of at most {} either way", high)
                       : fmt::format("a number from {} to {}", low, high));
  }
  void ms(const char* key, double& out) { number(key, out, 0, kMaxMs); }

  void integer(const char* key, int64_t& out, int64_t low, int64_t high) {
    const Json* value = member(key);
    if (value == nullptr) return;
    if (value->is_number_integer() && value->get<int64_t>() >= low && value->get<int64_t>() <= high &&
        !(value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(high))) {
      out = value->get<int64_t>();
      return;
    }
    wrong(key, *value, fmt::format("a whole number from {} to {}", low, high));
  }

  void truth(const char* key, bool& out) {
    const Json* value = member(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return wrong(key, *value, "true or false");
    out = value->get<bool>();
  }

  void text(const char* key, std::string& out) {
    const Json* value = member(key);
    if (value == nullptr) return;
    if (!value->is_string()) return wrong(key, *value, "a text");
    out = value->get<std::string>();
  }

  const Json* list(const char* key, size_t most) {
    const Json* value = member(key);
    if (value == nullptr) return nullptr;
    if (value->is_array() && value->size() <= most) return value;
    status_ = bad_input("{}: '{}' is not a list of at most {} values", where_, path(key), most);
    return nullptr;
  }

  void fail(const std::string& what) {
    if (status_.is_ok())
      status_ = bad_input("{}: '{}' {}", where_, place_.empty() ? "the file" : place_, what);
  }
  void wrong(const std::string& key, const Json& value, const std::string& accepted) {
    if (!status_.is_ok()) return;
    status_ = bad_input("{}: '{}' is {}, accepted is {}", where_, path(key),
                        printable(value.dump(-1, ' ', false, Json::error_handler_t::replace)), accepted);
  }
  void take(Status status) {
    if (status_.is_ok()) status_ = std::move(status);
  }

  Status finish() {
    if (!status_.is_ok()) return status_;
    for (const auto& [key, value] : json_.items()) {
      if (!known_.contains(key)) {
        return bad_input("{}: '{}' is not a key of a step bundle", where_, printable(path(key)));
      }
    }
    return Status::ok();
  }

  std::string path(const std::string& key) const { return place_.empty() ? key : place_ + "." + key; }
  const std::string& where() const { return where_; }

 private:
  const Json& json_;
  std::string where_, place_;
  std::set<std::string> known_;
  Status status_;
};

Json terms_json(const std::vector<StepTerm>& terms) {
  Json list = Json::array();
  for (const StepTerm& term : terms) {
    list.push_back({{"feature", step_feature_name(term.feature)}, {"from", term.from}, {"ms", term.ms}});
  }
  return list;
}

Json region_json(const StepRegion& region) {
  return {{"terms", terms_json(region.terms)},
          {"min_ms", region.min_ms},
          {"largest_rows", region.largest_rows},
          {"largest_tokens", region.largest_tokens},
          {"noise", region.noise},
          {"noise_correlation", region.noise_correlation}};
}

Json host_json(const StepHost& host) {
  return {{"gap_ms", host.gap_ms},
          {"gap_row_ms", host.gap_row_ms},
          {"empty_ms", host.empty_ms},
          {"graph_launch_ms", host.graph_launch_ms},
          {"graph_launch_row_ms", host.graph_launch_row_ms},
          {"piecewise_launch_ms", host.piecewise_launch_ms},
          {"eager_launch_ms", host.eager_launch_ms},
          {"eager_quantiles", host.eager_quantiles},
          {"eager_correlation", host.eager_correlation},
          {"eager_correlation_s", host.eager_correlation_s},
          {"eager_streams", host.eager_streams},
          {"eager_head_ms", host.eager_head_ms},
          {"eager_head_row_ms", host.eager_head_row_ms},
          {"eager_tail_ms", host.eager_tail_ms},
          {"graph_head_ms", host.graph_head_ms},
          {"output_ms", host.output_ms},
          {"stamp_ms", host.stamp_ms},
          {"stamp_row_ms", host.stamp_row_ms},
          {"front_ms", host.front_ms}};
}

Status read_term(const Json& json, const std::string& where, const std::string& place, StepTerm& term) {
  Reader reader(json, where, place);
  std::string feature;
  reader.text("feature", feature);
  bool known = false;
  for (size_t i = 0; i < kNumStepFeatures; ++i) {
    if (feature != kFeatureNames[i]) continue;
    term.feature = static_cast<StepFeature>(i);
    known = true;
  }
  if (!known) {
    reader.wrong("feature", feature, fmt::format("{}", fmt::join(kFeatureNames, ", ")));
  }
  reader.number("from", term.from, 0, kUnbounded);
  reader.number("ms", term.ms, -kMaxMs, kMaxMs);
  return reader.finish();
}

Status read_region(const Json& json, const std::string& where, const std::string& place, StepRegion& region) {
  Reader reader(json, where, place);
  if (const Json* terms = reader.list("terms", kMaxTerms)) {
    for (size_t i = 0; i < terms->size(); ++i) {
      reader.take(read_term((*terms)[i], where, fmt::format("{}[{}]", reader.path("terms"), i),
                            region.terms.emplace_back()));
    }
  }
  reader.ms("min_ms", region.min_ms);
  reader.number("largest_rows", region.largest_rows, 0, kUnbounded);
  reader.number("largest_tokens", region.largest_tokens, 0, kUnbounded);
  reader.number("noise", region.noise, 0, 1);
  reader.number("noise_correlation", region.noise_correlation, 0, 1);
  return reader.finish();
}

void read_quantiles(Reader& reader, std::vector<double>& quantiles) {
  const Json* list = reader.list("eager_quantiles", kMaxQuantiles);
  if (list == nullptr) return;
  double last = 0;
  for (const Json& value : *list) {
    const double number = value.is_number() ? value.get<double>() : NAN;
    if (!std::isfinite(number) || number < last || number > 1e6) {
      return reader.wrong("eager_quantiles", value, "numbers of at least 0 that do not fall");
    }
    quantiles.push_back(last = number);
  }
  if (quantiles.size() < 2) reader.wrong("eager_quantiles", *list, "at least two numbers");
}

Status read_host(const Json& json, const std::string& where, StepHost& host) {
  Reader reader(json, where, "host");
  reader.ms("gap_ms", host.gap_ms);
  reader.ms("gap_row_ms", host.gap_row_ms);
  reader.ms("empty_ms", host.empty_ms);
  reader.ms("graph_launch_ms", host.graph_launch_ms);
  reader.ms("graph_launch_row_ms", host.graph_launch_row_ms);
  reader.ms("piecewise_launch_ms", host.piecewise_launch_ms);
  reader.ms("eager_launch_ms", host.eager_launch_ms);
  read_quantiles(reader, host.eager_quantiles);
  reader.number("eager_correlation", host.eager_correlation, 0, 1);
  reader.number("eager_correlation_s", host.eager_correlation_s, 0, 1e6);
  reader.truth("eager_streams", host.eager_streams);
  reader.ms("eager_head_ms", host.eager_head_ms);
  reader.ms("eager_head_row_ms", host.eager_head_row_ms);
  reader.ms("eager_tail_ms", host.eager_tail_ms);
  reader.ms("graph_head_ms", host.graph_head_ms);
  reader.ms("output_ms", host.output_ms);
  reader.ms("stamp_ms", host.stamp_ms);
  reader.ms("stamp_row_ms", host.stamp_row_ms);
  reader.ms("front_ms", host.front_ms);
  return reader.finish();
}

void read_captures(Reader& reader, StepBundle& bundle) {
  const Json* list = reader.list("capture_sizes", kMaxList);
  if (list == nullptr) return;
  int64_t last = 0;
  for (const Json& value : *list) {
    if (!value.is_number_integer() || value.get<int64_t>() <= last || value.get<int64_t>() > INT32_MAX) {
      return reader.wrong("capture_sizes", value, "whole numbers of at least 1 that rise");
    }
    bundle.capture_sizes.push_back(last = value.get<int64_t>());
  }
}

Status read_residual(const Json& json, const std::string& where, const std::string& place,
                     StepResidual& residual) {
  Reader reader(json, where, place);
  reader.text("region", residual.region);
  reader.integer("samples", residual.samples, 0, INT64_MAX);
  reader.number("mean_ms", residual.mean_ms, -kMaxMs, kMaxMs);
  reader.number("bias_ms", residual.bias_ms, -kMaxMs, kMaxMs);
  reader.number("sd_ms", residual.sd_ms, 0, kMaxMs);
  reader.number("p5_ms", residual.p5_ms, -kMaxMs, kMaxMs);
  reader.number("p50_ms", residual.p50_ms, -kMaxMs, kMaxMs);
  reader.number("p95_ms", residual.p95_ms, -kMaxMs, kMaxMs);
  reader.number("held_out_bias_ms", residual.held_out_bias_ms, -kMaxMs, kMaxMs);
  reader.number("held_out_sd_ms", residual.held_out_sd_ms, 0, kMaxMs);
  return reader.finish();
}

// What a simulation with it needs, whichever steps it meets.
Status check_complete(const StepBundle& bundle, const std::string& where) {
  if (bundle.eager.terms.empty()) {
    return bad_input("{}: 'eager.terms' is empty: the cost of a step without a graph is not known", where);
  }
  if (!bundle.capture_sizes.empty() && bundle.graph.terms.empty()) {
    return bad_input("{}: 'graph.terms' is empty, but 'capture_sizes' says that there are graphs", where);
  }
  return Status::ok();
}

}  // namespace

const char* step_feature_name(StepFeature feature) { return kFeatureNames[static_cast<size_t>(feature)]; }

std::string step_bundle_json(const StepBundle& bundle) {
  Json residuals = Json::array();
  for (const StepResidual& r : bundle.residuals) {
    residuals.push_back({{"region", r.region},
                         {"samples", r.samples},
                         {"mean_ms", r.mean_ms},
                         {"bias_ms", r.bias_ms},
                         {"sd_ms", r.sd_ms},
                         {"p5_ms", r.p5_ms},
                         {"p50_ms", r.p50_ms},
                         {"p95_ms", r.p95_ms},
                         {"held_out_bias_ms", r.held_out_bias_ms},
                         {"held_out_sd_ms", r.held_out_sd_ms}});
  }
  const Json root = {{"format", kFormat},
                     {"version", kVersion},
                     {"hardware", bundle.hardware},
                     {"engine", bundle.engine},
                     {"sources", bundle.sources},
                     {"scheduling_depth", bundle.scheduling_depth},
                     {"capture_sizes", bundle.capture_sizes},
                     {"full_graph_rows", bundle.full_graph_rows},
                     {"host_scale", bundle.host_scale},
                     {"device_scale", bundle.device_scale},
                     {"host", host_json(bundle.host)},
                     {"graph", region_json(bundle.graph)},
                     {"eager", region_json(bundle.eager)},
                     {"residuals", residuals}};
  return json_text(root);
}

Result<StepBundle> parse_step_bundle(std::string_view text, const std::string& where) {
  VLLM_ASSIGN_OR_RETURN(const Json root, parse_json(text, where));
  Reader reader(root, where, "");
  StepBundle bundle;
  std::string format;
  int64_t version = 0, depth = 1;
  reader.text("format", format);
  if (format != kFormat) reader.wrong("format", format, fmt::format("'{}'", kFormat));
  reader.integer("version", version, kVersion, kVersion);
  reader.text("hardware", bundle.hardware);
  reader.text("engine", bundle.engine);
  if (const Json* sources = reader.list("sources", kMaxList)) {
    for (const Json& source : *sources) {
      if (!source.is_string()) {
        reader.wrong("sources", source, "texts");
        break;
      }
      bundle.sources.push_back(source.get<std::string>());
    }
  }
  reader.integer("scheduling_depth", depth, 1, 2);
  bundle.scheduling_depth = static_cast<int>(depth);
  read_captures(reader, bundle);
  reader.integer("full_graph_rows", bundle.full_graph_rows, 0, INT32_MAX);
  reader.number("host_scale", bundle.host_scale, 1e-3, 1e3);
  reader.number("device_scale", bundle.device_scale, 1e-3, 1e3);
  if (const Json* host = reader.member("host")) reader.take(read_host(*host, where, bundle.host));
  if (const Json* graph = reader.member("graph")) {
    reader.take(read_region(*graph, where, "graph", bundle.graph));
  }
  if (const Json* eager = reader.member("eager")) {
    reader.take(read_region(*eager, where, "eager", bundle.eager));
  }
  if (const Json* residuals = reader.list("residuals", kMaxList)) {
    for (size_t i = 0; i < residuals->size(); ++i) {
      reader.take(read_residual((*residuals)[i], where, fmt::format("residuals[{}]", i),
                                bundle.residuals.emplace_back()));
    }
  }
  VLLM_RETURN_IF_ERROR(reader.finish());
  VLLM_RETURN_IF_ERROR(check_complete(bundle, where));
  return bundle;
}

Result<StepBundle> read_step_bundle(const std::string& dir) {
  if (!is_directory(dir)) return bad_input("--step-bundle {}: there is no such folder", dir);
  const std::string path = join_path(dir, kStepBundleFile);
  if (!file_exists(path)) {
    return bad_input("{}: there is no {} in it; vllm-profile --from-steps makes one", dir, kStepBundleFile);
  }
  constexpr int64_t kMaxBytes = int64_t{16} << 20;
  VLLM_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxBytes));
  return parse_step_bundle(text, path);
}

Status write_step_bundle(const StepBundle& bundle, const std::string& dir) {
  VLLM_RETURN_IF_ERROR(make_directories(dir));
  return write_file_atomically(join_path(dir, kStepBundleFile), step_bundle_json(bundle));
}

}  // namespace vllm
