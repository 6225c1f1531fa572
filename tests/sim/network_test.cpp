// Messages, rings and topologies: the golden numbers of sections 9.1 to 9.5, and the rules for more than two
// ranks, which no recorded output covers, as the specification reads them.

#include "sim/network.h"

#include <gtest/gtest.h>

namespace vllm {
namespace {

Network network(const std::vector<int>& sizes) {
  std::vector<LinkDimension> dims;
  for (const int size : sizes) dims.push_back({size, 16, 20000});
  return {dims, 1597};
}

TEST(NetworkTest, MessagesTakeLatencyAndGibibytes) {
  const Network n = network({2});
  EXPECT_EQ(n.message_ns(4456448, 0), 279399);
  EXPECT_EQ(n.message_ns(4194304, 0), 264140);
  EXPECT_EQ(n.message_ns(81920, 0), 24768);
  EXPECT_EQ(n.message_ns(40, 0), 20002);
  EXPECT_EQ(n.message_ns(0, 0), 20000);
  EXPECT_EQ(n.reduce_ns(4194304), 7878);
}

TEST(NetworkTest, DimensionsMayHaveLinksOfTheirOwn) {
  const Network n({{2, 16, 1000}, {2, 1, 5000}}, 1597);
  EXPECT_LT(n.message_ns(1000, 0), n.message_ns(1000, 1));
}

TEST(NetworkTest, AllReduceOfTwoRanks) {
  const Network n = network({2});
  const auto all_reduce = [&](int64_t tokens) {
    return collective_ns(n, CollectiveKind::kAllReduce, tokens * 5120 * 2, tp_dimensions());
  };
  EXPECT_EQ(all_reduce(1), 40635);
  EXPECT_EQ(all_reduce(128), 117552);
  EXPECT_EQ(all_reduce(2048), 1280427);
}

TEST(NetworkTest, GatherAndScatterOfTwoRanks) {
  const Network n = network({2});
  EXPECT_EQ(collective_ns(n, CollectiveKind::kAllGather, 4456448, {0}), 10 + 279399 + 10);
  EXPECT_EQ(collective_ns(n, CollectiveKind::kReduceScatter, 2 * 4194304, {0}), 10 + 264140 + 10 + 7878);
}

TEST(NetworkTest, RingsOfMoreRanks) {
  const Network n = network({4});
  const auto reduce = plan_collective(n, CollectiveKind::kAllReduce, 4096, {0});
  ASSERT_EQ(reduce.size(), 1u);
  EXPECT_EQ(reduce[0].messages, 6);
  EXPECT_EQ(reduce[0].reductions, 3);
  EXPECT_EQ(reduce[0].message_bytes, 1024);
  const auto gather = plan_collective(n, CollectiveKind::kAllGather, 4096, {0});
  EXPECT_EQ(gather[0].messages, 3);
  EXPECT_EQ(gather[0].reductions, 0);
  EXPECT_EQ(gather[0].message_bytes, 4096);
  const auto scatter = plan_collective(n, CollectiveKind::kReduceScatter, 4096, {0});
  EXPECT_EQ(scatter[0].messages, 3);
  EXPECT_EQ(scatter[0].reductions, 3);
  EXPECT_EQ(scatter[0].message_bytes, 1024);
}

TEST(NetworkTest, SeveralDimensionsArePhases) {
  const Network n = network({2, 4, 1});
  const auto reduce = plan_collective(n, CollectiveKind::kAllReduce, 8000, {0, 1, 2});
  ASSERT_EQ(reduce.size(), 3u);  // a dimension of one rank is skipped
  EXPECT_EQ(reduce[0].dim, 0);   // scatter inward
  EXPECT_EQ(reduce[0].message_bytes, 4000);
  EXPECT_EQ(reduce[1].dim, 1);  // all-reduce over the last one
  EXPECT_EQ(reduce[1].message_bytes, 1000);
  EXPECT_EQ(reduce[1].messages, 6);
  EXPECT_EQ(reduce[2].dim, 0);  // gather back, the other way round
  EXPECT_EQ(reduce[2].message_bytes, 4000);
  EXPECT_TRUE(reduce[2].reversed);

  const auto gather = plan_collective(n, CollectiveKind::kAllGather, 100, {0, 1});
  ASSERT_EQ(gather.size(), 2u);
  EXPECT_EQ(gather[0].dim, 1);  // outermost first, growing
  EXPECT_EQ(gather[0].message_bytes, 100);
  EXPECT_EQ(gather[1].dim, 0);
  EXPECT_EQ(gather[1].message_bytes, 400);

  const auto scatter = plan_collective(n, CollectiveKind::kReduceScatter, 800, {0, 1});
  ASSERT_EQ(scatter.size(), 2u);
  EXPECT_EQ(scatter[0].dim, 0);  // innermost first, shrinking
  EXPECT_EQ(scatter[0].message_bytes, 400);
  EXPECT_EQ(scatter[1].message_bytes, 100);
}

TEST(NetworkTest, OneRankSendsNothing) {
  EXPECT_TRUE(plan_collective(network({1}), CollectiveKind::kAllReduce, 100, {0}).empty());
  EXPECT_EQ(collective_ns(network({1, 4}), CollectiveKind::kAllReduce, 100, {0}), 0);
}

// The reference raises what is reduced to one byte for each NPU, and not what is gathered.
TEST(NetworkTest, AtLeastAByteForEachNpu) {
  const Network n = network({2, 4});
  EXPECT_EQ(plan_collective(n, CollectiveKind::kReduceScatter, 2, {0})[0].message_bytes, 4);
  EXPECT_EQ(plan_collective(n, CollectiveKind::kAllGather, 2, {0})[0].message_bytes, 2);
}

TEST(NetworkTest, CoordinatesOfNpus) {
  const Network n = network({2, 3, 2});
  EXPECT_EQ(n.num_npus(), 12);
  EXPECT_EQ(n.coordinate(11, 0), 1);
  EXPECT_EQ(n.coordinate(11, 1), 2);
  EXPECT_EQ(n.coordinate(11, 2), 1);
  EXPECT_EQ(n.dimension_between(0, 1), 0);
  EXPECT_EQ(n.dimension_between(0, 2), 1);
  EXPECT_EQ(n.dimension_between(0, 6), 2);
  EXPECT_EQ(n.dimension_between(1, 6), 0);
  EXPECT_EQ(n.dimension_between(5, 5), 0);
  EXPECT_EQ(n.with_coordinate(0, 1, 2), 4);
  EXPECT_EQ(n.with_coordinate(11, 1, 0), 7);
}

std::vector<int> topology(const std::vector<std::pair<int, int>>& tp_pp,
                          const std::vector<DpGroup>& groups = {}) {
  std::vector<InstanceSpec> instances(tp_pp.size());
  for (size_t i = 0; i < tp_pp.size(); ++i) std::tie(instances[i].tp, instances[i].pp) = tp_pp[i];
  return topology_sizes(instances, groups);
}

TEST(NetworkTest, TopologyOfInstances) {
  using Sizes = std::vector<int>;
  EXPECT_EQ(topology({{1, 1}}), (Sizes{1}));
  EXPECT_EQ(topology({{2, 1}}), (Sizes{2}));
  EXPECT_EQ(topology({{1, 1}, {1, 1}}), (Sizes{1, 2}));
  EXPECT_EQ(topology({{1, 4}}), (Sizes{4}));
  EXPECT_EQ(topology({{2, 2}}), (Sizes{2, 2}));
  EXPECT_EQ(topology({{2, 1}, {2, 1}, {2, 1}, {2, 1}}), (Sizes{2, 4}));
  const std::vector<DpGroup> two = {{"A", {0, 1}}};
  EXPECT_EQ(topology({{1, 1}, {1, 1}}, two), (Sizes{1, 2}));
  EXPECT_EQ(topology({{2, 1}, {2, 1}}, two), (Sizes{2, 2}));
  EXPECT_EQ(topology({{2, 2}, {2, 2}}, two), (Sizes{2, 2, 2}));
  EXPECT_EQ(topology({{1, 2}, {1, 2}}, two), (Sizes{1, 2, 2}));
}

TEST(NetworkTest, ExpertsTalkOverTheMembersOfTheGroup) {
  ClusterSpec cluster;
  cluster.links.resize(2);
  InstanceSpec i;
  i.tp = 2;
  i.ep = 2;
  EXPECT_EQ(ep_dimensions(i, cluster), (std::vector<int>{0}));
  i.dp_group = 0;
  EXPECT_EQ(ep_dimensions(i, cluster), (std::vector<int>{0}));  // ep fits into tp: not across members
  i.ep = 4;
  EXPECT_EQ(ep_dimensions(i, cluster), (std::vector<int>{0, 1}));
  i.tp = 1;
  i.ep = 2;
  EXPECT_EQ(ep_dimensions(i, cluster), (std::vector<int>{1}));
  cluster.links.resize(3);  // with stages the members are the third dimension
  EXPECT_EQ(ep_dimensions(i, cluster), (std::vector<int>{2}));
}

}  // namespace
}  // namespace vllm
