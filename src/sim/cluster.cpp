#include "sim/cluster.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "base/file.h"
#include "config/model_config.h"
#include "formats/json.h"
#include "formats/printable.h"
#include "formats/profile_bundle.h"
#include "sim/json_section.h"
#include "sim/network.h"

namespace vllm {
namespace {

constexpr int64_t kMaxNodes = 4096, kMaxInstances = 4096, kMaxDegree = 1024, kMaxNpus = 1 << 16;
constexpr double kMaxSizeGb = 1 << 20, kMaxBandwidth = 1e9, kMaxLatencyNs = 1e12;

std::optional<SimDType> sim_dtype_of(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (const SimDType d :
       {SimDType::kBFloat16, SimDType::kFloat16, SimDType::kFloat32, SimDType::kFp8, SimDType::kInt8}) {
    if (name == sim_dtype_name(d)) return d;
  }
  if (name.starts_with("float8")) return SimDType::kFp8;
  return std::nullopt;
}

SimDType sim_dtype_of(KvCacheDType dtype) {
  switch (dtype) {
    case KvCacheDType::kBFloat16:
      return SimDType::kBFloat16;
    case KvCacheDType::kFloat16:
      return SimDType::kFloat16;
    case KvCacheDType::kFloat32:
      return SimDType::kFloat32;
    case KvCacheDType::kFp8:
      return SimDType::kFp8;
  }
  return SimDType::kBFloat16;
}

// "0-3,5,8-9": blocks from 0 to `layers` - 1.
bool valid_block_list(std::string_view text, int64_t layers) {
  while (true) {
    const size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    int64_t first = 0, last = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), first);
    if (error != std::errc()) return false;
    last = first;
    if (end != part.data() + part.size()) {
      if (*end != '-') return false;
      const auto [end2, error2] = std::from_chars(end + 1, part.data() + part.size(), last);
      if (error2 != std::errc() || end2 != part.data() + part.size()) return false;
    }
    if (first < 0 || last < first || last >= layers) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

// Reads one cluster file. The first error is in `status_`.
class ClusterReader {
 public:
  ClusterReader(const Json& json, std::string path, const ParsedOptions& parsed)
      : json_(json), path_(std::move(path)), options_(parsed.options), status_(std::make_shared<Status>()) {}

  Result<ClusterSpec> read() {
    spec_.path = path_;
    JsonSection top(json_, path_, "", status_);
    read_nodes(top);
    if (!status_->is_ok()) return *status_;
    form_groups();
    if (!status_->is_ok()) return *status_;
    number_npus();
    check_network();
    read_links(top);
    if (top.raw("cxl_mem") != nullptr) {
      top.refuse("cxl_mem", "is CXL memory, which is not built yet; leave it out");
    }
    report_unread(top);
    if (!status_->is_ok()) return *status_;
    return std::move(spec_);
  }

 private:
  bool compat() const { return options_.sim.mode == SimMode::kCompat; }

  // Keys that nobody reads: refused in native mode, listed in compat mode.
  void report_unread(const JsonSection& section) {
    for (const std::string& name : section.unread()) {
      if (compat()) {
        spec_.ignored_keys.push_back(name);
      } else if (status_->is_ok()) {
        *status_ = bad_input(
            "{}: '{}' is not a key of a cluster file; leave it out, or take --mode compat, which "
            "ignores it",
            path_, name);
      }
    }
  }

  void read_nodes(JsonSection& top) {
    const int64_t count = top.needed_integer("num_nodes", 1, kMaxNodes);
    const Json* nodes = top.raw("nodes");
    if (nodes == nullptr || !nodes->is_array())
      return top.fail("nodes", "is not a list; a list of nodes is needed");
    if (static_cast<int64_t>(nodes->size()) != count) {
      return top.fail("num_nodes", fmt::format("is {}, but 'nodes' has {} entries", count, nodes->size()));
    }
    for (size_t i = 0; i < nodes->size() && status_->is_ok(); ++i) {
      JsonSection node((*nodes)[i], path_, fmt::format("nodes[{}]", i), status_);
      read_node(node, static_cast<int>(i));
      report_unread(node);
    }
  }

  void read_node(JsonSection& node, int index) {
    NodeSpec spec;
    JsonSection cpu = node.needed_object("cpu_mem");
    spec.cpu.size_gb = cpu.needed_number("mem_size", 0, kMaxSizeGb);
    spec.cpu.bandwidth = cpu.needed_number("mem_bw", 1, kMaxBandwidth);
    spec.cpu.latency_ns = cpu.number("mem_latency", 0, 0, kMaxLatencyNs);
    if (cpu.has("pim_config"))
      cpu.refuse("pim_config", "is processing-in-memory, which is not built yet; leave it out");
    report_unread(cpu);
    if (node.has("power")) node.refuse("power", "is power modelling, which is not built yet; leave it out");
    spec_.nodes.push_back(spec);

    const Json* instances = node.raw("instances");
    if (instances == nullptr || !instances->is_array() || instances->empty()) {
      return node.fail("instances", "is not a list with at least one instance");
    }
    const int64_t count =
        node.integer("num_instances", static_cast<int64_t>(instances->size()), 0, kMaxInstances);
    if (count != static_cast<int64_t>(instances->size())) {
      return node.fail("num_instances",
                       fmt::format("is {}, but 'instances' has {} entries", count, instances->size()));
    }
    for (size_t i = 0; i < instances->size() && status_->is_ok(); ++i) {
      if (static_cast<int64_t>(spec_.instances.size()) == kMaxInstances) {
        return node.fail("instances", fmt::format("makes more than {} instances", kMaxInstances));
      }
      JsonSection section((*instances)[i], path_, fmt::format("nodes[{}].instances[{}]", index, i), status_);
      read_instance(section, index, static_cast<int>(i));
      report_unread(section);
    }
  }

  void read_instance(JsonSection& s, int node, int index) {
    InstanceSpec instance;
    instance.id = static_cast<int>(spec_.instances.size());
    instance.node = node;
    instance.index_in_node = index;
    instance.where = fmt::format("{}: nodes[{}].instances[{}]", path_, node, index);
    instance.hardware = s.needed_text("hardware");
    const std::string name = s.needed_text("model_name");
    if (!status_->is_ok() || !load_model(s, name, instance)) return;
    read_npu_memory(s, instance);
    read_roles(s);
    read_degrees(s, instance);
    read_settings(s, instance);
    if (status_->is_ok()) read_types(s, instance);
    if (status_->is_ok()) read_placement(s, instance);
    group_of_.push_back(s.text("dp_group", ""));
    if (!status_->is_ok()) return;
    instance.bundle_dir = join_path(join_path(join_path(options_.sim.profiles_root, instance.hardware), name),
                                    instance.variant);
    instance.stage_layers = pipeline_stage_layers(instance.model->layers, instance.pp);
    spec_.nodes[static_cast<size_t>(node)].instances.push_back(instance.id);
    spec_.instances.push_back(std::move(instance));
  }

  // --model, or the file of this name below --configs-root; each file is read once.
  bool load_model(JsonSection& s, const std::string& name, InstanceSpec& instance) {
    auto& [dims, architecture] = models_[name];
    if (dims == nullptr) {
      std::string path = join_path(options_.sim.configs_root, "model/" + name + ".json");
      if (const std::string& given = options_.model.model; !given.empty()) {
        path = is_directory(given) ? join_path(given, "config.json") : given;
      }
      if (is_gguf_path(path)) {
        s.refuse("model_name",
                 fmt::format("is read from {}; accepted for a simulation is a config.json", path));
        return false;
      }
      auto read = read_model_dims(name, path);
      if (!read) {
        s.fail("model_name",
               fmt::format("is '{}', which is not known: {}", printable(name), read.status().message()));
        return false;
      }
      const std::string yaml =
          join_path(options_.sim.configs_root, "architecture/" + read->model_type + ".yaml");
      auto sequence = read_architecture(yaml);
      if (!sequence) {
        s.fail("model_name",
               fmt::format("is '{}' of type '{}', whose layers are not known: {}", printable(name),
                           printable(read->model_type), sequence.status().message()));
        return false;
      }
      dims = std::make_shared<const ModelDims>(std::move(read).value());
      architecture = std::make_shared<const Architecture>(std::move(sequence).value());
    }
    instance.model = dims;
    instance.architecture = architecture;
    return true;
  }

  void read_npu_memory(JsonSection& s, InstanceSpec& instance) {
    JsonSection npu = s.needed_object("npu_mem");
    instance.npu_memory.size_gb = npu.needed_number("mem_size", 1e-6, kMaxSizeGb);
    instance.npu_memory.bandwidth = npu.needed_number("mem_bw", 1, kMaxBandwidth);
    instance.npu_memory.latency_ns = npu.number("mem_latency", 0, 0, kMaxLatencyNs);
    constexpr double kDefaultUtilisation = 0.9;
    const double given = (compat() ? options_.sim.npu_memory_utilization : options_.kv.gpu_memory_utilization)
                             .value_or(kDefaultUtilisation);
    instance.settings.mem_util = npu.number("mem_util", given, 0, 1);
    if (instance.settings.mem_util <= 0)
      npu.fail("mem_util", "is 0; accepted is a number above 0 and at most 1");
    report_unread(npu);
  }

  void read_roles(JsonSection& s) {
    if (s.raw("pd_type") == nullptr) return s.fail("pd_type", "is missing; accepted is null");
    const std::string role = s.text("pd_type", "");
    if (role == "prefill" || role == "decode") {
      s.refuse("pd_type",
               fmt::format("is '{}': a prefill/decode split is not built yet; accepted is null", role));
    } else if (!role.empty()) {
      s.fail("pd_type", fmt::format("is '{}'; accepted is null", printable(role)));
    }
  }

  void read_degrees(JsonSection& s, InstanceSpec& i) {
    const bool has_npus = s.has("num_npus"), has_tp = s.has("tp_size"), has_pp = s.has("pp_size");
    const int64_t npus = s.integer("num_npus", 0, 1, kMaxNpus);
    int64_t tp = s.integer("tp_size", 0, 1, kMaxDegree);
    int64_t pp = s.integer("pp_size", 1, 1, kMaxDegree);
    if (!status_->is_ok()) return;
    if (!has_tp) tp = has_npus ? npus / pp : 1;
    if (has_npus && has_tp && !has_pp) pp = npus / tp;
    if (tp < 1 || pp < 1 || (has_npus && npus != tp * pp)) {
      return s.fail("num_npus",
                    fmt::format("is {}, but tp_size {} times pp_size {} is {}", npus, tp, pp, tp * pp));
    }
    if (pp > i.model->layers) {
      return s.fail("pp_size",
                    fmt::format("is {}, but {} has {} layers", pp, i.model->name, i.model->layers));
    }
    i.tp = static_cast<int>(tp);
    i.pp = static_cast<int>(pp);
    read_experts(s, i);
  }

  void read_experts(JsonSection& s, InstanceSpec& i) {
    const int64_t ep = s.integer("ep_size", i.model->is_moe() ? i.tp : 1, 1, kMaxNpus);
    if (!i.model->is_moe()) {
      if (ep == 1) return;
      // The reference takes it and does nothing with it.
      if (compat()) {
        spec_.ignored_keys.push_back(s.name("ep_size"));
      } else {
        s.fail("ep_size", fmt::format("is {}, but {} has no experts; accepted is 1", ep, i.model->name));
      }
      return;
    }
    if (i.model->experts % ep != 0) {
      return s.fail("ep_size", fmt::format("is {}, which does not divide the {} experts of {}", ep,
                                           i.model->experts, i.model->name));
    }
    if (!s.has("dp_group") && ep > i.tp) {
      return s.fail(
          "ep_size",
          fmt::format("is {}, more than tp_size {}; accepted without a dp_group is at most that", ep, i.tp));
    }
    i.ep = i.local_ep = static_cast<int>(ep);
  }

  void read_settings(JsonSection& s, InstanceSpec& i) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const SchedulerOptions& o = options_.scheduler;
    InstanceSettings& t = i.settings;
    t.max_num_seqs = s.integer("max_num_seqs", o.max_num_seqs, 1, 1 << 20);
    t.max_num_batched_tokens = std::min(
        s.integer("max_num_batched_tokens", o.max_num_batched_tokens, 1, 1 << 24), i.model->max_positions);
    t.long_prefill_token_threshold =
        s.integer("long_prefill_token_threshold", o.long_prefill_token_threshold, 0, kMost);
    t.block_size = s.integer("block_size", options_.kv.block_size, 1, 65536);
    t.enable_chunked_prefill = s.boolean("enable_chunked_prefill", o.enable_chunked_prefill);
    t.enable_prefix_caching = s.boolean("enable_prefix_caching", o.enable_prefix_caching);
    t.reserve_full_isl = s.boolean("reserve_full_isl", o.reserve_full_isl);
    t.enable_block_copy = s.boolean("enable_block_copy", options_.sim.enable_block_copy);
    for (const auto& [key, what] :
         {std::pair{"enable_local_offloading", "weight offloading"},
          std::pair{"enable_attn_offloading", "processing-in-memory"},
          std::pair{"enable_sub_batch_interleaving", "interleaving halves of a batch"}}) {
      if (s.boolean(key, false))
        s.refuse(key, fmt::format("is true: {} is not built yet; accepted is false", what));
    }
  }

  void read_types(JsonSection& s, InstanceSpec& i) {
    std::optional<SimDType> dtype;
    if (const std::string given = s.text("dtype", ""); !given.empty() && given != "auto") {
      dtype = sim_dtype_of(given);
      if (!dtype) {
        return s.fail("dtype", fmt::format("is '{}'; accepted is bfloat16, float16, float32, fp8 or int8",
                                           printable(given)));
      }
    }
    if (!dtype) dtype = options_.sim.dtype;
    if (!dtype && !i.model->torch_dtype.empty()) {
      dtype = sim_dtype_of(i.model->torch_dtype);
      if (!dtype) {
        *status_ = bad_input("{}: 'torch_dtype' is '{}', which no bundle is made for; give --dtype",
                             i.model->path, printable(i.model->torch_dtype));
        return;
      }
    }
    const SimDType weights = dtype.value_or(SimDType::kBFloat16);
    std::optional<SimDType> kv;
    if (const std::string given = s.text("kv_cache_dtype", ""); !given.empty()) {
      if (given != "auto") {
        kv = sim_dtype_of(given);
        if (!kv || *kv == SimDType::kInt8) {
          return s.fail(
              "kv_cache_dtype",
              fmt::format("is '{}'; accepted is auto, fp8, bfloat16, float16 or float32", printable(given)));
        }
      }
    } else if (options_.kv.kv_cache_dtype) {
      kv = sim_dtype_of(*options_.kv.kv_cache_dtype);
    }
    if (kv == weights) kv.reset();
    i.dtype = sim_dtype_name(weights);
    i.kv_dtype = kv ? sim_dtype_name(*kv) : "auto";
    i.types = {sim_dtype_bytes(weights), sim_dtype_bytes(kv.value_or(weights))};
    i.variant = profile_variant(sim_dtype_short(weights), kv ? sim_dtype_short(*kv) : "");
  }

  // Everything must lie on the NPU in this build.
  void read_rule(JsonSection& rule) {
    for (const char* key : {"weights", "kv_loc", "kv_evict_loc"}) {
      const std::string place = rule.text(key, "");
      if (place.empty() || place == "npu") continue;
      const bool known = place == "cpu" || place.starts_with("cxl:");
      if (!known) {
        rule.fail(key, fmt::format("is '{}'; accepted is npu", printable(place)));
      } else if (place == "cpu" && (std::string_view(key) == "kv_evict_loc")) {
        continue;  // where a second tier would be; there is none
      } else {
        rule.refuse(key, fmt::format("is '{}': placement off the NPU is not built yet; accepted is npu",
                                     printable(place)));
      }
    }
    report_unread(rule);
  }

  void read_placement(JsonSection& s, InstanceSpec& i) {
    if (!s.has("placement")) return;
    JsonSection placement = s.object("placement");
    JsonSection standard = placement.object("default");
    read_rule(standard);
    if (placement.has("blocks")) {
      const Json& blocks = *placement.raw("blocks");
      if (!blocks.is_array()) return placement.fail("blocks", "is not a list of rules");
      for (size_t b = 0; b < blocks.size() && status_->is_ok(); ++b) {
        JsonSection rule(blocks[b], path_, placement.name(fmt::format("blocks[{}]", b)), status_);
        const std::string list = rule.needed_text("blocks");
        if (!valid_block_list(list, i.model->layers)) {
          rule.fail("blocks", fmt::format("is '{}'; accepted is like 0-3,5 with blocks from 0 to {}",
                                          printable(list), i.model->layers - 1));
        }
        read_rule(rule);
        i.has_block_rules = true;
      }
    }
    if (placement.has("layers")) {
      const Json& layers = *placement.raw("layers");
      if (!layers.is_object()) return placement.fail("layers", "is not an object with a rule for each layer");
      for (const auto& [name, value] : layers.items()) {
        JsonSection rule(value, path_, placement.name("layers." + printable(name)), status_);
        read_rule(rule);
      }
    }
    report_unread(placement);
  }

  // ---- over all instances ----

  Status group_error(const InstanceSpec& i, std::string_view field, const std::string& why) const {
    return bad_input("{}.{} {}", i.where, field, why);
  }

  void form_groups() {
    std::map<std::string, int> by_name;
    for (InstanceSpec& i : spec_.instances) {
      const std::string& name = group_of_[static_cast<size_t>(i.id)];
      if (name.empty()) continue;
      const auto [found, is_new] = by_name.emplace(name, static_cast<int>(spec_.dp_groups.size()));
      if (is_new) spec_.dp_groups.push_back({name, {}});
      i.dp_group = found->second;
      spec_.dp_groups[static_cast<size_t>(found->second)].members.push_back(i.id);
    }
    for (const DpGroup& g : spec_.dp_groups) {
      if (status_->is_ok()) check_group(g);
    }
  }

  void check_group(const DpGroup& g) {
    const InstanceSpec& first = spec_.instances[static_cast<size_t>(g.members.front())];
    const auto members = static_cast<int>(g.members.size());
    for (const int id : g.members) {
      InstanceSpec& i = spec_.instances[static_cast<size_t>(id)];
      const std::string group = fmt::format("dp_group '{}'", printable(g.name));
      if (i.model->name != first.model->name) {
        *status_ =
            group_error(i, "model_name",
                        fmt::format("is '{}', but {} has '{}'", i.model->name, group, first.model->name));
      } else if (i.tp != first.tp || i.pp != first.pp || i.ep != first.ep) {
        *status_ =
            group_error(i, "dp_group",
                        fmt::format("is '{}': its members differ (tp {} pp {} ep {} and tp {} pp {} ep {}); "
                                    "accepted are equal ones",
                                    printable(g.name), first.tp, first.pp, first.ep, i.tp, i.pp, i.ep));
      } else if (members != static_cast<int>(spec_.dp_groups.front().members.size())) {
        *status_ = group_error(
            i, "dp_group",
            fmt::format("is '{}' with {} members, but '{}' has {}; accepted are groups of one size",
                        printable(g.name), members, printable(spec_.dp_groups.front().name),
                        spec_.dp_groups.front().members.size()));
      } else if (i.model->is_moe() && i.ep % members != 0) {
        *status_ =
            group_error(i, "ep_size",
                        fmt::format("is {}, which the {} members of {} do not divide", i.ep, members, group));
      } else if (i.model->is_moe() && i.ep / members > i.tp) {
        *status_ = group_error(
            i, "ep_size",
            fmt::format("is {}: each of the {} members of {} would hold {} ranks, more than tp_size {}", i.ep,
                        members, group, i.ep / members, i.tp));
      }
      if (!status_->is_ok()) return;
      if (i.model->is_moe()) i.local_ep = i.ep / members;
    }
  }

  void number_npus() {
    for (InstanceSpec& i : spec_.instances) {
      i.first_npu = spec_.num_npus;
      spec_.num_npus += i.num_npus();
      if (spec_.num_npus > kMaxNpus && status_->is_ok()) {
        *status_ = bad_input("{}: 'nodes' has more than {} NPUs, which is the most that is accepted", path_,
                             kMaxNpus);
      }
    }
    const CpuMemory& cpu = spec_.nodes.front().cpu;
    spec_.cpu_bandwidth = static_cast<int64_t>(cpu.bandwidth);
    spec_.cpu_latency_ns = static_cast<int64_t>(cpu.latency_ns);
    const int last = spec_.nodes.back().instances.front();
    spec_.reduce_bandwidth =
        static_cast<int64_t>(spec_.instances[static_cast<size_t>(last)].npu_memory.bandwidth);
  }

  // One topology serves all instances (9.2): its innermost dimension is everybody's tensor parallelism, and
  // in a cluster with DP groups the outermost one their members. What does not lie so would wait for ranks
  // that never come.
  void check_network() {
    const InstanceSpec& first = spec_.instances.front();
    for (const InstanceSpec& i : spec_.instances) {
      if (i.tp == first.tp || !status_->is_ok()) continue;
      *status_ = refused(
          "{}.tp_size is {}, but other instances have {}: one network with instances of different tensor "
          "parallelism is not "
          "built yet; accepted is one tp_size for all",
          i.where, i.tp, first.tp);
    }
    for (const DpGroup& g : spec_.dp_groups) {
      const auto members = static_cast<int>(g.members.size());
      const InstanceSpec& lowest = spec_.instances[static_cast<size_t>(g.members.front())];
      const bool together = g.members.back() - g.members.front() + 1 == members;
      if ((together && lowest.first_npu % (lowest.num_npus() * members) == 0) || !status_->is_ok()) continue;
      *status_ = refused(
          "{}.dp_group is '{}', whose members do not stand together at the front of 'instances'; accepted is "
          "one group after the other, and then instances without a group",
          lowest.where, printable(g.name));
    }
  }

  // A number for all dimensions, or one each.
  std::vector<double> per_dimension(JsonSection& top, const std::string& key, size_t dimensions, double low,
                                    double high) {
    const Json* value = top.raw(key);
    if (value == nullptr || !value->is_array()) {
      return std::vector<double>(dimensions, top.needed_number(key, low, high));
    }
    std::vector<double> out;
    if (value->size() != dimensions) {
      top.fail(key, fmt::format("has {} entries, but this cluster's network has {} dimensions", value->size(),
                                dimensions));
    }
    for (const Json& item : *value) {
      const double number = item.is_number() ? item.get<double>() : -1;
      if (!(number >= low && number <= high)) {
        top.fail(key, fmt::format("holds what is no number from {} to {}", low, high));
      }
      out.push_back(number);
    }
    out.resize(dimensions);
    return out;
  }

  void read_links(JsonSection& top) {
    const std::vector<int> sizes = topology_sizes(spec_.instances, spec_.dp_groups);
    const auto bandwidths = per_dimension(top, "link_bw", sizes.size(), 1e-6, kMaxBandwidth);
    const auto latencies = per_dimension(top, "link_latency", sizes.size(), 0, kMaxLatencyNs);
    for (size_t d = 0; d < sizes.size(); ++d) spec_.links.push_back({sizes[d], bandwidths[d], latencies[d]});
  }

  const Json& json_;
  std::string path_;
  const Options& options_;
  std::shared_ptr<Status> status_;
  ClusterSpec spec_;
  std::vector<std::string> group_of_;  // of each instance; empty: none
  std::map<std::string, std::pair<std::shared_ptr<const ModelDims>, std::shared_ptr<const Architecture>>>
      models_;
};

}  // namespace

std::vector<int64_t> pipeline_stage_layers(int64_t layers, int pp) {
  std::vector<int64_t> stages(static_cast<size_t>(pp), layers / pp);
  // The last stage has the head to carry, so the remainder goes before it.
  for (int64_t r = layers % pp, s = pp - 2; r > 0; --r, --s) ++stages[static_cast<size_t>(s)];
  return stages;
}

Result<ClusterSpec> cluster_from_json(const Json& json, const std::string& path,
                                      const ParsedOptions& parsed) {
  return ClusterReader(json, path, parsed).read();
}

Result<ClusterSpec> load_cluster(const ParsedOptions& parsed) {
  const std::string path = cluster_config_path(parsed.options.sim);
  VLLM_ASSIGN_OR_RETURN(const Json json, read_json_file(path));
  return cluster_from_json(json, path, parsed);
}

}  // namespace vllm
