// meta.yaml of a profile bundle. It is read leniently: what is absent has a default, what nobody here uses is
// not looked at; what is used must be what it should be.

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "formats/printable.h"
#include "formats/profile_bundle.h"

namespace vllm {
namespace {

// Reads members of YAML maps and keeps the first error.
class MetaReader {
 public:
  explicit MetaReader(std::string what) : what_(std::move(what)) {}

  const Status& status() const { return status_; }
  void fail(const std::string& key, const std::string& why) {
    if (status_) status_ = bad_input("{}: '{}' {}", what_, key, why);
  }

  // Undefined when `map` has no such key.
  static YAML::Node member(const YAML::Node& map, const std::string& key) {
    if (!map.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    return map[key];
  }

  std::string text(const YAML::Node& map, const std::string& key) {
    const YAML::Node node = member(map, key);
    if (!node || node.IsNull()) return "";
    if (!node.IsScalar()) return fail(key, "is not a text"), "";
    return node.Scalar();
  }

  bool boolean(const YAML::Node& map, const std::string& key) {
    const std::string value = text(map, key);
    if (value.empty() || value == "false" || value == "False" || value == "no" || value == "off")
      return false;
    if (value == "true" || value == "True" || value == "yes" || value == "on") return true;
    fail(key, fmt::format("is '{}', accepted is true or false", printable(value)));
    return false;
  }

  double number(const std::string& key, const YAML::Node& node) {
    double value = 0;
    if (node && node.IsScalar()) {
      const std::string& t = node.Scalar();
      const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), value);
      if (error == std::errc() && end == t.data() + t.size() && std::isfinite(value)) return value;
    }
    fail(key, fmt::format("is '{}', a finite number is needed",
                          node && node.IsScalar() ? printable(node.Scalar()) : ""));
    return 0;
  }

  int64_t count(const std::string& key, const YAML::Node& node, int64_t low, int64_t high) {
    const double value = number(key, node);
    if (!status_) return low;
    if (value != std::floor(value) || value < static_cast<double>(low) || value > static_cast<double>(high)) {
      fail(key, fmt::format("is {}, accepted is a whole number from {} to {}", value, low, high));
      return low;
    }
    return static_cast<int64_t>(value);
  }

  int64_t optional_count(const YAML::Node& map, const std::string& key) {
    const YAML::Node node = member(map, key);
    if (!node || node.IsNull()) return 0;
    return count(key, node, 0, int64_t{1} << 40);
  }

  std::vector<int64_t> counts(const YAML::Node& map, const std::string& key, int64_t low, int64_t high) {
    std::vector<int64_t> out;
    const YAML::Node node = member(map, key);
    if (!node || node.IsNull()) return out;
    if (!node.IsSequence()) return fail(key, "is not a list of whole numbers"), out;
    for (const YAML::Node& item : node) out.push_back(count(key, item, low, high));
    return out;
  }

  // `name`_bins and `name`_labels; without them what the reference profiler writes.
  SkewAxis axis(const YAML::Node& axes, const std::string& name, const SkewAxis& standard) {
    const YAML::Node bins = member(axes, name + "_bins");
    const YAML::Node labels = member(axes, name + "_labels");
    if (!bins && !labels) return standard;
    SkewAxis axis;
    if (!bins || !bins.IsSequence()) return fail(name + "_bins", "is not a list of numbers"), standard;
    if (!labels || !labels.IsSequence()) return fail(name + "_labels", "is not a list of texts"), standard;
    for (const YAML::Node& edge : bins) axis.edges.push_back(number(name + "_bins", edge));
    for (const YAML::Node& label : labels) axis.labels.push_back(label.IsScalar() ? label.Scalar() : "");
    if (axis.labels.empty() || axis.labels.size() > 64 || axis.edges.size() != axis.labels.size() + 1) {
      fail(name + "_bins",
           fmt::format("has {} edges for {} labels; accepted is one more edge than 1 to 64 labels",
                       axis.edges.size(), axis.labels.size()));
      return standard;
    }
    for (size_t i = 1; i < axis.edges.size(); ++i) {
      if (axis.edges[i] > axis.edges[i - 1]) continue;
      fail(name + "_bins", "does not ascend");
      return standard;
    }
    return axis;
  }

 private:
  std::string what_;
  Status status_;
};

SkewAxis standard_n() {
  return {{0, 2, 4, 8, 16, 32, 64, 128, 256, 1e6},
          {"n<=2", "n<=4", "n<=8", "n<=16", "n<=32", "n<=64", "n<=128", "n<=256", "n>256"}};
}
SkewAxis standard_skew_rate() {
  return {{-0.01, 0.05, 0.15, 0.4, 0.7, 1.01}, {"sr<=5%", "sr<=15%", "sr<=40%", "sr<=70%", "sr>70%"}};
}
SkewAxis standard_kv_big() {
  return {{0, 1024, 4096, 16384, 1e9}, {"kvB<=1k", "kvB<=4k", "kvB<=16k", "kvB>16k"}};
}
SkewAxis standard_kp() {
  return {{-1, 0, 512, 1024, 2048, 4096, 8192, 1e9},
          {"kp=0", "kp<=512", "kp<=1k", "kp<=2k", "kp<=4k", "kp<=8k", "kp>8k"}};
}

// "pc=512|n<=8|sr<=5%|kvB<=1k|kp=0", the key of an inline table. False for a key of another form.
bool parse_bucket_key(std::string_view key, const SkewMeta& meta, SkewBucket& bucket) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t bar = key.find('|');
    parts.push_back(key.substr(0, bar));
    if (bar == std::string_view::npos) break;
    key.remove_prefix(bar + 1);
  }
  if (parts.size() != 5 || !parts[0].starts_with("pc=")) return false;
  const std::string_view pc = parts[0].substr(3);
  const auto [end, error] = std::from_chars(pc.data(), pc.data() + pc.size(), bucket.pc);
  if (error != std::errc() || end != pc.data() + pc.size() || bucket.pc < 0) return false;
  const SkewAxis* const axes[] = {&meta.n, &meta.skew_rate, &meta.kv_big, &meta.kp};
  int* const bins[] = {&bucket.n, &bucket.skew_rate, &bucket.kv_big, &bucket.kp};
  for (size_t i = 0; i < 4; ++i) {
    const auto& labels = axes[i]->labels;
    const auto found = std::find(labels.begin(), labels.end(), parts[i + 1]);
    if (found == labels.end()) return false;
    *bins[i] = static_cast<int>(found - labels.begin());
  }
  return true;
}

void read_skew_of_tp(MetaReader& reader, const YAML::Node& node, const SkewMeta& meta,
                     ProfileTables& tables) {
  const YAML::Node alpha = MetaReader::member(node, "alpha_default");
  if (alpha && !alpha.IsNull()) tables.alpha_default = reader.number("alpha_default", alpha);
  const YAML::Node buckets = MetaReader::member(node, "alpha_by_bucket");
  if (!buckets || !buckets.IsMap()) return;
  for (const auto& entry : buckets) {
    if (!entry.first.IsScalar()) continue;
    SkewBucket bucket;
    bucket.alpha = reader.number("alpha_by_bucket", entry.second);
    if (!parse_bucket_key(entry.first.Scalar(), meta, bucket)) {
      reader.fail("alpha_by_bucket",
                  fmt::format("has the key '{}', accepted is like pc=512|n<=8|sr<=5%|kvB<=1k|kp=0",
                              printable(entry.first.Scalar())));
      return;
    }
    tables.skew.push_back(bucket);
  }
  std::stable_sort(tables.skew.begin(), tables.skew.end(), [](const SkewBucket& a, const SkewBucket& b) {
    return std::tie(a.pc, a.n, a.skew_rate, a.kv_big, a.kp) <
           std::tie(b.pc, b.n, b.skew_rate, b.kv_big, b.kp);
  });
}

void read_skew(MetaReader& reader, const YAML::Node& root, SkewMeta& meta,
               std::map<int, ProfileTables>* inline_skew) {
  const YAML::Node fit = MetaReader::member(root, "skew_fit");
  if (!fit || !fit.IsMap()) return;
  meta.enabled = reader.boolean(fit, "enabled");
  const YAML::Node axes = MetaReader::member(fit, "bucket_axes");
  const YAML::Node no_axes;
  const YAML::Node& given = axes ? axes : no_axes;
  meta.n = reader.axis(given, "n", standard_n());
  meta.skew_rate = reader.axis(given, "skew_rate", standard_skew_rate());
  meta.kv_big = reader.axis(given, "kv_big", standard_kv_big());
  meta.kp = reader.axis(given, "kp", standard_kp());
  const YAML::Node per_tp = MetaReader::member(fit, "per_tp");
  if (!per_tp || !per_tp.IsMap() || inline_skew == nullptr) return;
  for (const auto& entry : per_tp) {
    const auto tp = static_cast<int>(reader.count("per_tp", entry.first, 1, 1024));
    ProfileTables& tables = (*inline_skew)[tp];
    tables.tp = tp;
    read_skew_of_tp(reader, entry.second, meta, tables);
  }
}

void read_meta(MetaReader& reader, const YAML::Node& root, ProfileMeta& meta,
               std::map<int, ProfileTables>* inline_skew) {
  meta.hardware = reader.text(root, "hardware");
  meta.model = reader.text(root, "model");
  meta.variant = reader.text(root, "variant");
  meta.architecture = reader.text(root, "architecture");
  meta.gpu = reader.text(root, "gpu");
  meta.vllm_version = reader.text(root, "vllm_version");
  for (const int64_t tp : reader.counts(root, "tp_degrees", 1, 1024))
    meta.tp_degrees.push_back(static_cast<int>(tp));
  if (const YAML::Node engine = MetaReader::member(root, "engine_effective"); engine && engine.IsMap()) {
    meta.block_size = reader.optional_count(engine, "block_size");
    meta.max_num_batched_tokens = reader.optional_count(engine, "max_num_batched_tokens");
    meta.max_num_seqs = reader.optional_count(engine, "max_num_seqs");
  }
  if (const YAML::Node execution = MetaReader::member(root, "execution"); execution && execution.IsMap()) {
    meta.cudagraph_capture_sizes = reader.counts(execution, "cudagraph_capture_sizes", 1, 1 << 24);
    std::sort(meta.cudagraph_capture_sizes.begin(), meta.cudagraph_capture_sizes.end());
  }
  read_skew(reader, root, meta.skew, inline_skew);
}

}  // namespace

Result<ProfileMeta> parse_profile_meta(const std::string& text, const std::string& what,
                                       std::map<int, ProfileTables>* inline_skew) {
  ProfileMeta meta;
  meta.path = what;
  MetaReader reader(what);
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap()) return bad_input("{}: is not a map of keys and values", what);
    read_meta(reader, root, meta, inline_skew);
  } catch (const YAML::Exception& error) {
    return bad_input("{}:{}: is not YAML ({})", what, error.mark.line + 1, error.msg);
  } catch (const std::exception& error) {
    return bad_input("{}: is not YAML ({})", what, error.what());
  }
  if (!reader.status()) return reader.status();
  return meta;
}

}  // namespace vllm
