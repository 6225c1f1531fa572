#include "formats/workload.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

#include "formats/line_reader.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string in = text, out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class WorkloadFile : public ::testing::Test {
 protected:
  Result<Workload> read(const std::string& text, const WorkloadReadOptions& options = {}) {
    write_text(path_, text);
    return read_workload(path_, options);
  }
  // The message without the path.
  std::string refusal(const std::string& text, const WorkloadReadOptions& options = {}) {
    const auto result = read(text, options);
    if (result.is_ok()) return "accepted";
    EXPECT_EQ(result.status().code(), StatusCode::kBadInput);
    EXPECT_TRUE(result.status().message().starts_with(path_ + ":")) << result.status().message();
    return result.status().message().substr(path_.size());
  }
  TempDir dir_;
  std::string path_ = dir_ / "w.jsonl";
};

const std::string kRow =
    R"({"input_toks":3,"output_toks":2,"arrival_time_ns":10,"input_tok_ids":[5,6,7],"output_tok_ids":[8,9]})";

TEST_F(WorkloadFile, ReadsFlatRows) {
  const auto w = read(
      kRow + "\n\n  \r\n" +
      R"({ "arrival_time_ns": 5 , "extra": {"a": [1, {"b": null}], "c": "x"}, "output_toks": 1, "input_toks": 4 })" +
      "\r\n");
  ASSERT_TRUE(w) << w.status().message();
  EXPECT_EQ(w->path, path_);
  ASSERT_EQ(w->requests.size(), 2u);
  EXPECT_EQ(w->requests[0].line, 1);
  EXPECT_EQ(w->requests[0].input_toks, 3);
  EXPECT_EQ(w->requests[0].output_toks, 2);
  EXPECT_EQ(w->requests[0].arrival_ns, 10);
  EXPECT_EQ(w->requests[0].input_tok_ids, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(w->requests[0].output_tok_ids, (std::vector<int32_t>{8, 9}));
  // In the file's order, although it arrives earlier; blank lines count as lines.
  EXPECT_EQ(w->requests[1].line, 4);
  EXPECT_EQ(w->requests[1].arrival_ns, 5);
  EXPECT_TRUE(w->requests[1].input_tok_ids.empty());
}

TEST_F(WorkloadFile, WritesWhatItReads) {
  const auto w = read(kRow);
  ASSERT_TRUE(w);
  EXPECT_EQ(workload_row_json(w->requests[0]), kRow);
  WorkloadRequest counts_only;
  counts_only.input_toks = 1;
  counts_only.output_toks = 2;
  counts_only.arrival_ns = 3;
  EXPECT_EQ(workload_row_json(counts_only), R"({"input_toks":1,"output_toks":2,"arrival_time_ns":3})");
}

TEST_F(WorkloadFile, ReadsSessions) {
  const auto w = read(
      kRow + "\n" +
      R"({"session_id":"s","arrival_time_ns":7,"sub_requests":[{"input_toks":2,"output_toks":1,"tool_duration_ns":50,"input_tok_ids":[1,2]},{"input_toks":9,"output_toks":4}]})" +
      "\n" + R"({"sub_requests":[{"input_toks":1,"output_toks":1}],"arrival_time_ns":8})");
  ASSERT_TRUE(w) << w.status().message();
  EXPECT_EQ(w->requests.size(), 1u);
  ASSERT_EQ(w->sessions.size(), 2u);
  const WorkloadSession& s = w->sessions[0];
  EXPECT_EQ(s.session_id, "s");
  EXPECT_EQ(s.line, 2);
  EXPECT_EQ(s.arrival_ns, 7);
  ASSERT_EQ(s.calls.size(), 2u);
  EXPECT_EQ(s.calls[0].tool_duration_ns, 50);
  EXPECT_EQ(s.calls[0].request.line, 2);
  EXPECT_EQ(s.calls[0].request.input_tok_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(s.calls[1].request.input_toks, 9);
  EXPECT_EQ(s.calls[1].tool_duration_ns, 0);
  // One flat row and two calls came before.
  EXPECT_EQ(w->sessions[1].session_id, "session_3");
}

TEST_F(WorkloadFile, RefusesMalformedSessions) {
  const auto session = [&](const std::string& rest) {
    return refusal("{\"arrival_time_ns\":0," + rest + "}");
  };
  EXPECT_EQ(session(R"("sub_requests":[])"), ":1: 'sub_requests' is empty, at least one call is needed");
  EXPECT_EQ(session(R"("sub_requests":3)"), ":1: 'sub_requests' is not a list");
  EXPECT_EQ(session(R"("sub_requests":[3])"), ":1: call 0 of 'sub_requests' is not an object");
  EXPECT_EQ(session(R"("sub_requests":[{"input_toks":1,"output_toks":1},{"input_toks":1}])"),
            ":1: call 1 of 'sub_requests': has no 'output_toks'");
  EXPECT_EQ(session(R"("sub_requests":[{"input_toks":1,"output_toks":1,"sub_requests":[]}])"),
            ":1: call 0 of 'sub_requests' has 'sub_requests' of its own");
  EXPECT_THAT(session(R"("sub_requests":[{"input_toks":1,"output_toks":1,"tool_duration_ns":-1}])"),
              HasSubstr("call 0 of 'sub_requests': 'tool_duration_ns' is -1, accepted is 0 to"));
  EXPECT_THAT(session(R"("session_id":3,"sub_requests":[{"input_toks":1,"output_toks":1}])"),
              HasSubstr("'session_id' is not a string"));
  EXPECT_EQ(refusal(R"({"sub_requests":[{"input_toks":1,"output_toks":1}]})"),
            ":1: has no 'arrival_time_ns'");
  const std::string named =
      R"({"arrival_time_ns":0,"session_id":"a","sub_requests":[{"input_toks":1,"output_toks":1}]})";
  EXPECT_EQ(refusal(named + "\n" + named), ":2: session_id 'a' is that of line 1 too");
}

TEST_F(WorkloadFile, RefusesBadNumbersNamingTheLine) {
  const auto with = [&](const std::string& key, const std::string& value) {
    std::map<std::string, std::string> row = {
        {"input_toks", "1"}, {"output_toks", "1"}, {"arrival_time_ns", "0"}};
    row[key] = value;
    std::string text;
    for (const auto& [k, v] : row) text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", k, v);
    return refusal(fmt::format("{}\n{{{}}}\n", kRow, text));
  };
  EXPECT_EQ(with("input_toks", "1"), "accepted");
  for (const char* key : {"input_toks", "output_toks"}) {
    EXPECT_EQ(with(key, "0"), fmt::format(":2: '{}' is 0, accepted is 1 to 2147483647", key));
    EXPECT_EQ(with(key, "-5"), fmt::format(":2: '{}' is -5, accepted is 1 to 2147483647", key));
    EXPECT_EQ(with(key, "2147483648"),
              fmt::format(":2: '{}' is 2147483648, accepted is 1 to 2147483647", key));
  }
  EXPECT_EQ(with("arrival_time_ns", "0"), "accepted");
  EXPECT_EQ(with("arrival_time_ns", "1e9"), "accepted");
  EXPECT_EQ(with("arrival_time_ns", "5.0"), "accepted");
  EXPECT_THAT(with("arrival_time_ns", "-1"), HasSubstr(":2: 'arrival_time_ns' is -1, accepted is 0 to "));
  EXPECT_EQ(with("arrival_time_ns", "5.5"), ":2: 'arrival_time_ns' is 5.5, a whole number is needed");
  EXPECT_THAT(with("arrival_time_ns", "1e17"), HasSubstr("is 1e+17, not exact as a float"));
  EXPECT_THAT(with("arrival_time_ns", "18446744073709551615"), HasSubstr("more than 63 bits"));
  EXPECT_THAT(with("arrival_time_ns", "9223372036854775807"), HasSubstr("accepted is 0 to"));
  for (const char* bad : {"\"5\"", "true", "null", "[1]", "{}"}) {
    EXPECT_EQ(with("arrival_time_ns", bad), ":2: 'arrival_time_ns' is not a number, a whole number is needed")
        << bad;
  }
  for (const char* bad : {"NaN", "Infinity", "1e999", "99999999999999999999999", "01", "+1", "1.", "-"}) {
    EXPECT_THAT(with("arrival_time_ns", bad), HasSubstr(":2: ")) << bad;
  }
}

TEST_F(WorkloadFile, RefusesMissingAndDoubledKeys) {
  EXPECT_EQ(refusal(R"({"output_toks":1,"arrival_time_ns":0})"), ":1: has no 'input_toks'");
  EXPECT_EQ(refusal(R"({"input_toks":1,"arrival_time_ns":0})"), ":1: has no 'output_toks'");
  EXPECT_EQ(refusal(R"({"input_toks":1,"output_toks":1})"), ":1: has no 'arrival_time_ns'");
  EXPECT_EQ(refusal(R"({"input_toks":1,"input_toks":2,"output_toks":1,"arrival_time_ns":0})"),
            ":1: key 'input_toks' is given twice");
}

TEST_F(WorkloadFile, RefusesWhatIsNotJson) {
  for (const char* bad :
       {"x", "[]", "3", "null", "\"a\"", "{", "{\"input_toks\"}", "{\"input_toks\":}", "{,}", "{}}",
        "{\"a\":1,}", "{\"input_toks\":1 \"output_toks\":1}", "{\"a\":tru}", "{\"a\":[1,]}",
        "{\"a\":{\"b\":}}", "{\"a\":\"\\x\"}", "{\"a\":nul}", "{\"a\":01}", "{'a':1}"}) {
    EXPECT_THAT(refusal(fmt::format("{}\n{}", kRow, bad)), HasSubstr(":2: ")) << bad;
  }
  const std::string row = kRow;
  for (const char* tail : {" x", "{}", ",", " 1", "]", "}"}) {
    EXPECT_THAT(refusal(row + tail), HasSubstr(":1: ")) << tail;
    EXPECT_THAT(refusal(row + tail), ::testing::Not("accepted")) << tail;
  }
  EXPECT_THAT(refusal("{\"a\":\"\xff\"}"), HasSubstr(":1: is not a JSON object: "));
  EXPECT_THAT(refusal("{\"deep\":" + std::string(100, '[') + std::string(100, ']') + "}"),
              HasSubstr("'deep' is malformed"));
  EXPECT_EQ(refusal(""), ": is an empty workload, at least one request is needed");
  EXPECT_EQ(refusal("\n \n"), ": is an empty workload, at least one request is needed");
  EXPECT_THAT(read_workload(dir_ / "none.jsonl", {}).status().message(),
              HasSubstr("none.jsonl: no such file"));
  EXPECT_THAT(read_workload(dir_.path(), {}).status().message(), HasSubstr("is a directory"));
}

TEST_F(WorkloadFile, ChecksTokenIds) {
  const auto ids = [&](const std::string& list, const WorkloadReadOptions& options = {}) {
    return refusal(R"({"input_toks":2,"output_toks":1,"arrival_time_ns":0,"input_tok_ids":)" + list + "}",
                   options);
  };
  EXPECT_EQ(ids("[1,2]"), "accepted");
  EXPECT_EQ(ids("[1]"), ":1: 'input_tok_ids' has 1 ids, but 'input_toks' is 2");
  EXPECT_EQ(ids("[1,2,3]"), ":1: 'input_tok_ids' has 3 ids, but 'input_toks' is 2");
  EXPECT_EQ(ids("[1,-2]"),
            ":1: 'input_tok_ids' has the token id -2 at position 1, accepted is 0 to 2147483647");
  EXPECT_EQ(ids("[2147483648,1]"),
            ":1: 'input_tok_ids' has the token id 2147483648 at position 0, accepted is 0 to 2147483647");
  for (const char* bad : {"[1,2.5]", "[1,\"2\"]", "[1,true]", "[1,null]", "[1,[2]]"}) {
    EXPECT_EQ(ids(bad), ":1: 'input_tok_ids' has an entry 1 that is not a token id") << bad;
  }
  EXPECT_EQ(ids("3"), ":1: 'input_tok_ids' is not a list of token ids");
  WorkloadReadOptions vocabulary;
  vocabulary.vocab_size = 100;
  EXPECT_EQ(ids("[99,0]", vocabulary), "accepted");
  EXPECT_EQ(ids("[99,100]", vocabulary),
            ":1: 'input_tok_ids' has the token id 100 at position 1, accepted is 0 to 99 in this vocabulary");
  EXPECT_THAT(
      refusal(R"({"input_toks":1,"output_toks":1,"arrival_time_ns":0,"output_tok_ids":[100]})", vocabulary),
      HasSubstr("'output_tok_ids' has the token id 100"));
}

TEST_F(WorkloadFile, TokenIdsCanBeRequired) {
  const std::string without = R"({"input_toks":2,"output_toks":1,"arrival_time_ns":0})";
  const std::string empty = R"({"input_toks":2,"output_toks":1,"arrival_time_ns":0,"input_tok_ids":[]})";
  const std::string null = R"({"input_toks":2,"output_toks":1,"arrival_time_ns":0,"input_tok_ids":null})";
  WorkloadReadOptions need;
  need.need_token_ids = true;
  for (const std::string& row : {without, empty, null}) {
    EXPECT_EQ(refusal(row), "accepted") << row;
    EXPECT_EQ(refusal(row, need),
              ":1: has no 'input_tok_ids', strict replay needs the token ids of every prompt");
  }
  EXPECT_EQ(refusal(kRow, need), "accepted");
  // Sessions are another matter: whoever replays them says what they need.
  EXPECT_EQ(refusal(R"({"arrival_time_ns":0,"sub_requests":[{"input_toks":1,"output_toks":1}]})", need),
            "accepted");
}

TEST_F(WorkloadFile, TokenIdsCanBeDropped) {
  WorkloadReadOptions drop;
  drop.keep_token_ids = false;
  const auto w = read(kRow, drop);
  ASSERT_TRUE(w);
  EXPECT_TRUE(w->requests[0].input_tok_ids.empty());
  EXPECT_TRUE(w->requests[0].output_tok_ids.empty());
  drop.vocab_size = 7;
  EXPECT_THAT(refusal(kRow, drop), HasSubstr("token id 7 at position 2"));
  drop.vocab_size = 0;
  drop.need_token_ids = true;
  EXPECT_EQ(refusal(kRow, drop), "accepted");
}

TEST_F(WorkloadFile, MaxRowsCapsFlatRowsButHashesTheWholeFile) {
  const std::string session = R"({"arrival_time_ns":0,"sub_requests":[{"input_toks":1,"output_toks":1}]})";
  std::string text = session + "\n";
  for (int i = 0; i < 5; ++i) text += kRow + "\n";
  WorkloadReadOptions two;
  two.max_rows = 2;
  const auto w = read(text + "not even JSON\n", two);
  ASSERT_TRUE(w) << w.status().message();
  EXPECT_EQ(w->requests.size(), 2u);
  EXPECT_EQ(w->sessions.size(), 1u);
  EXPECT_EQ(w->sha256, sha256_file(path_).value());
  EXPECT_EQ(w->sha256, sha256_hex(text + "not even JSON\n"));
}

TEST_F(WorkloadFile, ReadsGzipAndHashesTheStoredBytes) {
  const std::string text = kRow + "\n" + kRow + "\n";
  const std::string packed = gzip(text);
  auto w = read(packed);
  ASSERT_TRUE(w) << w.status().message();
  EXPECT_EQ(w->requests.size(), 2u);
  EXPECT_EQ(w->requests[1].line, 2);
  EXPECT_EQ(w->sha256, sha256_hex(packed));
  // Members one after the other are one file.
  w = read(packed + packed);
  ASSERT_TRUE(w) << w.status().message();
  EXPECT_EQ(w->requests.size(), 4u);
  for (size_t n = 2; n < packed.size(); ++n) EXPECT_NE(refusal(packed.substr(0, n)), "accepted") << n;
  EXPECT_THAT(refusal(packed.substr(0, packed.size() - 1)),
              HasSubstr(": is truncated: its gzip data ends early, after line 2"));
  std::string damaged = packed;
  damaged[packed.size() - 5] ^= 1;
  EXPECT_THAT(refusal(damaged), HasSubstr("is not valid gzip data after line"));
  EXPECT_THAT(refusal(packed + "junk"), HasSubstr("is not valid gzip data after line 2"));
}

TEST_F(WorkloadFile, ASmallFileCannotUnfoldIntoAHugeOne) {
  write_text(path_, gzip(std::string(1 << 20, '\n')));
  LineReaderOptions options;
  options.max_unpacked_bytes = 1 << 19;
  auto lines = LineReader::open(path_, options);
  ASSERT_TRUE(lines);
  Status status;
  while (status.is_ok()) status = lines->next().status();
  EXPECT_THAT(status.message(), HasSubstr("unpacks to more than the 524288 bytes that are accepted"));
  write_text(path_, "short\n" + std::string(3 << 20, 'x'));
  options.max_line_bytes = 1 << 20;
  lines = LineReader::open(path_, options);
  ASSERT_TRUE(lines->next());
  EXPECT_EQ(lines->next().status().message(),
            path_ + ":2: is longer than the 1048576 bytes that are accepted in one line");
}

TEST_F(WorkloadFile, LinesOfEveryLengthSurviveTheBuffersEnds) {
  // Around the sizes of blocks and buffers, plain and compressed.
  std::string text;
  std::vector<size_t> lengths = {0,       1,         63,      64,        65,        200'000,
                                 262'143, 262'144,   262'145, 1'048'575, 1'048'576, 1'048'577,
                                 5,       3'000'000, 1,       0,         0,         70'000};
  for (size_t i = 0; i < lengths.size(); ++i)
    text += std::string(lengths[i], static_cast<char>('a' + i)) + "\n";
  text += "last without end";
  for (const std::string& stored : {text, gzip(text)}) {
    write_text(path_, stored);
    auto lines = LineReader::open(path_);
    ASSERT_TRUE(lines);
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto line = lines->next();
      ASSERT_TRUE(line && line->has_value());
      ASSERT_EQ((*line)->size(), lengths[i]);
      ASSERT_EQ(**line, std::string(lengths[i], static_cast<char>('a' + i)));
      ASSERT_EQ(lines->line(), static_cast<int64_t>(i) + 1);
    }
    EXPECT_EQ(*lines->next().value(), "last without end");
    EXPECT_FALSE(lines->next().value().has_value());
    EXPECT_FALSE(lines->next().value().has_value());
  }
}

TEST_F(WorkloadFile, IgnoresAByteOrderMark) {
  EXPECT_EQ(refusal(std::string("\xEF\xBB\xBF") + kRow), "accepted");
}

TEST_F(WorkloadFile, EveryTruncationEndsInAnErrorOrAWholeRow) {
  const std::string text =
      kRow + "\n" + R"({"arrival_time_ns":1,"sub_requests":[{"input_toks":1,"output_toks":2}]})";
  for (size_t n = 0; n <= text.size(); ++n) {
    const auto w = read(text.substr(0, n));
    const bool whole = n == kRow.size() || n == kRow.size() + 1 || n == text.size();
    EXPECT_EQ(w.is_ok(), whole) << n;
  }
}

TEST(ReferenceWorkloads, AreReadInFull) {
  const struct {
    const char* name;
    size_t rows;
    int64_t in, out;
    const char* sha256;
  } cases[] = {
      {"example_trace.jsonl", 10, 120, 591, nullptr},
      {"sharegpt-llama-3.1-8b-300-sps10.jsonl", 300, 257239, 195753,
       "05e48b32da530d4a3dd77f3d47c6fe694ac8308d611aa088e38bb10fba2b3b3a"},
      {"sharegpt-qwen3-32b-300-sps10.jsonl", 300, 258691, 199486,
       "4af54eb2f7ac12b0856a1668e367fc8a330acd37c4f6c3e336ae02229e21a8bb"},
  };
  for (const auto& c : cases) {
    const auto path = testing::shared_path(std::string("reference/workloads/") + c.name);
    if (!path) GTEST_SKIP() << "the reference workloads are not beside the checkout";
    WorkloadReadOptions options;
    options.need_token_ids = true;
    const auto w = read_workload(*path, options);
    ASSERT_TRUE(w) << w.status().message();
    EXPECT_EQ(w->requests.size(), c.rows);
    int64_t in = 0, out = 0;
    for (const auto& r : w->requests) {
      in += r.input_toks;
      out += r.output_toks;
      EXPECT_EQ(r.input_tok_ids.size(), static_cast<size_t>(r.input_toks));
    }
    EXPECT_EQ(in, c.in);
    EXPECT_EQ(out, c.out);
    if (c.sha256 != nullptr) {
      EXPECT_EQ(w->sha256, c.sha256);
      EXPECT_EQ(w->requests.front().arrival_ns, 46926808);
      EXPECT_EQ(w->requests.back().arrival_ns, 29183763203);
    }
  }
}

TEST(Sha256, OfKnownTexts) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace vllm
