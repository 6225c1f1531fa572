// The invariants of docs/scheduler.md over random worlds: tiny pools, priorities, shared prefixes, groups,
// aborts at any moment, both depths. Seeds are fixed. Every operation is followed by all checkers. A release
// build drives more than 1,000,000 steps; a sanitizer build, which is ten times slower, a twentieth of that.

#include "support/checker_kv_conservation.h"
#include "support/checker_kv_truth.h"
#include "support/checker_plan_consistency.h"
#include "support/checker_request_lifecycle.h"
#include "support/random_world.h"

namespace vllm::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSlowdown = 20;
#else
constexpr int kSlowdown = 1;
#endif

struct Totals {
  int64_t plans = 0, entries = 0, preemptions = 0, aborts = 0, ended = 0, hits = 0, resumed_hits = 0,
          refused = 0;
};

class Drive {
 public:
  Drive(uint64_t seed, const WorldOptions& options)
      : world_(seed, options),
        groups_(std::max<int>(1, static_cast<int>(world_.config().groups.size()))),
        plans_(world_.config()),
        truth_(world_.config(), [this](RequestId id, int64_t index) { return world_.token(id, index); }) {}

  // Empty, or the first thing that is wrong.
  std::string run(int operations, Totals& totals) {
    std::string error;
    for (int i = 0; i < operations && error.empty(); ++i) error = one(totals);
    world_.drain();
    const int64_t limit = lives_.plans_until_rest();
    int64_t plans = 0;
    while (error.empty() && !world_.at_rest()) {
      if (plans > limit) return fmt::format("not at rest after {} plans", plans);
      const int64_t before = totals.plans;
      error = one(totals);
      plans += totals.plans - before;
    }
    const SchedulerStats& stats = world_.scheduler().stats();
    totals.preemptions += stats.preemptions;
    totals.hits += stats.prefix_hits;
    totals.resumed_hits += stats.prefix_hits_resumed;
    totals.ended += static_cast<int64_t>(lives_.num_ended());
    if (!error.empty()) return error;
    return world_.scheduler().reset_prefix_cache() ? "" : "the cache cannot be reset at rest";
  }

  std::string description() const { return describe(world_.config()); }

 private:
  std::string one(Totals& totals) {
    const WorldEvent& event = world_.next();
    std::string error = observe(event, totals);
    if (error.empty()) error = check_kv_conservation(world_.scheduler(), groups_);
    if (error.empty()) error = lives_.check_alive(world_.scheduler());
    return error;
  }

  std::string observe(const WorldEvent& event, Totals& totals) {
    switch (event.kind) {
      case WorldEvent::Kind::kAdd:
        truth_.on_add(event.request.id, event.request.prompt);
        return lives_.on_add(event.request.id, static_cast<int32_t>(event.request.prompt.size()),
                             event.request.max_tokens);
      case WorldEvent::Kind::kAbort:
        ++totals.aborts;
        return lives_.on_abort(event.aborted);
      case WorldEvent::Kind::kRefused:
        ++totals.refused;
        return {};
      case WorldEvent::Kind::kReset:
        return {};
      case WorldEvent::Kind::kOutputs:
        for (const RequestOutput& output : event.outputs) {
          if (std::string error = lives_.on_output(output); !error.empty()) return error;
        }
        return {};
      case WorldEvent::Kind::kPlan:
        break;
    }
    ++totals.plans;
    totals.entries += static_cast<int64_t>(event.plan->entries.size());
    std::string error = plans_.on_plan(*event.plan, world_.scheduler());
    return error.empty() ? truth_.on_plan(*event.plan) : error;
  }

  RandomWorld world_;
  int groups_;
  PlanConsistencyChecker plans_;
  RequestLifecycleChecker lives_;
  KvTruthChecker truth_;
};

void drive_worlds(uint64_t first_seed, const WorldOptions& options, int64_t plans) {
  Totals totals;
  for (uint64_t seed = first_seed; totals.plans < plans / kSlowdown; ++seed) {
    Drive drive(seed, options);
    const std::string error = drive.run(1200, totals);
    ASSERT_EQ(error, "") << "seed " << seed << ": " << drive.description();
  }
  fmt::print("{} plans, {} entries, {} preemptions, {} aborts, {} ended, {} + {} tokens hit, {} refused\n",
             totals.plans, totals.entries, totals.preemptions, totals.aborts, totals.ended, totals.hits,
             totals.resumed_hits, totals.refused);
  // The worlds must reach what they are for.
  EXPECT_GT(totals.preemptions, totals.plans / 200);
  EXPECT_GT(totals.aborts, totals.plans / 200);
  EXPECT_GT(totals.hits, totals.plans / 10);
  EXPECT_GT(totals.resumed_hits, 0);
  // Refusals are rare: the few plans of a sanitizer run may see none.
  if (kSlowdown == 1) {
    EXPECT_GT(totals.refused, 0);
  }
}

TEST(SchedulerRandom, OneGroupDepth1) { drive_worlds(10'000'000, {.depth = 1}, 300'000); }
TEST(SchedulerRandom, OneGroupDepth2) { drive_worlds(20'000'000, {.depth = 2}, 400'000); }
TEST(SchedulerRandom, Groups) { drive_worlds(30'000'000, {.groups = true}, 320'000); }

}  // namespace
}  // namespace vllm::testing
