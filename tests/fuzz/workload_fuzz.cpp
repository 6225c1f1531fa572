#include "formats/workload.h"
#include "fuzz_file.h"

// The first byte chooses the options. Flat rows that are accepted can be written and read back.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  vllm::WorkloadReadOptions options;
  options.need_token_ids = (data[0] & 1) != 0;
  options.keep_token_ids = (data[0] & 2) == 0;
  options.vocab_size = (data[0] & 4) != 0 ? 100 : 0;
  options.max_rows = (data[0] & 8) != 0 ? 2 : 0;
  const vllm::fuzzing::MemoryFile file(data + 1, size - 1);
  const auto workload = vllm::read_workload(file.path(), options);
  if (!workload || workload->requests.empty() || !options.keep_token_ids) return 0;
  std::string text;
  for (const auto& request : workload->requests) text += vllm::workload_row_json(request) + "\n";
  const vllm::fuzzing::MemoryFile copy(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  const auto back = vllm::read_workload(copy.path(), options);
  vllm::fuzzing::require(back.is_ok() && back->requests.size() == workload->requests.size());
  for (size_t i = 0; i < back->requests.size(); ++i) {
    vllm::fuzzing::require(back->requests[i].arrival_ns == workload->requests[i].arrival_ns &&
                           back->requests[i].input_tok_ids == workload->requests[i].input_tok_ids);
  }
  return 0;
}
