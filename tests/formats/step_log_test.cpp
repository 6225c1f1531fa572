#include "formats/step_log.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/random.h"
#include "formats/line_reader.h"
#include "formats/step_log_binary.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Result<std::vector<StepRecord>> parse(const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return parse_step_log_binary(std::as_bytes(std::span(exact)), "s.bin");
}

std::string encode(const std::vector<StepRecord>& records) {
  StepEncoder encoder;
  std::string out = step_log_header(), frame;
  for (const StepRecord& record : records) {
    EXPECT_TRUE(encoder.encode(record, frame));
    out += frame;
  }
  return out + step_log_end(records.size());
}

std::vector<StepRecord> some_records() {
  std::vector<StepRecord> records(4);
  records[0] = {0, 316'710'694'565, 316'710'747'136, 316'711'125'733, 0, 0, 0, 56497, {}, {}};
  records[1] = {1,
                316'797'374'237,
                316'797'693'312,
                316'842'925'201,
                2058,
                2,
                1,
                56369,
                {{"replay-0", 2048, 0}, {"replay-1", 10, 32}},
                {}};
  records[2] = {2,
                316'814'308'965,
                316'814'460'655,
                316'852'649'217,
                2,
                2,
                0,
                56349,
                {{"replay-1", 1, 42}, {"replay-2", 1, 7}},
                {"replay-0", "only-here"}};
  records[3] = {5, 316'814'308'000, 316'814'308'000, 0, 1, 1, 0, 1, {{"replay-0", 1, 0}}, {}};
  return records;
}

TEST(StepLog, WritesAndReadsBack) {
  const TempDir dir;
  const auto records = some_records();
  auto writer = StepLogWriter::create(dir / "steps.bin");
  ASSERT_TRUE(writer);
  for (const StepRecord& record : records) ASSERT_TRUE(writer->append(record));
  EXPECT_FALSE(std::ifstream(dir / "steps.bin").good()) << "it appears when it is whole";
  ASSERT_TRUE(writer->finish());
  const auto back = read_step_log(dir / "steps.bin");
  ASSERT_TRUE(back) << back.status().message();
  EXPECT_EQ(*back, records);
  EXPECT_EQ(slurp(dir / "steps.bin"), encode(records));
}

TEST(StepLog, EveryValueSurvives) {
  // Whatever a core may write, however odd.
  Random random(5);
  const auto any = [&]() -> int64_t {
    const int64_t bits = random.between(0, 63);
    return static_cast<int64_t>(random.next()) >> bits;
  };
  std::vector<StepRecord> records(300);
  for (StepRecord& r : records) {
    r = {any(), any(), any(), any(), any(), static_cast<int32_t>(any()), static_cast<int32_t>(any()),
         any(), {},    {}};
    for (int64_t n = random.between(0, 6); n > 0; --n) {
      r.entries.push_back(
          {fmt::format("r{}", random.below(40)), static_cast<int32_t>(any()), static_cast<int32_t>(any())});
    }
    for (int64_t n = random.between(0, 2); n > 0; --n)
      r.preempted.push_back(fmt::format("r{}", random.below(40)));
  }
  const auto back = parse(encode(records));
  ASSERT_TRUE(back) << back.status().message();
  EXPECT_EQ(*back, records);
}

TEST(StepLog, ADecodeStepCostsAFewBytesAnEntry) {
  std::vector<StepRecord> records;
  for (int64_t step = 0; step < 100; ++step) {
    StepRecord r{step,
                 step * 10'000'000,
                 step * 10'000'000 + 50'000,
                 step * 10'000'000 + 9'000'000,
                 128,
                 128,
                 0,
                 1000,
                 {},
                 {}};
    for (int i = 0; i < 128; ++i)
      r.entries.push_back({fmt::format("request-{}", i), 1, 100 + static_cast<int32_t>(step)});
    records.push_back(r);
  }
  EXPECT_LT(encode(records).size(), 100 * (128 * 3 + 40) + 128 * 20);
}

TEST(StepLog, TheTableOfIdsIsBounded) {
  // More requests than the table holds: it is begun anew, and old ids may come back.
  StepEncoder encoder;
  std::string bytes = step_log_header(), frame;
  std::vector<StepRecord> records;
  constexpr int kPerStep = 14'000;
  for (int step = 0; step < 20; ++step) {
    StepRecord r;
    r.step = step;
    for (int i = 0; i < kPerStep; ++i) r.entries.push_back({std::to_string(step * kPerStep + i), 1, i});
    if (step == 19) r.entries.push_back({"0", 1, 77});
    ASSERT_TRUE(encoder.encode(r, frame));
    bytes += frame;
    records.push_back(std::move(r));
  }
  ASSERT_GT(20 * kPerStep, static_cast<int>(kMaxInternedIds));
  const auto back = parse(bytes + step_log_end(20));
  ASSERT_TRUE(back) << back.status().message();
  EXPECT_EQ(back->back(), records.back());
}

TEST(StepLog, RefusesAnIdThatIsTooLong) {
  const TempDir dir;
  auto writer = StepLogWriter::create(dir / "steps.bin");
  ASSERT_TRUE(writer);
  StepRecord record;
  record.entries.push_back({std::string(257, 'x'), 1, 0});
  EXPECT_THAT(writer->append(record).message(), HasSubstr("has 257 bytes, at most 256 are accepted"));
  EXPECT_FALSE(writer->append(StepRecord{}));
  EXPECT_FALSE(writer->finish()) << "a log with a hole is not a log";
}

TEST(StepLog, EveryTruncationSaysAfterWhichRecord) {
  const std::string good = encode(some_records());
  for (size_t n = 0; n < good.size(); ++n) {
    const auto result = parse(good.substr(0, n));
    ASSERT_FALSE(result) << n;
    if (n >= 16) {
      EXPECT_THAT(result.status().message(), HasSubstr("s.bin: is truncated "));
    }
  }
  const auto cut = parse(good.substr(0, good.size() - 9));
  EXPECT_EQ(cut.status().message(), "s.bin: is truncated after record 3 (step 5)");
  EXPECT_EQ(parse(good.substr(0, 16)).status().message(), "s.bin: is truncated before its first record");
  EXPECT_THAT(parse(good + "x").status().message(), HasSubstr("and 1 bytes follow"));
}

TEST(StepLog, EveryFlippedBitIsNoticed) {
  const std::string good = encode(some_records());
  for (size_t i = 0; i < good.size(); ++i) {
    if (i >= 12 && i < 16) continue;  // reserved
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(static_cast<unsigned char>(bad[i]) ^ (1u << bit));
      EXPECT_FALSE(parse(bad)) << "byte " << i << " bit " << bit;
    }
  }
  std::string version = good;
  version[8] = 2;
  EXPECT_EQ(parse(version).status().message(), "s.bin: has version 2, version 1 is accepted");
  std::string damaged = good;
  damaged[20] ^= 1;
  EXPECT_EQ(parse(damaged).status().message(),
            "s.bin: is damaged before its first record: the checksum of the next record is wrong");
}

// With right checksums, so that the decoder itself is what refuses.
TEST(StepLog, HostilePayloadsAreRefused) {
  const auto payload = [](const std::string& bytes) {
    StepDecoder decoder;
    StepRecord record;
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const Status status = decoder.decode(std::as_bytes(std::span(exact)), record);
    return status.is_ok() ? std::string("accepted") : status.message();
  };
  const std::string head("\0\0\0\0\0\0\0\0", 8);  // no flags, seven numbers
  EXPECT_EQ(payload(head + std::string("\0\0\0", 3)), "accepted");
  EXPECT_EQ(payload(""), "its head is malformed");
  EXPECT_EQ(payload("\xff"), "has the unknown flags 0xff");
  EXPECT_EQ(payload(head + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            "its number of new request ids is malformed");
  EXPECT_EQ(payload(head + "\x01\xff\xff\xff\xff\x0f"), "a request id is malformed");
  EXPECT_EQ(payload(head + std::string("\0\xff\xff\xff\xff\x0f", 6)), "its number of entries is malformed");
  EXPECT_EQ(payload(head + std::string("\0\1\0\0\0", 5)), "entry 0 is malformed") << "an id that nobody gave";
  EXPECT_EQ(payload(head + std::string("\0\0\1\0", 4)), "a preempted request is malformed");
  EXPECT_EQ(payload(head + std::string("\0\0\0x", 4)), "has 1 bytes too many");
  EXPECT_EQ(payload(std::string("\0\0\0\0\0", 5) + "\xfe\xff\xff\xff\x7f" + std::string("\0\0\0\0\0", 5)),
            "its head is malformed")
      << "running does not fit 32 bits";
}

TEST(StepLogJson, HasTheShapeOfTheRecordings) {
  const auto records = some_records();
  EXPECT_EQ(
      step_record_json(records[0]),
      R"({"step": 0, "t_sched": 316.710694565, "t_sched_end": 316.710747136, "t_out": 316.711125733, "total": 0, )"
      R"("running": 0, "waiting": 0, "free_blocks": 56497, "preempted": [], "n": {}})");
  EXPECT_EQ(
      step_record_json(records[2]),
      R"({"step": 2, "t_sched": 316.814308965, "t_sched_end": 316.814460655, "t_out": 316.852649217, "total": 2, )"
      R"("running": 2, "waiting": 0, "free_blocks": 56349, "preempted": ["replay-0", "only-here"], )"
      R"("n": {"replay-1": 1, "replay-2": 1}, "c": [42, 7]})");
  EXPECT_THAT(step_record_json(records[3]), HasSubstr(R"("t_out": 0.0, )"));
}

TEST(StepLogJson, WritesAndReadsBack) {
  const TempDir dir;
  auto records = some_records();
  records[3].entries[0].request_id = "quoted \"id\" \n";
  records.push_back(records[1]);
  records.back().entries[1].num_computed = -1;  // known for some only
  records.push_back(records[1]);
  for (auto& e : records.back().entries) e.num_computed = -1;
  ASSERT_TRUE(write_step_log_jsonl(dir / "steps.jsonl", records));
  const auto back = read_step_log(dir / "steps.jsonl");
  ASSERT_TRUE(back) << back.status().message();
  EXPECT_EQ(*back, records);
  EXPECT_EQ(*parse(encode(records)), records);
}

class StepLogLine : public ::testing::Test {
 protected:
  Result<std::vector<StepRecord>> read(const std::string& text) {
    write_text(dir_ / "s.jsonl", text);
    return read_step_log(dir_ / "s.jsonl");
  }
  std::string refusal(const std::string& text) {
    const auto result = read(text);
    return result.is_ok() ? "accepted" : result.status().message().substr((dir_ / "s.jsonl").size());
  }
  static std::string row(const std::map<std::string, std::string>& changes) {
    std::map<std::string, std::string> all = {{"step", "1"},     {"t_sched", "1.5"},   {"t_sched_end", "1.6"},
                                              {"t_out", "1.7"},  {"total", "3"},       {"running", "1"},
                                              {"waiting", "0"},  {"free_blocks", "9"}, {"preempted", "[]"},
                                              {"n", "{\"a\":3}"}};
    for (const auto& [key, value] : changes) all[key] = value;
    std::string text;
    for (const auto& [key, value] : all) {
      if (value != "-") text += fmt::format("{}\"{}\":{}", text.empty() ? "{" : ",", key, value);
    }
    return text + "}\n";
  }
  TempDir dir_;
};

TEST_F(StepLogLine, TimesAreExact) {
  const std::pair<const char*, TimeNs> cases[] = {
      {"0.000000001", 1},
      {"316.710694565", 316'710'694'565},
      {"99999999.123456789", 99'999'999'123'456'789},  // a double could not tell
      {"9000000000.999999999", 9'000'000'000'999'999'999},
      {"5", 5'000'000'000},
      {"5.5", 5'500'000'000},
      {"1.0000000014", 1'000'000'001},
      {"1.0000000015", 1'000'000'002},
      {"-1.25", -1'250'000'000},
      {"1.2345e-05", 12'345},
      {"1e1", 10'000'000'000},
  };
  for (const auto& [text, ns] : cases) {
    const auto result = read(row({{"t_sched", text}}));
    ASSERT_TRUE(result) << text << ": " << result.status().message();
    EXPECT_EQ(result->at(0).t_sched_ns, ns) << text;
  }
  for (const char* bad : {"\"1\"", "true", "null", "1e300", "99999999999.0", "[1]", "1.2.3"}) {
    EXPECT_THAT(refusal(row({{"t_sched", bad}})), HasSubstr(":1: ")) << bad;
  }
}

TEST_F(StepLogLine, WhatMayBeMissing) {
  auto result = read(row({{"t_out", "null"}}));
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->at(0).t_out_ns, 0);
  result = read(row({{"t_out", "-"}, {"preempted", "-"}, {"more", "{\"x\":[1]}"}}));
  ASSERT_TRUE(result) << result.status().message();
  EXPECT_EQ(result->at(0).entries, (std::vector<StepRecord::Entry>{{"a", 3, -1}}));
  for (const char* key :
       {"step", "t_sched", "t_sched_end", "total", "running", "waiting", "free_blocks", "n"}) {
    EXPECT_EQ(refusal(row({}) + row({{key, "-"}})), fmt::format(":2: has no '{}'", key));
  }
}

TEST_F(StepLogLine, RefusesBadValues) {
  EXPECT_EQ(refusal(row({{"total", "-1"}})), ":1: 'total' is -1, accepted is 0 to 9223372036854775807");
  EXPECT_EQ(refusal(row({{"running", "2147483648"}})),
            ":1: 'running' is 2147483648, accepted is 0 to 2147483647");
  EXPECT_EQ(refusal(row({{"n", "[]"}})), ":1: 'n' is not an object");
  EXPECT_EQ(refusal(row({{"n", "{\"a\":1.5}"}})), ":1: 'n' is 1.5, a whole number is needed");
  EXPECT_EQ(refusal(row({{"preempted", "3"}})), ":1: 'preempted' is not a list");
  EXPECT_EQ(refusal(row({{"preempted", "[3]"}})), ":1: 'preempted' has an entry that is not a string");
  EXPECT_EQ(refusal(row({{"c", "[1,2]"}})), ":1: 'c' has 2 entries, 'n' has 1");
  EXPECT_EQ(refusal(row({{"c", "3"}})), ":1: 'c' is not a list");
  EXPECT_EQ(refusal(row({{"c", "[-1]"}})), ":1: 'c' is -1, accepted is 0 to 2147483647");
  EXPECT_THAT(refusal("oops\n"), HasSubstr(":1: is not a JSON object"));
  EXPECT_EQ(refusal(""), ": is empty, a step log is needed");
  EXPECT_THAT(read_step_log(dir_ / "none").status().message(), HasSubstr("no such file"));
}

// Reading and dumping the recordings gives their own bytes back: nothing is lost, not even a digit.
TEST(StepLogReference, RecordingsSurviveTheBinaryForm) {
  for (const char* name : {"Llama-3.1-8B-replay-steps", "Llama-3.1-8B-offline-steps"}) {
    const auto path = testing::shared_path(fmt::format("reference/vllm-0.26-h200/{}/steps.jsonl.gz", name));
    if (!path) GTEST_SKIP() << "the reference recordings are not beside the checkout";
    const auto records = read_step_log(*path);
    ASSERT_TRUE(records) << records.status().message();
    ASSERT_GT(records->size(), 2000u);
    const std::string bytes = encode(*records);
    const auto back = parse(bytes);
    ASSERT_TRUE(back) << back.status().message();
    ASSERT_EQ(*back, *records);
    auto lines = LineReader::open(*path);
    ASSERT_TRUE(lines);
    for (const StepRecord& record : *back) ASSERT_EQ(step_record_json(record), *lines->next().value());
    EXPECT_FALSE(lines->next().value().has_value());
    EXPECT_LT(bytes.size(), 1'200'000u) << "of 5.7 MB";
  }
}

}  // namespace
}  // namespace vllm
