#include "bench/environment.h"

#include <sys/utsname.h>

#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/cpu_features.h"
#include "base/file.h"
#include "base/memory_facts.h"
#include "base/thread_pool.h"
#include "formats/json.h"

namespace vllm {
namespace {

constexpr int64_t kProcFileLimit = int64_t{1} << 24;

std::string read_or_empty(const std::string& path) {
  Result<std::string> text = read_file(path, kProcFileLimit);
  return text ? *text : std::string();
}

std::string trimmed(std::string text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// The value after "<key>:" in a file of such lines.
std::optional<std::string> field(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key)
      return trimmed(line.substr(colon + 1));
  }
  return std::nullopt;
}

Json or_null(const std::optional<std::string>& value) { return value ? Json(*value) : Json(nullptr); }

// Distinct (socket, core) pairs; 0 where the file does not say.
int64_t physical_cores(const std::string& cpuinfo) {
  std::set<std::pair<std::string, std::string>> cores;
  std::istringstream lines(cpuinfo);
  std::string line, socket;
  while (std::getline(lines, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = trimmed(line.substr(0, colon));
    if (key == "physical id") socket = trimmed(line.substr(colon + 1));
    if (key == "core id") cores.emplace(socket, trimmed(line.substr(colon + 1)));
  }
  return static_cast<int64_t>(cores.size());
}

int64_t logical_cpus(const std::string& cpuinfo) {
  int64_t count = 0;
  std::istringstream lines(cpuinfo);
  std::string line;
  while (std::getline(lines, line)) count += line.rfind("processor", 0) == 0 ? 1 : 0;
  return count;
}

// Cores' worth of time that cgroup v2's cpu.max grants, the smallest of this group and those above it.
std::optional<double> cgroup_cpu_limit(const std::string& root) {
  std::string group;
  std::istringstream lines(read_or_empty(root + "/proc/self/cgroup"));
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind("0::", 0) == 0) group = trimmed(line.substr(3));
  }
  if (group.empty()) return std::nullopt;
  std::optional<double> limit;
  while (true) {
    std::istringstream text(
        read_or_empty(root + "/sys/fs/cgroup" + (group == "/" ? "" : group) + "/cpu.max"));
    double quota = 0, period = 0;
    if (text >> quota >> period && period > 0 && (!limit || quota / period < *limit)) limit = quota / period;
    if (group == "/" || group.empty()) return limit;
    group = group.substr(0, group.rfind('/'));
  }
}

Json cgroup_json(const HostMemory& memory, const std::string& root) {
  Json out;
  out["version"] = memory.cgroup_version;
  out["memory_limit_bytes"] = memory.cgroup_limit_bytes ? Json(*memory.cgroup_limit_bytes) : Json(nullptr);
  const std::optional<double> cpus = cgroup_cpu_limit(root);
  out["cpu_limit"] = cpus ? Json(*cpus) : Json(nullptr);
  return out;
}

}  // namespace

Json hardware_json(const std::string& root) {
  const std::string cpuinfo = read_or_empty(root + "/proc/cpuinfo");
  const std::string status = read_or_empty(root + "/proc/self/status");
  const HostMemory memory = read_host_memory(root);
  constexpr const char* kNoGpu = "no GPU is used in this run";

  Json out;
  out["device_count"] = 1;
  out["device_name"] = cpu_model_name(root);
  out["device_total_memory_bytes"] = memory.total_bytes();
  out["device_capability"] = isa_name(best_isa());
  out["device_uuid"] = nullptr;
  out["device_uuid_reason"] = kNoGpu;
  out["cuda_version"] = nullptr;
  out["driver_version"] = nullptr;
  out["driver_version_reason"] = kNoGpu;
  out["cpu_affinity"] = allowed_cpus();
  out["numa_mems_allowed"] = or_null(field(status, "Mems_allowed_list"));
  out["device_kind"] = "cpu";
  out["logical_cpus"] = logical_cpus(cpuinfo);
  const int64_t cores = physical_cores(cpuinfo);
  out["physical_cores"] = cores > 0 ? Json(cores) : Json(nullptr);
  out["isa"] = isa_name(best_isa());
  out["isa_features"] = cpu_feature_names();
  out["machine_total_memory_bytes"] = memory.machine_total_bytes;
  out["machine_available_memory_bytes"] = memory.machine_available_bytes;
  out["cgroup"] = cgroup_json(memory, root);
  const std::string governor =
      trimmed(read_or_empty(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  out["cpu_governor"] = governor.empty() ? Json(nullptr) : Json(governor);
  if (governor.empty()) out["cpu_governor_reason"] = "the system does not show one";
  utsname names{};
  if (uname(&names) == 0) out["kernel"] = std::string(names.sysname) + " " + names.release;
  return out;
}

Json execution_json(const std::string& executor, int threads) {
  Json out;
  out["status"] = "complete";
  out["mode"] = "none";
  out["reason"] = "there are no graphs on a CPU";
  out["full_capture_sizes"] = Json::array();
  out["piecewise_capture_sizes"] = Json::array();
  out["executor"] = executor;
  out["threads"] = threads;
  return out;
}

Json load_average_json(const std::string& root) {
  std::istringstream text(read_or_empty(root + "/proc/loadavg"));
  double one = 0, five = 0, fifteen = 0;
  if (!(text >> one >> five >> fifteen)) return nullptr;
  return Json{one, five, fifteen};
}

}  // namespace vllm
