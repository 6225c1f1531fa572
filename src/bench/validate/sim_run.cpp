#include "bench/validate/sim_run.h"

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "formats/sha256.h"
#include "formats/sim_csv.h"

namespace vllm {
namespace {

constexpr double kNsInMs = 1e6;
constexpr double kNsInS = 1e9;

Status read_rows(SimRun& run) {
  VLLM_ASSIGN_OR_RETURN(SimCsvReader reader, SimCsvReader::open(run.csv_path));
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const auto row, reader.next());
    if (!row) break;
    if (run.model.empty()) run.model = std::string(row->model);
    if (__builtin_add_overflow(run.input_toks, row->input_toks, &run.input_toks) ||
        __builtin_add_overflow(run.output_toks, row->output_toks, &run.output_toks)) {
      return bad_input("{}:{}: the tokens of the requests sum up to more than 63 bits", run.csv_path,
                       reader.line());
    }
    run.has_times = run.has_times || row->end_time_ns > 0;
    run.requests.push_back(
        {row->request_id, row->input_toks, row->output_toks, static_cast<double>(row->arrival_ns) / kNsInS,
         static_cast<double>(row->end_time_ns) / kNsInS, static_cast<double>(row->ttft_ns) / kNsInMs,
         static_cast<double>(row->tpot_ns) / kNsInMs, static_cast<double>(row->latency_ns) / kNsInMs});
  }
  if (run.requests.empty()) return bad_input("{}: has no requests", run.csv_path);
  std::sort(run.requests.begin(), run.requests.end(),
            [](const SimRequest& a, const SimRequest& b) { return a.id < b.id; });
  const auto twice =
      std::adjacent_find(run.requests.begin(), run.requests.end(),
                         [](const SimRequest& a, const SimRequest& b) { return a.id == b.id; });
  if (twice == run.requests.end()) return Status::ok();
  return bad_input("{}: request {} occurs twice", run.csv_path, twice->id);
}

int64_t block_size_of(const SimLog& log) {
  if (const std::string* text = log.setting("Block size (tokens)")) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), size);
    if (error == std::errc() && end == text->data() + text->size() && size > 0) return size;
  }
  // Tokens may leave the null block out: the size is still the nearest whole number.
  for (const SimLogPool& pool : log.pools) {
    if (pool.blocks > 0) return (pool.tokens + pool.blocks / 2) / pool.blocks;
  }
  return 0;
}

// The file's hash; empty when there is no such file.
Result<std::string> hash_of(const std::string& path) {
  if (path.empty() || !file_exists(path) || is_directory(path)) return std::string();
  VLLM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  Sha256 hash;
  hash.update(file.data(), file.size());
  return hash.hex();
}

std::string file_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

Status find_dataset(const std::string& workloads_root, SimRun& run) {
  for (const char* label : {"Dataset", "Workload"}) {
    if (const std::string* path = run.log.setting(label); path != nullptr && run.dataset_path.empty()) {
      run.dataset_path = *path;
    }
  }
  if (run.dataset_path.empty() || run.dataset_path == "None") return Status::ok();
  VLLM_ASSIGN_OR_RETURN(run.dataset_hash, hash_of(run.dataset_path));
  if (!run.dataset_hash.empty() || workloads_root.empty()) return Status::ok();
  VLLM_ASSIGN_OR_RETURN(run.dataset_hash, hash_of(join_path(workloads_root, file_name(run.dataset_path))));
  return Status::ok();
}

}  // namespace

Result<SimRun> read_sim_run(const std::string& csv_path, const std::string& log_path,
                            const std::string& workloads_root) {
  SimRun run;
  run.csv_path = csv_path;
  run.log_path = log_path;
  VLLM_RETURN_IF_ERROR(read_rows(run));
  VLLM_ASSIGN_OR_RETURN(run.log, read_sim_log(log_path));
  run.block_size = block_size_of(run.log);
  VLLM_RETURN_IF_ERROR(find_dataset(workloads_root, run));
  return run;
}

}  // namespace vllm
