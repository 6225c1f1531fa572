#include "sim/network.h"

#include <algorithm>

namespace vllm {
namespace {

constexpr double kGibPerSecond = 1073741824.0 / 1e9;  // bytes per ns

RingPhase all_reduce(int dim, int ranks, int64_t bytes) {
  return {dim, ranks, false, 2 * (ranks - 1), bytes / ranks, ranks - 1};
}

}  // namespace

Network::Network(std::vector<LinkDimension> dimensions, int64_t reduce_bandwidth)
    : dimensions_(std::move(dimensions)), reduce_bandwidth_(std::max<int64_t>(1, reduce_bandwidth)) {
  for (const LinkDimension& d : dimensions_) {
    bytes_per_ns_.push_back(d.bandwidth_gib * kGibPerSecond);
    num_npus_ *= d.size;
  }
}

int64_t Network::message_ns(int64_t bytes, int dim) const {
  const auto d = static_cast<size_t>(dim);
  return static_cast<int64_t>(dimensions_[d].latency_ns + static_cast<double>(bytes) / bytes_per_ns_[d]);
}

int64_t Network::reduce_ns(int64_t bytes) const {
  const auto bandwidth = static_cast<double>(reduce_bandwidth_) * 1e9;  // bytes per second
  return 3 * static_cast<int64_t>(static_cast<double>(bytes) / bandwidth * 1e9);
}

int Network::coordinate(int npu, int dim) const {
  for (int d = 0; d < dim; ++d) npu /= dimensions_[static_cast<size_t>(d)].size;
  return npu % dimensions_[static_cast<size_t>(dim)].size;
}

int Network::with_coordinate(int npu, int dim, int value) const {
  int stride = 1;
  for (int d = 0; d < dim; ++d) stride *= dimensions_[static_cast<size_t>(d)].size;
  return npu + (value - coordinate(npu, dim)) * stride;
}

int Network::dimension_between(int npu_a, int npu_b) const {
  for (int d = 0; d < dimension_count(); ++d) {
    if (coordinate(npu_a, d) != coordinate(npu_b, d)) return d;
  }
  return 0;
}

std::vector<RingPhase> plan_collective(const Network& network, CollectiveKind kind, int64_t bytes,
                                       const std::vector<int>& dims) {
  std::vector<int> involved;
  for (const int d : dims) {
    if (d < network.dimension_count() && network.dimensions()[static_cast<size_t>(d)].size > 1)
      involved.push_back(d);
  }
  std::vector<RingPhase> phases;
  if (involved.empty()) return phases;
  const auto ranks_of = [&](int d) { return network.dimensions()[static_cast<size_t>(d)].size; };
  // The reference never sends less than one byte for each NPU.
  if (kind != CollectiveKind::kAllGather) bytes = std::max<int64_t>(bytes, network.num_npus());

  const auto scatter = [&](int d, bool reversed) {
    const int n = ranks_of(d);
    phases.push_back({d, n, reversed, n - 1, bytes / n, n - 1});
    bytes /= n;
  };
  const auto gather = [&](int d, bool reversed) {
    const int n = ranks_of(d);
    phases.push_back({d, n, reversed, n - 1, bytes, 0});
    bytes *= n;
  };
  switch (kind) {
    case CollectiveKind::kAllGather:
      for (auto d = involved.rbegin(); d != involved.rend(); ++d) gather(*d, false);
      break;
    case CollectiveKind::kReduceScatter:
      for (const int d : involved) scatter(d, false);
      break;
    case CollectiveKind::kAllReduce: {
      const int last = involved.back();
      involved.pop_back();
      for (const int d : involved) scatter(d, false);
      phases.push_back(all_reduce(last, ranks_of(last), bytes));
      for (auto d = involved.rbegin(); d != involved.rend(); ++d) gather(*d, true);
      break;
    }
  }
  return phases;
}

int64_t collective_ns(const Network& network, const std::vector<RingPhase>& phases) {
  int64_t total = 0;
  for (const RingPhase& p : phases) {
    total += kEndpointDelayNs;
    total += p.messages * (network.message_ns(p.message_bytes, p.dim) + kEndpointDelayNs);
    total += p.reductions * network.reduce_ns(p.message_bytes);
  }
  return total;
}

int64_t collective_ns(const Network& network, CollectiveKind kind, int64_t bytes,
                      const std::vector<int>& dims) {
  return collective_ns(network, plan_collective(network, kind, bytes, dims));
}

std::vector<int> topology_sizes(const std::vector<InstanceSpec>& instances,
                                const std::vector<DpGroup>& groups) {
  std::vector<int> sizes;
  if (!groups.empty()) {
    const InstanceSpec& member = instances[static_cast<size_t>(groups.front().members.front())];
    sizes = {member.tp};
    if (member.pp > 1) sizes.push_back(member.pp);
    sizes.push_back(static_cast<int>(groups.front().members.size()));
  } else {
    int npus = 0, stages = 0;
    for (const InstanceSpec& i : instances) {
      npus += i.num_npus();
      stages += i.pp;
    }
    const auto n = static_cast<int>(instances.size());
    sizes = npus == stages ? std::vector<int>{npus / n, n} : std::vector<int>{npus / stages, stages};
  }
  while (sizes.size() > 1 && sizes.back() == 1) sizes.pop_back();
  return sizes;
}

std::vector<int> tp_dimensions() { return {0}; }

std::vector<int> ep_dimensions(const InstanceSpec& instance, const ClusterSpec& cluster) {
  if (instance.dp_group < 0 || instance.ep <= instance.tp) return {0};
  const int members = static_cast<int>(cluster.links.size()) - 1;
  if (instance.tp > 1) return {0, members};
  return {members};
}

}  // namespace vllm
