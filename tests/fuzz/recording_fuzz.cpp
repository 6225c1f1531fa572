#include "formats/json.h"
#include "formats/recording.h"
#include "fuzz_file.h"

// The same bytes as each file of a recorded run.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const vllm::fuzzing::MemoryFile file(data, size);
  const auto requests = vllm::read_requests_jsonl(file.path());
  if (requests) {
    std::string text;
    for (const auto& r : *requests) text += vllm::request_record_json(r) + "\n";
    const vllm::fuzzing::MemoryFile copy(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    const auto back = vllm::read_requests_jsonl(copy.path());
    vllm::fuzzing::require(back.is_ok() && back->size() == requests->size());
  }
  const auto rows = vllm::read_timeseries_csv(file.path());
  if (rows) vllm::timeseries_csv(*rows);
  const auto meta = vllm::read_json_file(file.path());
  if (meta) {
    (void)vllm::recorded_limits(*meta, "fuzz");
    const std::string text = vllm::json_text(*meta);
    vllm::fuzzing::require(vllm::parse_json(text, "fuzz").is_ok());
  }
  return 0;
}
