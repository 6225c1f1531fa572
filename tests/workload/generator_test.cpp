#include "workload/generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace vllm {
namespace {

using ::testing::HasSubstr;

WorkloadOptions some_options() {
  WorkloadOptions o;
  o.num_reqs = 1000;
  return o;
}

std::vector<WorkloadRequest> make(const WorkloadOptions& options, uint64_t seed = 42,
                                  TokenRange tokens = {1000, {}}) {
  auto generator = WorkloadGenerator::create(options, tokens, seed);
  EXPECT_TRUE(generator) << generator.status().message();
  std::vector<WorkloadRequest> out;
  for (int64_t i = 0; i < options.num_reqs; ++i) out.push_back(generator->next().value());
  return out;
}

std::string refusal(const WorkloadOptions& options, TokenRange tokens = {1000, {}}) {
  const auto generator = WorkloadGenerator::create(options, tokens, 42);
  if (generator.is_ok()) return "accepted";
  EXPECT_EQ(generator.status().code(), StatusCode::kUsage);
  return generator.status().message();
}

std::string rows(const std::vector<WorkloadRequest>& requests) {
  std::string text;
  for (const auto& r : requests) text += workload_row_json(r) + "\n";
  return text;
}

TEST(WorkloadGenerator, EqualSeedsGiveEqualWorkloads) {
  const auto options = some_options();
  EXPECT_EQ(rows(make(options)), rows(make(options)));
  EXPECT_NE(rows(make(options)), rows(make(options, 43)));
}

// Pinned: the file of a seed must not change, or recordings no longer match their workload.
TEST(WorkloadGenerator, TheFileOfASeedIsPinned) {
  WorkloadOptions options = some_options();
  options.prefix_share = 0.5;
  options.burstiness = 0.5;
  EXPECT_EQ(sha256_hex(rows(make(options))),
            "e50acece503167628f580d59eb2a8566665cfe3fdde37ff0c86ee4893b40c98c");
}

TEST(WorkloadGenerator, WhatIsNotChangedStaysAsItWas) {
  WorkloadOptions a = some_options(), b = some_options();
  b.rate = 100;
  b.burstiness = 3;
  b.output_len_max = 500;
  const auto x = make(a), y = make(b);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(x[i].input_tok_ids, y[i].input_tok_ids) << "another rate leaves the prompts alone";
  }
  EXPECT_NE(x[5].arrival_ns, y[5].arrival_ns);
}

TEST(WorkloadGenerator, LengthsKeepTheirBounds) {
  for (const char* distribution : {"fixed", "uniform", "lognormal"}) {
    WorkloadOptions options = some_options();
    options.length_distribution = distribution;
    options.num_reqs = 5000;
    options.input_len_min = 32;
    options.input_len_max = 512;
    double sum = 0;
    std::set<int32_t> seen;
    for (const auto& r : make(options)) {
      ASSERT_EQ(r.input_tok_ids.size(), static_cast<size_t>(r.input_toks));
      ASSERT_TRUE(r.input_toks >= 32 && r.input_toks <= 512);
      ASSERT_TRUE(r.output_toks >= options.output_len_min && r.output_toks <= options.output_len_max);
      sum += r.input_toks;
      seen.insert(r.input_toks);
    }
    const double mean = sum / 5000;
    if (std::string(distribution) == "fixed") {
      EXPECT_EQ(seen, std::set<int32_t>{512});
    } else if (std::string(distribution) == "uniform") {
      EXPECT_NEAR(mean, 272, 8);
    } else {
      // Median 128, sigma ln(16)/4: mean 128 * exp(sigma^2 / 2) = 162.8, a little less for the clipped tail.
      EXPECT_NEAR(mean, 161, 6);
    }
    EXPECT_TRUE(seen.contains(512));
  }
}

TEST(WorkloadGenerator, ArrivalsHaveTheRateAndTheShapeAskedFor) {
  for (const double burstiness : {0.25, 1.0, 4.0}) {
    WorkloadOptions options = some_options();
    options.num_reqs = 20'000;
    options.input_len_max = options.input_len_min = 1;
    options.length_distribution = "fixed";
    options.rate = 50;
    options.burstiness = burstiness;
    options.first_arrival_s = 2.5;
    const auto requests = make(options);
    EXPECT_EQ(requests[0].arrival_ns, 2'500'000'000);
    std::vector<double> gaps;
    for (size_t i = 1; i < requests.size(); ++i) {
      ASSERT_GE(requests[i].arrival_ns, requests[i - 1].arrival_ns);
      gaps.push_back(ns_to_s(requests[i].arrival_ns - requests[i - 1].arrival_ns));
    }
    double mean = 0, variance = 0;
    for (const double g : gaps) mean += g / static_cast<double>(gaps.size());
    for (const double g : gaps) variance += (g - mean) * (g - mean) / static_cast<double>(gaps.size());
    EXPECT_NEAR(mean, 0.02, 0.0012) << burstiness;
    // Of a Gamma distribution: variance = mean^2 / shape.
    EXPECT_NEAR(variance, mean * mean / burstiness, 0.1 * mean * mean / burstiness) << burstiness;
  }
}

TEST(WorkloadGenerator, InfiniteRateIsAllAtOnce) {
  WorkloadOptions options = some_options();
  options.rate = std::numeric_limits<double>::infinity();
  for (const auto& r : make(options)) ASSERT_EQ(r.arrival_ns, 0);
}

TEST(WorkloadGenerator, TokenIdsCoverTheVocabularyButForSpecialOnes) {
  std::set<int32_t> seen;
  for (const auto& r : make(some_options(), 42, {20, {19, 0, 7, 7, -1, 20}})) {
    seen.insert(r.input_tok_ids.begin(), r.input_tok_ids.end());
  }
  EXPECT_EQ(seen, (std::set<int32_t>{1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}));
}

TEST(WorkloadGenerator, SharedPrefixes) {
  WorkloadOptions options = some_options();
  options.prefix_share = 0.4;
  options.prefix_len = 64;
  options.num_prefixes = 3;
  options.input_len_min = 2;
  auto generator = WorkloadGenerator::create(options, {1000, {}}, 1);
  ASSERT_TRUE(generator);
  std::map<std::vector<int32_t>, int> beginnings;
  std::set<std::vector<int32_t>> prompts;
  int64_t long_enough = 0;
  for (int64_t i = 0; i < options.num_reqs; ++i) {
    const auto r = generator->next().value();
    prompts.insert(r.input_tok_ids);
    if (r.input_toks <= 64) continue;
    ++long_enough;
    ++beginnings[std::vector<int32_t>(r.input_tok_ids.begin(), r.input_tok_ids.begin() + 64)];
  }
  int64_t shared = 0, prefixes = 0;
  for (const auto& [_, count] : beginnings) {
    if (count == 1) continue;
    shared += count;
    ++prefixes;
  }
  EXPECT_EQ(prefixes, 3);
  EXPECT_NEAR(static_cast<double>(shared) / static_cast<double>(long_enough), 0.4, 0.06);
  EXPECT_NEAR(static_cast<double>(generator->num_shared()) / 1000, 0.4, 0.05);
  EXPECT_GT(prompts.size(), 980u) << "a prompt has tokens of its own";
}

TEST(WorkloadGenerator, RefusesOptionsThatDoNotGoTogether) {
  WorkloadOptions options = some_options();
  options.num_reqs = kMaxWorkloadRows + 1;
  EXPECT_EQ(refusal(options), "--num-reqs is 16777217, accepted is 1 to 16777216");
  options = some_options();
  EXPECT_EQ(refusal(options, {2, {0, 1}}),
            "a vocabulary of 2 tokens, 2 of them special, leaves none for prompts");
  EXPECT_EQ(refusal(options, {0, {}}),
            "a vocabulary of 0 tokens, 0 of them special, leaves none for prompts");
  options.input_len_max = 100'000'000;
  EXPECT_THAT(refusal(options),
              HasSubstr("--input-len-max is 100000000: such a line could have 400000256 bytes"));
  options = some_options();
  options.prefix_share = 0.5;
  options.prefix_len = options.input_len_max;
  EXPECT_THAT(refusal(options), HasSubstr("--prefix-len 256 must be below --input-len-max 256"));
  options.input_len_max = 10'000;
  options.num_prefixes = 1'000'000;
  options.prefix_len = 9000;
  EXPECT_THAT(refusal(options), HasSubstr("are 9000000000 tokens, at most"));
}

TEST(WorkloadGenerator, RefusesArrivalsBeyondTime) {
  WorkloadOptions options = some_options();
  options.rate = 1e-9;
  auto generator = WorkloadGenerator::create(options, {1000, {}}, 42);
  ASSERT_TRUE(generator);
  Status status;
  for (int i = 0; i < 1000 && status.is_ok(); ++i) status = generator->next().status();
  EXPECT_THAT(status.message(), HasSubstr("more than 73 years after the start"));
  options.rate = 5e-324;
  options.burstiness = 1e-300;
  generator = WorkloadGenerator::create(options, {1000, {}}, 42);
  EXPECT_TRUE(generator->next());
  EXPECT_FALSE(generator->next()) << "not a number is not an arrival";
}

}  // namespace
}  // namespace vllm
