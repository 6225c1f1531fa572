#include "formats/sim_csv.h"

#include <algorithm>
#include <array>

#include "base/file.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_text;

constexpr const char* kHeader =
    "instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL";

SimRow some_row() {
  SimRow row;
  row.instance_id = 1;
  row.request_id = 5;
  row.model = "a/b";
  row.input_toks = 10;
  row.output_toks = 3;
  row.arrival_ns = 100;
  row.end_time_ns = 1100;
  row.latency_ns = 1000;
  row.queuing_delay_ns = 7;
  row.ttft_ns = 400;
  row.tpot_ns = 300;
  return row;
}

TEST(SimCsv, ItlIsQuotedFromTwoEntriesOn) {
  EXPECT_EQ(sim_csv_header(), kHeader);
  SimRow row = some_row();
  const std::array<int64_t, 2> itl = {290, 310};
  row.itl_ns = itl;
  std::string out;
  append_sim_csv_row(row, out);
  row.itl_ns = std::span(itl).first(1);
  append_sim_csv_row(row, out);
  row.itl_ns = {};
  append_sim_csv_row(row, out);
  const std::string front = "1,5,a/b,10,3,100,1100,1000,7,400,300,";
  EXPECT_EQ(out, front + "\"[290, 310]\"\r\n" + front + "[290]\r\n" + front + "[]\r\n");
}

TEST(SimCsv, WhatIsWrittenIsReadBack) {
  const TempDir dir;
  const std::string path = dir / "sim.csv";
  auto writer = SimCsvWriter::create(path);
  ASSERT_TRUE(writer.is_ok());
  SimRow row = some_row();
  row.model = "with, comma and \"quotes\"";
  const std::array<int64_t, 2> itl = {290, 310};
  row.itl_ns = itl;
  ASSERT_TRUE(writer->write(row).is_ok());
  EXPECT_FALSE(file_exists(path)) << "appears only when it is complete";
  ASSERT_TRUE(writer->finish().is_ok());

  auto reader = SimCsvReader::open(path);
  ASSERT_TRUE(reader.is_ok());
  auto back = reader->next();
  ASSERT_TRUE(back.is_ok() && back->has_value());
  EXPECT_EQ((*back)->model, row.model);
  EXPECT_EQ((*back)->instance_id, 1);
  EXPECT_EQ((*back)->queuing_delay_ns, 7);
  EXPECT_THAT((*back)->itl_ns, ElementsAre(290, 310));
  EXPECT_EQ(reader->line(), 2);
  back = reader->next();
  ASSERT_TRUE(back.is_ok());
  EXPECT_FALSE(back->has_value());
}

TEST(SimCsv, ColumnsAreFoundByNameAndFractionsAreRounded) {
  const TempDir dir;
  const std::string path = dir / "sim.csv";
  write_text(path, "TPOT,TTFT,latency,output,input,session,request id\n2.5e1,4.6,30,2,1,x,3\n\n");
  auto reader = SimCsvReader::open(path);
  ASSERT_TRUE(reader.is_ok());
  const auto row = reader->next();
  ASSERT_TRUE(row.is_ok() && row->has_value());
  EXPECT_EQ((*row)->tpot_ns, 25);
  EXPECT_EQ((*row)->ttft_ns, 5);
  EXPECT_EQ((*row)->request_id, 3);
  EXPECT_TRUE((*row)->itl_ns.empty());
}

std::string error_of(const std::string& text) {
  const TempDir dir;
  const std::string path = dir / "sim.csv";
  write_text(path, text);
  auto reader = SimCsvReader::open(path);
  if (!reader) return reader.status().message();
  while (true) {
    const auto row = reader->next();
    if (!row) return row.status().message();
    if (!*row) return "";
  }
}

TEST(SimCsv, EachMalformationIsNamedWithItsLine) {
  const std::string header = std::string(kHeader) + "\r\n";
  const std::string good = "0,0,m,1,2,0,9,9,0,4,5,[5]\r\n";
  EXPECT_EQ(error_of(header + good), "");
  EXPECT_THAT(error_of(""), HasSubstr("is empty, a header line is needed"));
  EXPECT_THAT(error_of("a,b\n"), HasSubstr("sim.csv:1: has no column 'request id'"));
  EXPECT_THAT(error_of("TTFT,TTFT\n"), HasSubstr("sim.csv:1: has the column 'TTFT' twice"));
  EXPECT_THAT(error_of(header + good + "0,1,m,1\r\n"),
              HasSubstr("sim.csv:3: has 4 fields, the header has 12"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,x,0,4,5,[5]\n"),
              HasSubstr("sim.csv:2: 'latency' is 'x', a whole"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,,0,4,5,[5]\n"), HasSubstr("'latency' is ''"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,-9,0,4,5,[5]\n"), HasSubstr("'latency' is '-9'"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,nan,0,4,5,[5]\n"), HasSubstr("'latency' is 'nan'"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,99999999999999999999,0,4,5,[5]\n"),
              HasSubstr("'latency' is '99999999999999999999'"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,9,0,4,5,5\n"),
              HasSubstr("'ITL' is '5', a list like [11, 12]"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,9,0,4,5,\"[5, ]\"\n"), HasSubstr("'ITL' is '[5, ]'"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,9,0,4,5,\"[5; 6]\"\n"), HasSubstr("'ITL' is '[5; 6]'"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,9,0,4,5,\"[5, a]\"\n"),
              HasSubstr("'ITL' has an entry 1 that is no whole number"));
  EXPECT_THAT(error_of(header + "0,0,m,1,2,0,9,9,0,4,5,\"[5, 6]\n"),
              HasSubstr("sim.csv:2: has a quote that is not closed"));
  EXPECT_THAT(error_of(header + "0,0,\"m\"x,1,2,0,9,9,0,4,5,[5]\n"),
              HasSubstr("sim.csv:2: has something behind a closing quote"));
}

TEST(SimCsv, RecordedFilesAreWrittenBackByteForByte) {
  int files = 0;
  for (const char* name :
       {"examples/RTXPRO6000/Llama-3.1-8B/outputs/sim.csv", "examples/RTXPRO6000/Qwen3-32B/outputs/sim.csv",
        "outputs/example_single_run.csv", "outputs/example_multi_run.csv", "outputs/example_dp_run.csv",
        "outputs/example_pp_run.csv", "outputs/example_moe_run.csv", "outputs/example_pd_run.csv"}) {
    const auto path = testing::shared_path(std::string("reference/") + name);
    if (!path || !file_exists(*path)) continue;
    ++files;
    auto reader = SimCsvReader::open(*path);
    ASSERT_TRUE(reader.is_ok()) << reader.status().message();
    std::string out(sim_csv_header());
    out += "\r\n";
    while (true) {
      const auto row = reader->next();
      ASSERT_TRUE(row.is_ok()) << row.status().message();
      if (!*row) break;
      append_sim_csv_row(**row, out);
    }
    const auto text = read_file(*path);
    ASSERT_TRUE(text.is_ok());
    EXPECT_TRUE(out == *text) << name;
  }
  if (files == 0) GTEST_SKIP() << "the reference outputs are not beside the checkout";
}

}  // namespace
}  // namespace vllm
