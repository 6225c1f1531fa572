#include "formats/sim_log_reader.h"
#include "fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const vllm::fuzzing::MemoryFile file(data, size);
  const auto log = vllm::read_sim_log(file.path());
  if (!log) return 0;
  double before = 0;
  for (const auto& tick : log->ticks) {
    vllm::fuzzing::require(tick.t_s >= before && tick.running >= 0 && tick.waiting >= 0);
    before = tick.t_s;
  }
  return 0;
}
