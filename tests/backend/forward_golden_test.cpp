// The forward against what the reference library computed in float32 (tests/golden/model).

#include <cmath>
#include <filesystem>

#include "formats/json.h"
#include "support/plan_driver.h"
#include "support/reference.h"

namespace vllm::testing {
namespace {

bool sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

struct TinyCase {
  std::string name, source;
  Json rope;  // null: the checkpoint's own
  std::vector<std::pair<std::vector<int32_t>, std::vector<float>>> prompts;
};

std::vector<TinyCase> tiny_cases() {
  const auto json = read_json_file(golden_path("tiny/tiny.json"));
  std::vector<TinyCase> out;
  if (!json.is_ok()) return out;
  for (const Json& entry : *json) {
    TinyCase c{entry["name"], entry["source"], entry.value("rope_parameters", Json()), {}};
    for (const Json& prompt : entry["prompts"]) c.prompts.emplace_back(prompt["ids"], prompt["logits"]);
    out.push_back(std::move(c));
  }
  return out;
}

// A copy of the checkpoint whose config.json has other rope_parameters.
std::string with_rope(const TempDir& dir, const TinyCase& c) {
  std::filesystem::copy(golden_path("tiny/" + c.source), dir.path(),
                        std::filesystem::copy_options::recursive);
  Json config = read_json_file(dir / "config.json").value();
  config["rope_parameters"] = c.rope;
  write_text(dir / "config.json", json_text(config));
  return dir.path();
}

class TinyGoldenTest : public ::testing::TestWithParam<Isa> {};

TEST_P(TinyGoldenTest, LogitsEqualTheReference) {
  if (GetParam() > best_isa()) GTEST_SKIP() << "this processor has no " << isa_name(GetParam());
  const std::vector<TinyCase> cases = tiny_cases();
  ASSERT_EQ(cases.size(), 11u);
  for (const TinyCase& c : cases) {
    SCOPED_TRACE(c.name);
    TempDir dir;
    const std::string path = c.rope.is_null() ? golden_path("tiny/" + c.source) : with_rope(dir, c);
    RigOptions options;
    options.executor.isa = GetParam();
    const auto rig = make_rig(path, options);
    ASSERT_NE(rig, nullptr);
    RequestId id = 0;
    for (const auto& [ids, logits] : c.prompts) {
      rig->driver->add(id, ids);
      const Status status = rig->driver->step({{id, static_cast<int32_t>(ids.size())}});
      ASSERT_TRUE(status.is_ok()) << status.message();
      const std::vector<float>& ours = rig->driver->at(id).logits.back();
      ASSERT_EQ(ours.size(), logits.size());
      // The logits are of size 10; float32 sums in another order differ by a few units of 1e-6 of that.
      for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(ours[i], logits[i], 1e-4) << "token " << i;
      ++id;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllIsas, TinyGoldenTest, ::testing::Values(Isa::kGeneric, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& isa) { return isa_name(isa.param); });

// ---- SmolLM2
// ----------------------------------------------------------------------------------------------------

// How far a run may be from the float32 reference.
struct Tolerance {
  KvCacheDType kv = KvCacheDType::kFloat32;
  double near_tie_nats = 0.005;  // another token is allowed where the two best are closer than this
  double logprob = 1e-3;
};

double logprob(const std::vector<float>& logits, int32_t token) {
  double greatest = -INFINITY, sum = 0;
  for (const float l : logits) greatest = std::max(greatest, double{l});
  for (const float l : logits) sum += std::exp(double{l} - greatest);
  return double{logits[static_cast<size_t>(token)]} - greatest - std::log(sum);
}

struct Comparison {
  int tokens = 0;     // compared, until the first allowed difference of each prompt
  int near_ties = 0;  // prompts that went another way where the two best are as good as equal
  double largest_logprob_error = 0;
};

void compare(const Json& golden, const PlanDriver::Sequence& ours, size_t prompt, const Tolerance& tolerance,
             Comparison& comparison) {
  const std::vector<int32_t> generated = ours.generated();
  for (size_t i = 0; i < golden["tokens"].size(); ++i) {
    const auto expected = golden["tokens"][i].get<int32_t>();
    if (generated.at(i) != expected) {
      EXPECT_LE(golden["gaps"][i].get<double>(), tolerance.near_tie_nats)
          << "prompt " << prompt << ", step " << i << ": " << generated[i] << " instead of " << expected;
      ++comparison.near_ties;
      return;  // from here on the two continue different texts
    }
    ++comparison.tokens;
    const double error = std::abs(logprob(ours.logits.at(i), expected) - golden["logprobs"][i].get<double>());
    comparison.largest_logprob_error = std::max(comparison.largest_logprob_error, error);
    ASSERT_LE(error, tolerance.logprob) << "prompt " << prompt << ", step " << i;
  }
}

// All prompts together: first their prefills, then everybody decodes. Sanitizers make this slow, so there the
// two shortest do.
Comparison continue_prompts(const std::string& model, const Tolerance& tolerance) {
  Comparison comparison;
  const Json golden = read_json_file(golden_path("smollm2_greedy.json")).value();
  const auto steps = golden["steps"].get<int>();
  RigOptions options;
  options.blocks = 400;
  options.kv = tolerance.kv;
  const auto rig = make_rig(model, options);
  if (rig == nullptr) return comparison;
  std::vector<RequestId> used;
  for (size_t i = 0; i < golden["prompts"].size(); ++i) {
    const std::vector<int32_t> ids = golden["prompts"][i]["ids"];
    if (sanitized() && (ids.size() > 10 || used.size() == 2)) continue;
    rig->driver->add(i, ids);
    EXPECT_TRUE(rig->driver->step({{i, static_cast<int32_t>(ids.size())}}).is_ok());
    used.push_back(i);
  }
  for (int step = 1; step < steps; ++step) {
    std::vector<PlanDriver::Piece> pieces;
    for (const RequestId id : used) pieces.push_back({id, 1});
    EXPECT_TRUE(rig->driver->step(pieces).is_ok());
  }
  for (const RequestId id : used) {
    compare(golden["prompts"][id], rig->driver->at(id), id, tolerance, comparison);
  }
  EXPECT_EQ(used.size(), sanitized() ? 2u : 20u);
  return comparison;
}

class SmolLm2GoldenTest : public ::testing::TestWithParam<Tolerance> {};

TEST_P(SmolLm2GoldenTest, GreedyTokensEqualTheReference) {
  const auto model = default_model_path();
  if (!model)
    GTEST_SKIP() << "models/SmolLM2-135M-Instruct.Q4_1.gguf is not there (scripts/setup puts it there)";
  const Comparison comparison = continue_prompts(*model, GetParam());
  EXPECT_GT(comparison.tokens, sanitized() ? 60 : 640);
  RecordProperty("tokens_compared", comparison.tokens);
  RecordProperty("near_ties", comparison.near_ties);
  fmt::print("{} tokens compared, {} near ties, largest log-probability error {:.2g}\n", comparison.tokens,
             comparison.near_ties, comparison.largest_logprob_error);
}

// bfloat16 keeps eight bits of each key and value: a logit moves by a few hundredths, so only closer choices
// may turn.
INSTANTIATE_TEST_SUITE_P(KvDTypes, SmolLm2GoldenTest,
                         ::testing::Values(Tolerance{}, Tolerance{KvCacheDType::kBFloat16, 0.1, 0.2},
                                           Tolerance{KvCacheDType::kFloat16, 0.02, 0.03}),
                         [](const auto& dtype) {
                           switch (dtype.param.kv) {
                             case KvCacheDType::kBFloat16:
                               return "bfloat16";
                             case KvCacheDType::kFloat16:
                               return "float16";
                             default:
                               return "float32";
                           }
                         });

}  // namespace
}  // namespace vllm::testing
