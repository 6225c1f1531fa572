#include "formats/step_log.h"
#include "formats/step_log_binary.h"
#include "fuzz_file.h"

// Any file; and, with the checksums left out of the way, any payload of the binary form. What is accepted
// survives being written and read in both forms.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  vllm::StepDecoder decoder;
  vllm::StepRecord record;
  std::vector<vllm::StepRecord> records;
  if (decoder.decode({reinterpret_cast<const std::byte*>(data), size}, record)) records.push_back(record);
  const vllm::fuzzing::MemoryFile file(data, size);
  const auto log = vllm::read_step_log(file.path());
  if (log) records.insert(records.end(), log->begin(), log->end());
  if (records.empty()) return 0;

  vllm::StepEncoder encoder;
  std::string bytes = vllm::step_log_header(), frame;
  for (const auto& r : records) {
    if (!encoder.encode(r, frame)) return 0;  // a request id beyond 256 bytes
    bytes += frame;
    vllm::step_record_json(r);
  }
  bytes += vllm::step_log_end(records.size());
  const auto back =
      vllm::parse_step_log_binary({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "fuzz");
  vllm::fuzzing::require(back.is_ok() && *back == records);
  return 0;
}
