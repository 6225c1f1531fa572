// The promise of docs/architecture.md: the same workload and the same step times give the same sequence of
// step plans, byte for byte, in the engine and in the simulator.

#include <fmt/format.h>

#include "base/random.h"
#include "engine/support.h"
#include "sim/cluster_sim.h"

namespace vllm {
namespace {

using testing::FakeExecutor;
using testing::plan_digest;
using testing::Recorder;
using testing::TestRequest;

struct World {
  SchedulerConfig config;
  std::vector<TestRequest> requests;
  std::vector<WorkloadRequest> workload;
};

SchedulerConfig random_limits(Random& random) {
  SchedulerConfig config;
  config.block_size = 1 << random.between(1, 4);
  config.max_model_len = random.between(40, 120);
  // Few blocks, so that requests are preempted, but enough for the longest one.
  config.num_blocks = 2 + config.max_model_len / config.block_size + random.between(0, 12);
  config.options.max_num_seqs = static_cast<int>(random.between(1, 12));
  config.options.max_num_batched_tokens = static_cast<int>(random.between(4, 64));
  config.options.scheduling_depth = static_cast<int>(random.between(1, 2));
  config.options.policy = random.below(3) == 0 ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
  config.options.enable_prefix_caching = random.below(4) != 0;
  config.options.reserve_full_isl = random.below(2) == 0;
  config.options.watermark = random.below(3) == 0 ? 0.05 : 0.0;
  // Not with priorities: prompts in small chunks that preempt each other in turn never end under vLLM's
  // rules.
  const bool small_chunks = random.below(3) == 0 && config.options.policy == SchedulingPolicy::kFcfs;
  config.options.long_prefill_token_threshold = small_chunks ? 7 : 0;
  if (random.below(4) == 0) {
    config.options.enable_chunked_prefill = false;
    config.options.max_num_batched_tokens = static_cast<int>(config.max_model_len + random.between(0, 40));
  }
  return config;
}

int32_t token_of(RequestId id, int64_t position) {
  uint64_t state = id * 1'000'003 + static_cast<uint64_t>(position);
  return static_cast<int32_t>(100 + splitmix64(state) % 5);
}

World random_world(uint64_t seed) {
  Random random(seed);
  World world;
  world.config = random_limits(random);
  TimeNs arrival_ns = 0;
  const int64_t gap_us = int64_t{1} << random.between(0, 12);
  for (int i = 0; i < 40; ++i) {
    TestRequest request;
    if (random.below(3) != 0) arrival_ns += random.between(0, gap_us) * kNsPerUs;
    request.arrival_ns = arrival_ns;
    request.id = static_cast<RequestId>(i + 1);
    const int64_t length = random.between(1, std::min<int64_t>(60, world.config.max_model_len - 31));
    const auto prefix = static_cast<int32_t>(random.below(3));
    for (int64_t t = 0; t < length; ++t) {
      request.prompt.push_back(100 + prefix + static_cast<int32_t>(t / 20));
    }
    request.max_tokens = static_cast<int32_t>(random.between(1, 30));
    request.priority = static_cast<int>(random.below(3));
    WorkloadRequest row;
    row.line = i + 1;
    row.arrival_ns = arrival_ns;
    row.input_toks = static_cast<int32_t>(length);
    row.output_toks = request.max_tokens;
    row.input_tok_ids = request.prompt;
    for (int32_t k = 0; k < request.max_tokens; ++k) {
      row.output_tok_ids.push_back(token_of(request.id, length + k));
    }
    world.requests.push_back(std::move(request));
    world.workload.push_back(std::move(row));
  }
  return world;
}

TimeNs step_ns(const StepShape& shape) {
  if (shape.batch.tokens == 0) return 0;
  return 300'000 + shape.batch.tokens * 20'000 + (shape.batch.decode_kv_max % 7) * 100'000;
}

struct Outcome {
  std::vector<std::string> plans;
  std::map<RequestId, TimeNs> ends;
  int64_t preemptions = 0, hits = 0;
};

Outcome run_engine(const World& world) {
  VirtualClock clock;
  Recorder recorder;
  FakeExecutor::Script script;
  script.block_size = world.config.block_size;
  script.token = [](RequestId id, int32_t position) { return token_of(id, position); };
  script.step_ns = [](const StepPlan& plan) { return step_ns(shape_of(plan)); };
  FakeExecutor executor(clock, script);
  CoreLoop loop(world.config, executor, clock, &recorder);
  testing::replay(loop, clock, world.requests);
  Outcome run;
  run.plans = executor.digests;
  for (const auto& [id, times] : recorder.token_times) run.ends[id] = times.back();
  run.preemptions = loop.counters().preemptions;
  run.hits = loop.scheduler().stats().prefix_hits;
  return run;
}

// One node of the given time.
class GivenTimes final : public StepSource {
 public:
  void build(const StepShape& shape, bool, StepGraphs& out) override {
    auto graph = std::make_shared<StepGraph>();
    graph->add(NodeKind::kCompute, step_ns(shape));
    out.assign(1, graph);
  }
  TimeNs longest_ns() const override { return 0; }
};

Outcome run_simulator(const World& world) {
  Outcome run;
  GivenTimes times;
  VirtualClock clock;
  RequestLedger ledger;
  ledger.requests = &world.workload;
  ledger.outcomes.resize(world.workload.size());
  ClusterSim::Config config;
  config.machine.network = Network({{1, 16, 0}}, 1);
  config.machine.host_of_npu = {0};
  config.machine.hosts = {{1, 0}};
  config.ledger = &ledger;
  config.clock = &clock;
  ClusterSim::Member member;
  member.instance.scheduler = world.config;
  member.instance.source = &times;
  member.instance.on_plan = [&run](const StepPlan& plan) { run.plans.push_back(plan_digest(plan)); };
  member.instance.adjust = [&world](size_t index, RequestInput& input) {
    input.priority = world.requests[index].priority;
  };
  config.members.push_back(member);
  ClusterSim sim(std::move(config));
  const Status status = sim.run();
  EXPECT_TRUE(status.is_ok()) << status.message();
  for (size_t i = 0; i < ledger.outcomes.size(); ++i) run.ends[i + 1] = ledger.outcomes[i].end_ns;
  run.preemptions = ledger.preemptions;
  run.hits = sim.instances()[0]->core().scheduler().stats().prefix_hits;
  return run;
}

TEST(EngineEquality, RandomWorldsGiveTheSamePlans) {
  int64_t preemptions = 0, hits = 0, plans = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const World world = random_world(seed);
    const Outcome engine = run_engine(world);
    const Outcome simulator = run_simulator(world);
    ASSERT_EQ(engine.plans.size(), simulator.plans.size()) << "seed " << seed;
    for (size_t i = 0; i < engine.plans.size(); ++i) {
      ASSERT_EQ(engine.plans[i], simulator.plans[i]) << "seed " << seed << ", plan " << i;
    }
    ASSERT_EQ(engine.ends, simulator.ends) << "seed " << seed;
    preemptions += engine.preemptions;
    hits += engine.hits;
    plans += static_cast<int64_t>(engine.plans.size());
  }
  // The worlds are worth something.
  EXPECT_GT(preemptions, 10'000);
  EXPECT_GT(hits, 10'000);
  EXPECT_GT(plans, 100'000);
}

}  // namespace
}  // namespace vllm
