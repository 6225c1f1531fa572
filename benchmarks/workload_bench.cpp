// Reading workloads: a file of 300 requests with token ids (2.6 MB), and one of a million rows without.

#include <benchmark/benchmark.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/memory_facts.h"
#include "formats/workload.h"
#include "workload/generator.h"

namespace vllm {
namespace {

// A file of our own making, written once and removed at the end of the program.
class WorkloadOnDisk {
 public:
  WorkloadOnDisk(const std::string& name, int64_t rows, int input_len, bool with_ids)
      : path_((std::filesystem::temp_directory_path() / name).string()) {
    WorkloadOptions options;
    options.num_reqs = rows;
    options.input_len_min = options.input_len_max = with_ids ? input_len : 1;
    auto generator = WorkloadGenerator::create(options, {128'000, {}}, 42);
    std::string text;
    for (int64_t i = 0; i < rows; ++i) {
      WorkloadRequest request = generator->next().value();
      if (!with_ids) {
        request.input_toks = input_len;
        request.input_tok_ids.clear();
      }
      text += workload_row_json(request) + "\n";
    }
    bytes_ = static_cast<int64_t>(text.size());
    ok_ = write_file_atomically(path_, text).is_ok();
  }
  ~WorkloadOnDisk() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }
  bool ok() const { return ok_; }

 private:
  std::string path_;
  int64_t bytes_ = 0;
  bool ok_ = false;
};

void read_all(benchmark::State& state, const WorkloadOnDisk& file, const WorkloadReadOptions& options) {
  if (!file.ok()) {
    state.SkipWithError("the file could not be written");
    return;
  }
  for (auto _ : state) {
    const auto workload = read_workload(file.path(), options);
    if (!workload) state.SkipWithError(workload.status().message().c_str());
    benchmark::DoNotOptimize(workload);
  }
  state.SetBytesProcessed(state.iterations() * file.bytes());
  state.counters["peak_rss_MiB"] = static_cast<double>(read_process_memory().peak_rss_bytes) / (1 << 20);
}

void BM_Read300Requests(benchmark::State& state) {
  const WorkloadOnDisk file("vllm-bench-300.jsonl", 300, 1300, true);
  WorkloadReadOptions options;
  options.need_token_ids = true;
  options.vocab_size = 128'000;
  read_all(state, file, options);
}
BENCHMARK(BM_Read300Requests)->Unit(benchmark::kMillisecond);

void BM_ReadMillionRowsWithoutIds(benchmark::State& state) {
  const WorkloadOnDisk file("vllm-bench-1m.jsonl", 1'000'000, 512, false);
  read_all(state, file, {});
}
BENCHMARK(BM_ReadMillionRowsWithoutIds)->Unit(benchmark::kMillisecond)->Iterations(2);

}  // namespace
}  // namespace vllm
