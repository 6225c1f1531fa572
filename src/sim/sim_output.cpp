#include "sim/sim_output.h"

#include <cstdio>
#include <string_view>

#include "formats/workload.h"

namespace vllm {

std::string sim_run_id(const ParsedOptions& parsed) {
  if (!parsed.options.sim.run_id.empty()) return parsed.options.sim.run_id;
  std::string all;
  for (const ResolvedOption& option : parsed.resolved) all += option.name + "=" + option.value + "\n";
  return "run_" + sha256_hex(all).substr(0, 12);
}

std::string with_run_id(std::string path, const std::string& run_id) {
  constexpr std::string_view kPlace = "{run_id}";
  for (size_t at = path.find(kPlace); at != std::string::npos; at = path.find(kPlace, at + run_id.size())) {
    path.replace(at, kPlace.size(), run_id);
  }
  return path;
}

Status print_log(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return Status::ok();
  return io_error("the log cannot be written to stdout");
}

}  // namespace vllm
