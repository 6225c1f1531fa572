// Our scheduler against the Python model of its rules: the same random requests through both, compared after
// every operation. The model lies outside the project; where it is absent these tests skip.

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "formats/json.h"
#include "support/random_world.h"
#include "support/reference.h"

namespace vllm::testing {
namespace {

Json ids(const std::vector<RequestId>& list) { return Json(list); }

Json config_line(uint64_t seed, const SchedulerConfig& c) {
  const SchedulerOptions& o = c.options;
  return {{"op", "config"},
          {"seed", seed},
          {"nblocks", c.num_blocks},
          {"max_seqs", o.max_num_seqs},
          {"budget", o.max_num_batched_tokens},
          {"max_len", c.max_model_len},
          {"bs", c.block_size},
          {"policy", o.policy == SchedulingPolicy::kFcfs ? "fcfs" : "priority"},
          {"threshold", o.long_prefill_token_threshold},
          {"watermark", o.watermark},
          {"chunked", o.enable_chunked_prefill},
          {"caching", o.enable_prefix_caching},
          {"reserve_full_isl", o.reserve_full_isl},
          {"depth", o.scheduling_depth}};
}

Json add_line(const WorldRequest& r) {
  return {{"op", "add"},         {"i", r.id},
          {"toks", r.prompt},    {"out", r.max_tokens},
          {"min", r.min_tokens}, {"eos", r.eos.empty() ? Json() : Json(r.eos[0])},
          {"stops", r.stops},    {"prio", r.priority},
          {"arr", r.arrival_ns}, {"salt", r.salt.empty() ? Json() : Json(r.salt)}};
}

void put_state(Json& line, const Scheduler& s) {
  line["running"] = ids(s.running_ids());
  line["waiting"] = ids(s.waiting_ids());
  line["free"] = s.pool().free_list();
}

Json plan_line(const StepPlan& plan, const Scheduler& s) {
  Json line = {{"op", "plan"}, {"n", Json::array()}, {"preempted", ids(plan.preempted)}};
  for (const StepEntry& e : plan.entries) {
    line["n"].push_back(Json::array({e.id, e.num_tokens, e.num_computed, e.samples}));
  }
  put_state(line, s);
  return line;
}

Json outputs_line(const WorldEvent& event, const Scheduler& s) {
  Json line = {{"op", "outputs"}, {"tokens", Json::array()}, {"outputs", Json::array()}};
  for (size_t i = 0; i < event.tokens.size(); ++i) {
    if (event.tokens[i] != kTokenInFlight)
      line["tokens"].push_back(Json::array({event.plan->entries[i].id, event.tokens[i]}));
  }
  for (const RequestOutput& output : event.outputs) {
    line["outputs"].push_back(
        Json::array({output.id, output.ended ? Json(end_reason_name(output.reason)) : Json()}));
  }
  put_state(line, s);
  return line;
}

Json event_line(const WorldEvent& event, const Scheduler& s) {
  switch (event.kind) {
    case WorldEvent::Kind::kAdd:
      return add_line(event.request);
    case WorldEvent::Kind::kAbort:
      return {{"op", "abort"}, {"i", event.aborted}};
    case WorldEvent::Kind::kPlan:
      return plan_line(*event.plan, s);
    case WorldEvent::Kind::kOutputs:
      return outputs_line(event, s);
    case WorldEvent::Kind::kReset:
      return {{"op", "reset"}, {"done", event.reset}};
    case WorldEvent::Kind::kRefused:
      break;
  }
  return {};
}

// Cached tokens at first admission, of those that were admitted in this plan.
Json cached_line(const StepPlan& plan, const Scheduler& s) {
  Json line = {{"op", "cached"}, {"cached", Json::array()}};
  for (const StepEntry& e : plan.entries) {
    if (e.starts) line["cached"].push_back(Json::array({e.id, s.state(e.id)->cached_tokens.value()}));
  }
  return line;
}

// Returns the number of plans.
int write_trace(const std::string& path, uint64_t first_seed, int scenarios, int operations) {
  std::ofstream file(path);
  int plans = 0;
  for (int k = 0; k < scenarios; ++k) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(k);
    RandomWorld world(seed, {});
    file << config_line(seed, world.config()).dump() << '\n';
    for (int i = 0; i < operations; ++i) {
      const WorldEvent& event = world.next();
      if (event.kind == WorldEvent::Kind::kRefused) continue;
      file << event_line(event, world.scheduler()).dump() << '\n';
      if (event.kind != WorldEvent::Kind::kPlan) continue;
      ++plans;
      file << cached_line(*event.plan, world.scheduler()).dump() << '\n';
    }
  }
  return plans;
}

std::vector<Json> run_driver(const std::string& model, const std::string& trace, const std::string& option) {
  const std::string command =
      fmt::format("python3 {}/tests/sched/model_driver.py {} {} {}", VLLM_SOURCE_DIR, model, trace, option);
  std::vector<Json> lines;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return lines;
  std::string text;
  std::array<char, 4096> buffer;
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(SchedulerOracle, PlansQueuesAndFreeListEqualTheModels) {
  const auto model = shared_path("examples/scheduler-model");
  if (!model) GTEST_SKIP() << "the model of the scheduler is not here";
  TempDir dir;
  const int plans = write_trace(dir / "trace.jsonl", 1'000'000, 300, 400);
  const auto answers = run_driver(*model, dir / "trace.jsonl", "");
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0]["difference"].is_null()) << answers[0]["difference"];
  EXPECT_EQ(answers[0]["plans"], plans);
  EXPECT_GE(plans, 30'000);
}

// Breaks each rule of the model once: the traces must tell the broken rule from ours. One switch changes
// nothing, with any input: a preempted request has no blocks that an output could index.
TEST(SchedulerOracle, EveryBrokenRuleIsSeen) {
  const auto model = shared_path("examples/scheduler-model");
  if (!model) GTEST_SKIP() << "the model of the scheduler is not here";
  TempDir dir;
  write_trace(dir / "trace.jsonl", 2'000'000, 200, 400);
  const auto answers = run_driver(*model, dir / "trace.jsonl", "--switches");
  EXPECT_EQ(answers.size(), 40u);
  for (const Json& answer : answers) {
    if (answer["rules"].contains("index_preempted")) continue;
    EXPECT_FALSE(answer["difference"].is_null()) << "no scenario is sensitive to " << answer["rules"];
  }
}

}  // namespace
}  // namespace vllm::testing
