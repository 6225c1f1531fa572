// Graphs on NPUs: units, queues, messages, rings, and the short cuts against the long way.

#include "sim/npu_machine.h"

#include "base/random.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;

Network network(std::vector<int> sizes, double gib = 16, double latency = 20000) {
  std::vector<LinkDimension> dims;
  for (const int size : sizes) dims.push_back({size, gib, latency});
  return Network(dims, 1597);
}

NpuMachine::Config machine(std::vector<int> sizes) {
  NpuMachine::Config config;
  config.network = network(sizes);
  int npus = 1;
  for (const int size : sizes) npus *= size;
  config.host_of_npu.assign(static_cast<size_t>(npus), 0);
  config.hosts.push_back({256, 0});
  return config;
}

std::shared_ptr<StepGraph> graph() { return std::make_shared<StepGraph>(); }

// The instants at which each NPU's graph ended.
std::vector<TimeNs> run(NpuMachine& machine, size_t npus) {
  std::vector<TimeNs> ends(npus, -1);
  machine.on_graph_end = [&](int npu, TimeNs) { ends[static_cast<size_t>(npu)] = machine.now(); };
  while (machine.has_events()) machine.run_round();
  return ends;
}

TEST(NpuMachine, NodesWaitForParentsAndForTheirUnit) {
  NpuMachine m(machine({1}));
  auto g = graph();
  g->add(NodeKind::kCompute, 100);
  g->add(NodeKind::kCompute, 50);  // no parent: waits for the unit only
  g->add(NodeKind::kCompute, 7);
  g->link(0, 2);
  m.start(0, g);
  EXPECT_FALSE(m.finished(0));
  std::vector<TimeNs> rounds;
  while (m.has_events()) {
    m.run_round();
    rounds.push_back(m.now());
  }
  EXPECT_THAT(rounds, ElementsAre(100, 150, 157));
  EXPECT_EQ(m.ended(0), 1);
}

TEST(NpuMachine, AQueuedGraphStartsInTheSameInstant) {
  NpuMachine m(machine({1}));
  auto g = graph();
  g->add(NodeKind::kCompute, 10);
  m.start(0, g);
  m.start(0, g);
  m.start(0, graph());  // nothing to do: ends when its turn comes
  EXPECT_THAT(run(m, 1), ElementsAre(20));
  EXPECT_EQ(m.ended(0), 3);
}

TEST(NpuMachine, TheHostServesOneTransferAfterAnother) {
  NpuMachine::Config config = machine({2});
  config.hosts[0].latency_ns = 5;
  NpuMachine m(config);
  auto g = graph();
  g->add(NodeKind::kHostMemory, 256 * 10 + 255);  // 5 + 10 ns
  m.start(0, g);
  m.start(1, g);
  EXPECT_THAT(run(m, 2), ElementsAre(15, 30));
}

TEST(NpuMachine, AReceiveEndsWhenTheMessageIsThereAndASendHoldsTheUnit) {
  NpuMachine m(machine({2}));
  auto sender = graph();
  sender->add(NodeKind::kSend, 81920);
  sender->nodes.back().peer = 1;
  sender->add(NodeKind::kSend, 0);
  sender->nodes.back().peer = 1;
  auto receiver = graph();
  receiver->add(NodeKind::kReceive, 81920);
  receiver->nodes.back().peer = -1;
  m.start(0, sender);
  m.start(1, receiver);
  EXPECT_THAT(run(m, 2), ElementsAre(24768 + 20000, 24768));
}

TEST(NpuMachine, AMessageThatCameFirstIsThereAtOnce) {
  NpuMachine m(machine({2}));
  auto sender = graph();
  sender->add(NodeKind::kSend, 40);
  sender->nodes.back().peer = 1;
  auto receiver = graph();
  receiver->add(NodeKind::kCompute, 50000);
  receiver->add(NodeKind::kReceive, 40);
  receiver->nodes.back().peer = -1;
  receiver->link(0, 1);
  m.start(0, sender);
  m.start(1, receiver);
  EXPECT_THAT(run(m, 2), ElementsAre(20002, 50000));
}

std::vector<TimeNs> run_ring(NpuMachine::Config config, const std::vector<RingPhase>& phases,
                             const std::vector<TimeNs>& begins) {
  NpuMachine m(std::move(config));
  for (size_t i = 0; i < begins.size(); ++i) {
    auto g = graph();
    g->add(NodeKind::kCompute, begins[i]);
    g->add(NodeKind::kCollective, 0);
    g->nodes.back().ring = &phases;
    g->link(0, 1);
    m.start(static_cast<int>(i), g);
  }
  return run(m, begins.size());
}

TEST(NpuMachine, AnAllReduceOfTwoRanksTakesWhatTheReferenceTakes) {
  // h = 5120, bfloat16.
  const std::pair<int64_t, TimeNs> golden[] = {{1, 40635}, {128, 117552}, {2048, 1280427}};
  for (const auto& [tokens, ns] : golden) {
    const auto phases = plan_collective(network({2}), CollectiveKind::kAllReduce, tokens * 5120 * 2, {0});
    EXPECT_THAT(run_ring(machine({2}), phases, {0, 0}), ElementsAre(ns, ns)) << tokens;
    EXPECT_EQ(collective_ns(network({2}), phases), ns);
  }
}

TEST(NpuMachine, AOneHopRingIsNoBarrier) {
  // Rank 1 begins late but within one message: the skew changes sides.
  const auto phases = plan_collective(network({2}), CollectiveKind::kAllGather, 1000, {0});
  const TimeNs hop = network({2}).message_ns(1000, 0);
  EXPECT_THAT(run_ring(machine({2}), phases, {0, 100}), ElementsAre(100 + hop + 20, hop + 20));
}

TEST(NpuMachine, RingsSolvedAtOnceEndAsThoseRunMessageByMessage) {
  Random random(7);
  for (int trial = 0; trial < 500; ++trial) {
    const int ranks = static_cast<int>(random.between(2, 6));
    const auto kind = static_cast<CollectiveKind>(random.below(3));
    const auto phases = plan_collective(network({ranks}), kind, random.between(ranks, 1 << 22), {0});
    std::vector<TimeNs> begins;
    for (int i = 0; i < ranks; ++i) begins.push_back(random.between(0, 1 << random.between(1, 18)));
    NpuMachine::Config solved = machine({ranks});
    solved.solve_rings = true;
    EXPECT_EQ(run_ring(solved, phases, begins), run_ring(machine({ranks}), phases, begins)) << trial;
  }
}

TEST(NpuMachine, ACollectiveOverTwoDimensionsRunsItsPhasesOneAfterAnother) {
  const Network net = network({2, 3});
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    const auto phases = plan_collective(net, kind, 60000, {0, 1});
    EXPECT_GE(phases.size(), 2u);
    const std::vector<TimeNs> ends = run_ring(machine({2, 3}), phases, std::vector<TimeNs>(6, 0));
    for (const TimeNs end : ends) EXPECT_EQ(end, collective_ns(net, phases));
  }
}

TEST(NpuMachine, ACollectiveOfOneRankTakesNoTime) {
  const auto phases = plan_collective(network({1}), CollectiveKind::kAllReduce, 1000, {0});
  EXPECT_TRUE(phases.empty());
  EXPECT_THAT(run_ring(machine({1}), phases, {5}), ElementsAre(5));
}

}  // namespace
}  // namespace vllm
