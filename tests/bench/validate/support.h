#pragma once

// Small recordings and simulations on disk.

#include <cstdio>
#include <string>
#include <vector>

#include "base/file.h"
#include "support/reference.h"

namespace vllm::testing {

struct Row {
  int64_t input, output;
  double arrival, queued, scheduled, first, last;  // seconds; arrival on another clock than the rest
};

// Two requests. Pick-up: offset min(2 - 1000000, 3.5 - 1000001) = -999998, so arrivals 2 and 3; queued: 2
// and 3.5.
inline std::vector<Row> two_rows() {
  return {{10, 3, 1000000, 2, 2.25, 3, 5}, {20, 1, 1000001, 3.5, 4, 4, 4}};
}

inline std::string requests_text(const std::vector<Row>& rows) {
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    out += fmt::format(
        R"({{"request_id": "bench-{}", "input_toks": {}, "output_toks": {}, "arrival_time": {}, "queued_ts": {}, )"
        R"("scheduled_ts": {}, "first_token_ts": {}, "last_token_ts": {}}})"
        "\n",
        i, r.input, r.output, r.arrival, r.queued, r.scheduled, r.first, r.last);
  }
  return out;
}

inline const std::string kMeta =
    R"({"schema_version": 1, "model": "m", "vllm_version": "0.19.0", "num_requests": 2,
  "engine_kwargs": {"max_num_seqs": 128, "max_num_batched_tokens": 2048}, "dataset_path": "w.jsonl",
  "dataset_hash": "AB12", "tick_seconds": 1.0, "kv_cache": {"num_gpu_blocks": 100, "block_size": 16}})";
inline const std::string kTimeseries =
    "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\r\n1.0,10.0,1.0,1,0,0.0\r\n";
inline const std::string kSimHeader =
    "instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL\r\n";
inline const std::string kSimCsv =
    kSimHeader +
    "0,1,m,20,1,1000000000,1600000000,600000000,0,600000000,0,[]\r\n"
    "0,0,m,10,3,0,3300000000,3300000000,0,1100000000,1100000000,\"[1100000000, 1100000000]\"\r\n";
inline const std::string kSimLog =
    "  \u2022 Max num seqs               : 128\n  \u2022 Block size (tokens)        : 16\n"
    "  \u2022 Instance [0] : 1600 tokens / 100 blocks (1.00 GiB/rank at util 0.90)\n"
    "[1.0s] Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 1.0 tokens/s\n"
    "        \u251c\u2500Running Instance[0]: 1 reqs, Waiting: 0 reqs, Total # 1 NPUs\nTotal requests:      "
    "2\n";

// A folder with a complete recording and a simulation of it, each file to be changed by the test.
class ValidateDir {
 public:
  ValidateDir() {
    EXPECT_TRUE(make_directories(run()).is_ok());
    write("meta.json", kMeta);
    write("requests.jsonl", requests_text(two_rows()));
    write("timeseries.csv", kTimeseries);
    write_text(csv(), kSimCsv);
    write_text(log(), kSimLog);
  }
  void write(const std::string& name, const std::string& text) { write_text(run() + "/" + name, text); }
  void remove(const std::string& name) { std::remove((run() + "/" + name).c_str()); }
  std::string run() const { return dir_ / "run"; }
  std::string csv() const { return dir_ / "sim.csv"; }
  std::string log() const { return dir_ / "sim.log"; }
  std::string path(const std::string& name) const { return dir_ / name; }

 private:
  TempDir dir_;
};

}  // namespace vllm::testing
