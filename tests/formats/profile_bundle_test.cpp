// Profile bundles: what the reader takes, and one sentence for everything that it does not.

#include "formats/profile_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kDense = "layer,tokens,time_us\nqkv_proj,1,2.5\nqkv_proj,2,3\nqkv_proj,4,4\n";
constexpr const char* kPerSequence = "layer,sequences,time_us\r\nlm_head,1,10\r\nlm_head,2,20\r\n";
constexpr const char* kAttention =
    "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,1\n0,0,1,32,2\n16,0,0,0,3\n16,16,0,0,4\n";
constexpr const char* kMoe = "tokens,activated_experts,time_us\n1,8,1\n2,8,2\n2,16,3\n";
constexpr const char* kSkew =
    "pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha,n_samples\n0,n<=4,sr<=5%,kvB<=1k,kp=0,-7.5,3\n";
constexpr const char* kMeta = R"(
hardware: CARD
model: some/model
variant: bf16
tp_degrees: [1, 2]
engine_effective: {block_size: 16, max_num_batched_tokens: 2048, max_num_seqs: 256}
skew_fit:
  enabled: true
  per_tp:
    1: {alpha_default: 0.05, bucket_table: tp1/skew_fit.csv}
    2: {alpha_default: 0.06}
)";

class ProfileBundleTest : public ::testing::Test {
 protected:
  ProfileBundleTest() {
    put("meta.yaml", kMeta);
    for (const char* tp : {"tp1", "tp2"}) {
      EXPECT_EQ(::mkdir((dir_ / tp).c_str(), 0700), 0);
      const std::string folder = std::string(tp) + "/";
      put(folder + "dense.csv", kDense);
      put(folder + "per_sequence.csv", kPerSequence);
      put(folder + "attention.csv", kAttention);
      put(folder + "skew_fit.csv", kSkew);
    }
    put("tp1/moe.csv", kMoe);
  }

  void put(const std::string& name, const std::string& text) { testing::write_text(dir_ / name, text); }
  std::string error(const ProfileRequest& request = {}) const {
    const auto bundle = read_profile_bundle(dir_.path(), request);
    if (bundle) return "accepted";
    EXPECT_EQ(exit_code(bundle.status()), 2);
    EXPECT_THAT(bundle.status().message(), HasSubstr(dir_.path()));
    return bundle.status().message();
  }

  testing::TempDir dir_;
};

TEST_F(ProfileBundleTest, ReadsWhatItIsAskedFor) {
  const auto bundle = read_profile_bundle(dir_.path(), {2, true});
  ASSERT_TRUE(bundle.is_ok()) << bundle.status().message();
  EXPECT_EQ(bundle->meta.hardware, "CARD");
  EXPECT_EQ(bundle->meta.max_num_seqs, 256);
  EXPECT_THAT(bundle->meta.tp_degrees, ElementsAre(1, 2));
  const ProfileTables* two = bundle->tables(2);
  ASSERT_NE(two, nullptr);
  EXPECT_THAT(two->dense[0].keys, ElementsAre(1, 2, 4));
  EXPECT_THAT(two->dense[0].ns, ElementsAre(2500, 3000, 4000));
  EXPECT_EQ(two->attention.size(), 4u);
  EXPECT_EQ(two->alpha_default, 0.06);
  ASSERT_EQ(two->skew.size(), 1u);
  EXPECT_EQ(two->skew[0].alpha, -7.5);
  EXPECT_EQ(two->skew[0].n, 1);
  EXPECT_TRUE(two->moe.empty());
  EXPECT_EQ(bundle->tables(1)->moe.size(), 3u);
  EXPECT_EQ(bundle->tables(4), nullptr);
}

TEST_F(ProfileBundleTest, SkewIsReadOnlyWhereItIsEnabled) {
  std::string meta = kMeta;
  meta.replace(meta.find("enabled: true"), 13, "enabled: false");
  put("meta.yaml", meta);
  put("tp1/skew_fit.csv", "nonsense");
  EXPECT_TRUE(read_profile_bundle(dir_.path(), {})->tables(1)->skew.empty());
  put("meta.yaml", kMeta);
  EXPECT_THAT(error(), HasSubstr("skew_fit.csv:1: has no column 'pc'"));
}

TEST_F(ProfileBundleTest, OlderBundlesHaveTheSkewTableInline) {
  put("meta.yaml", R"(
skew_fit:
  enabled: true
  per_tp:
    1:
      alpha_default: 0.05
      alpha_by_bucket:
        "pc=16|n<=8|sr<=5%|kvB<=1k|kp=0": 0.25
        "pc=0|n>256|sr>70%|kvB>16k|kp>8k": 0.5
)");
  put("tp1/skew_fit.csv", "nonsense");
  const auto bundle = read_profile_bundle(dir_.path(), {});
  ASSERT_TRUE(bundle.is_ok()) << bundle.status().message();
  const auto& skew = bundle->tables(1)->skew;
  ASSERT_EQ(skew.size(), 2u);
  EXPECT_EQ(skew[0].pc, 0);
  EXPECT_EQ(skew[0].kp, 6);
  EXPECT_EQ(skew[1].alpha, 0.25);
}

TEST_F(ProfileBundleTest, TimesAreWholeNanosecondsOfAtLeastOne) {
  put("tp1/dense.csv", "time_us,other,layer,tokens\n0,x,a,1\n0.0005,x,a,2\n0.0015,x,a,3\n1e3,x,a,4\n");
  const auto bundle = read_profile_bundle(dir_.path(), {});
  ASSERT_TRUE(bundle.is_ok()) << bundle.status().message();
  EXPECT_THAT(bundle->tables(1)->dense[0].ns, ElementsAre(1, 1, 2, 1000000));
}

TEST_F(ProfileBundleTest, RowsNeedNoOrderAndTheFirstOfEqualOnesCounts) {
  put("tp1/dense.csv", "layer,tokens,time_us\na,4,4\nb,1,7\na,1,1\na,2,2\na,2,9\nb,4,7\nb,2,7\n");
  put("tp1/attention.csv",
      "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n16,0,0,0,3\n0,0,1,32,2\n0,0,1,16,1\n0,0,1,16,"
      "8\n");
  const auto bundle = read_profile_bundle(dir_.path(), {});
  ASSERT_TRUE(bundle.is_ok()) << bundle.status().message();
  EXPECT_THAT(bundle->tables(1)->dense[0].ns, ElementsAre(1000, 2000, 4000));
  EXPECT_EQ(bundle->tables(1)->attention.size(), 3u);
  EXPECT_EQ(bundle->tables(1)->attention[0].ns, 1000);
}

TEST_F(ProfileBundleTest, DegreesThatWereNotProfiled) {
  EXPECT_THAT(error({4, false}),
              HasSubstr("tensor parallel degree 4 was not profiled (no folder tp4); accepted is 1, 2"));
  EXPECT_THAT(read_profile_bundle(dir_ / "absent", {}).status().message(),
              HasSubstr("no such profile bundle"));
}

TEST_F(ProfileBundleTest, MissingFiles) {
  for (const char* name : {"meta.yaml", "tp1/dense.csv", "tp1/per_sequence.csv", "tp1/attention.csv",
                           "tp1/skew_fit.csv", "tp1/moe.csv"}) {
    ::rename((dir_ / name).c_str(), (dir_ / "aside").c_str());
    EXPECT_THAT(error({1, true}), HasSubstr(std::string(name) + ": no such file"));
    ::rename((dir_ / "aside").c_str(), (dir_ / name).c_str());
  }
}

TEST_F(ProfileBundleTest, BadNumbersNameFileLineAndColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"a,1,NaN", "tp1/dense.csv:2: 'time_us' is 'NaN', a finite number is needed"},
      {"a,1,nan", "'time_us' is 'nan'"},
      {"a,1,inf", "'time_us' is 'inf'"},
      {"a,1,-1", "dense.csv:2: 'time_us' is -1, accepted is a time from 0"},
      {"a,1,1e300", "'time_us' is 1e+300"},
      {"a,1,", "'time_us' is ''"},
      {"a,1,1x", "'time_us' is '1x'"},
      {"a,-1,1", "'tokens' is '-1', accepted is a whole number"},
      {"a,1.5,1", "'tokens' is '1.5'"},
      {"a,99999999999999999999,1", "'tokens' is '99999999999999999999'"},
      {"a,1", "has 2 fields, the header has 3"},
      {"a,1,1,1", "has 4 fields"},
      {",1,1", "'layer' is empty"},
  };
  for (const auto& [row, says] : cases) {
    put("tp1/dense.csv", std::string("layer,tokens,time_us\n") + row + "\n");
    EXPECT_THAT(error(), HasSubstr(says)) << row;
  }
}

TEST_F(ProfileBundleTest, BadHeadersAndEmptyTables) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"tp1/dense.csv", "", "is empty, a header line is needed"},
      {"tp1/dense.csv", "layer,tokens,time_us\n", "dense.csv: has no rows"},
      {"tp1/dense.csv", "layer,token,time_us\na,1,1\n", "has no column 'tokens'"},
      {"tp1/dense.csv", "layer,tokens,tokens,time_us\na,1,1,1\n", "column 'tokens' is there twice"},
      {"tp1/attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n",
       "attention.csv: has no rows"},
      {"tp1/moe.csv", "tokens,activated_experts,time_us\n", "moe.csv: has no rows"},
      {"tp1/skew_fit.csv",
       "pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha\n0,n<=3,sr<=5%,kvB<=1k,kp=0,1\n",
       "skew_fit.csv:2: 'n_label' is 'n<=3', meta.yaml knows n<=2, n<=4"},
      {"tp1/skew_fit.csv",
       "pc,n_label,skew_rate_label,kv_big_label,kp_label,alpha\n0,n<=4,sr<=5%,kvB<=1k,kp=0,nan\n",
       "'alpha' is 'nan'"},
  };
  for (const auto& [name, text, says] : cases) {
    const std::string before = std::string(name).find("dense") != std::string::npos       ? kDense
                               : std::string(name).find("attention") != std::string::npos ? kAttention
                               : std::string(name).find("moe") != std::string::npos       ? kMoe
                                                                                          : kSkew;
    put(name, text);
    EXPECT_THAT(error({1, true}), HasSubstr(says));
    put(name, before);
  }
}

// ---- holes ----

std::string curves_error(const std::string& rows) {
  const auto curves = parse_curves_csv("layer,tokens,time_us\n" + rows, "dense.csv", "tokens");
  return curves ? "accepted" : curves.status().message();
}

std::string attention_error(const std::vector<std::array<int, 4>>& points) {
  std::string text = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  for (const auto& p : points) text += fmt::format("{},{},{},{},1\n", p[0], p[1], p[2], p[3]);
  const auto rows = parse_attention_csv(text, "attention.csv");
  return rows ? "accepted" : rows.status().message();
}

TEST(ProfileHoleTest, ALayerWithoutARowThatOthersHave) {
  EXPECT_EQ(curves_error("a,1,1\na,2,1\na,4,1\nb,1,1\nb,2,1\nb,4,1\n"), "accepted");
  EXPECT_THAT(curves_error("a,1,1\na,2,1\na,4,1\nb,1,1\nb,4,1\n"),
              HasSubstr("layer 'b' has no row with tokens 2, which other layers have: the grid has a hole"));
  EXPECT_EQ(curves_error("a,1,1\na,2,1\na,4,1\nb,1,1\nb,2,1\n"), "accepted");  // it ends earlier
}

TEST(ProfileHoleTest, AttentionMayBeRaggedButNotDamaged) {
  std::vector<std::array<int, 4>> grid;
  for (const int pc : {0, 16, 32, 64}) {
    for (const int nd : {1, 2, 4, 8}) {
      for (const int kp : {0, 16, 32, 64}) {
        for (const int kd : {16, 32, 64, 128}) {
          if (pc + nd > 64 || (pc == 0 && kp > 0)) continue;
          grid.push_back({pc, kp, nd, kd});
        }
      }
    }
  }
  EXPECT_EQ(attention_error(grid), "accepted");
  const auto without = [&](auto lost) {
    std::vector<std::array<int, 4>> out;
    std::copy_if(grid.begin(), grid.end(), std::back_inserter(out), [&](const auto& p) { return !lost(p); });
    return attention_error(out);
  };
  EXPECT_THAT(without([](const auto& p) {
                return p == std::array{16, 16, 2, 64};
              }),
              HasSubstr("prefill_chunk 16, n_decode 2, kv_prefill 16 has no row with kv_decode 64"));
  EXPECT_THAT(without([](const auto& p) { return p[0] == 16 && p[2] == 2 && p[1] == 32; }),
              HasSubstr("prefill_chunk 16, n_decode 2 has no row with kv_prefill 32"));
  EXPECT_THAT(without([](const auto& p) { return p[0] == 16 && p[2] == 4; }),
              HasSubstr("prefill_chunk 16 has no row with n_decode 4"));
  EXPECT_EQ(without([](const auto& p) { return p[0] == 16 && p[2] == 8; }), "accepted");  // it ends earlier
  // A slice of decodes alone has one row: others like it show what it lacks.
  EXPECT_THAT(without([](const auto& p) {
                return p == std::array{0, 0, 4, 32};
              }),
              HasSubstr("prefill_chunk 0, n_decode 4, kv_prefill 0 has no row with kv_decode 32"));
}

TEST(ProfileHoleTest, UnionsOfTwoProgressionsAreWhole) {
  std::vector<std::array<int, 4>> grid;
  const std::vector<int> doubled = {16, 32, 64, 128, 256, 512}, other = {24, 36, 54, 81, 122};
  for (const int kp : doubled) {
    for (const int kd : doubled) grid.push_back({16, kp, 1, kd});
    if (kp != 64) continue;
    for (const int kd : other) grid.push_back({16, kp, 1, kd});
  }
  EXPECT_EQ(attention_error(grid), "accepted");
}

TEST(ProfileHoleTest, ExpertCounts) {
  const auto of = [](const std::string& rows) {
    const auto moe = parse_moe_csv("tokens,activated_experts,time_us\n" + rows, "moe.csv");
    return moe ? "accepted" : moe.status().message();
  };
  EXPECT_EQ(of("1,8,1\n2,8,1\n4,8,1\n2,16,1\n4,16,1\n"), "accepted");
  EXPECT_THAT(of("1,8,1\n2,8,1\n4,8,1\n1,16,1\n4,16,1\n"),
              HasSubstr("activated_experts 16 has no row with tokens 2"));
}

// ---- meta.yaml ----

std::string meta_error(const std::string& text) {
  std::map<int, ProfileTables> skew;
  const auto meta = parse_profile_meta(text, "meta.yaml", &skew);
  return meta ? "accepted" : meta.status().message();
}

TEST(ProfileMetaTest, IsReadLeniently) {
  EXPECT_EQ(meta_error("model: x\nanything: {a: [1, {b: 2}]}\nskew_fit: null\n"), "accepted");
  EXPECT_EQ(meta_error("tp_degrees: [1]\nskew_fit: {enabled: false, per_tp: {}}\n"), "accepted");
}

TEST(ProfileMetaTest, WhatIsUsedMustBeRight) {
  EXPECT_THAT(meta_error("[1"), HasSubstr("meta.yaml:1: is not YAML"));
  EXPECT_THAT(meta_error("- 1"), HasSubstr("is not a map"));
  EXPECT_THAT(meta_error("tp_degrees: 1"), HasSubstr("'tp_degrees' is not a list"));
  EXPECT_THAT(meta_error("tp_degrees: [0]"), HasSubstr("'tp_degrees' is 0"));
  EXPECT_THAT(meta_error("tp_degrees: [x]"), HasSubstr("'tp_degrees' is 'x'"));
  EXPECT_THAT(meta_error("hardware: [1]"), HasSubstr("'hardware' is not a text"));
  EXPECT_THAT(meta_error("skew_fit: {enabled: perhaps}"), HasSubstr("'enabled' is 'perhaps'"));
  EXPECT_THAT(meta_error("skew_fit: {enabled: true, per_tp: {1: {alpha_default: .nan}}}"),
              HasSubstr("'alpha_default'"));
  EXPECT_THAT(meta_error("skew_fit: {bucket_axes: {n_bins: [0, 2], n_labels: [a, b]}}"),
              HasSubstr("'n_bins' has 2 edges for 2 labels"));
  EXPECT_THAT(meta_error("skew_fit: {bucket_axes: {n_bins: [2, 2], n_labels: [a]}}"),
              HasSubstr("'n_bins' does not ascend"));
  EXPECT_THAT(meta_error("skew_fit: {per_tp: {1: {alpha_by_bucket: {odd: 1}}}}"),
              HasSubstr("has the key 'odd'"));
}

TEST(ProfileMetaTest, GraphSizesWhereTheBundleStatesThem) {
  const auto meta =
      parse_profile_meta("execution: {cudagraph_capture_sizes: [4, 1, 2]}", "meta.yaml", nullptr);
  ASSERT_TRUE(meta.is_ok());
  EXPECT_THAT(meta->cudagraph_capture_sizes, ElementsAre(1, 2, 4));
}

TEST(ProfileMetaTest, BinsAreClosedOnTheRight) {
  const SkewAxis axis = {{0, 2, 4, 100}, {"a", "b", "c"}};
  EXPECT_EQ(axis.bin(0), 0);
  EXPECT_EQ(axis.bin(2), 0);
  EXPECT_EQ(axis.bin(3), 1);
  EXPECT_EQ(axis.bin(4), 1);
  EXPECT_EQ(axis.bin(5), 2);
  EXPECT_EQ(axis.bin(1000), 2);
}

TEST(ProfileMetaTest, VariantNames) {
  EXPECT_EQ(profile_variant("bf16", ""), "bf16");
  EXPECT_EQ(profile_variant("bf16", "fp8"), "bf16-kvfp8");
}

}  // namespace
}  // namespace vllm
