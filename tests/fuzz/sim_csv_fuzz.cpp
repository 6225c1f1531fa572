#include <vector>

#include "formats/sim_csv.h"
#include "fuzz_file.h"

// What is accepted is written back and read again to the same numbers.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const vllm::fuzzing::MemoryFile file(data, size);
  auto reader = vllm::SimCsvReader::open(file.path());
  if (!reader) return 0;
  std::string text(vllm::sim_csv_header());
  text += "\r\n";
  std::vector<int64_t> latencies;
  while (true) {
    const auto row = reader->next();
    if (!row || !*row) break;
    latencies.push_back((*row)->latency_ns);
    vllm::append_sim_csv_row(**row, text);
  }
  const vllm::fuzzing::MemoryFile copy(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  auto back = vllm::SimCsvReader::open(copy.path());
  vllm::fuzzing::require(back.is_ok());
  for (const int64_t latency : latencies) {
    const auto row = back->next();
    vllm::fuzzing::require(row.is_ok() && row->has_value() && (*row)->latency_ns == latency);
  }
  return 0;
}
