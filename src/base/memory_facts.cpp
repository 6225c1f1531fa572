#include "base/memory_facts.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

namespace vllm {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  if (in) out << in.rdbuf();
  return out.str();
}

// "MemAvailable:   123 kB" in /proc/meminfo and /proc/self/status.
std::optional<int64_t> field_kb(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.compare(0, name.size(), name) != 0 || line.size() <= name.size() || line[name.size()] != ':')
      continue;
    std::istringstream rest(line.substr(name.size() + 1));
    int64_t kb = 0;
    if (rest >> kb) return kb * 1024;
  }
  return std::nullopt;
}

// "inactive_file 4096" in memory.stat.
int64_t stat_value(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  std::string key;
  int64_t value = 0;
  while (lines >> key >> value) {
    if (key == name) return value;
  }
  return 0;
}

std::optional<int64_t> read_number(const std::string& path) {
  std::istringstream in(read_text(path));
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // absent, or "max"
}

// A limit above this is "no limit": v1 writes a number near 2^63.
constexpr int64_t kNoLimit = int64_t{1} << 60;

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key in memory.stat
};
constexpr CgroupFiles kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr CgroupFiles kV2{"memory.max", "memory.current", "inactive_file"};

// Looks at `path` below `mount` and at all its ancestors: each of them may bind.
void apply_cgroup(HostMemory& out, const std::string& mount, std::string path, const CgroupFiles& files,
                  int version) {
  while (true) {
    const std::string dir = mount + (path == "/" ? "" : path) + "/";
    const auto limit = read_number(dir + files.limit);
    if (limit && *limit < kNoLimit) {
      const int64_t used = read_number(dir + files.usage).value_or(0);
      const int64_t reclaimable = stat_value(read_text(dir + "memory.stat"), files.reclaimable);
      const int64_t available = std::max<int64_t>(0, *limit - std::max<int64_t>(0, used - reclaimable));
      out.cgroup_limit_bytes = std::min(out.cgroup_limit_bytes.value_or(*limit), *limit);
      out.cgroup_available_bytes = std::min(out.cgroup_available_bytes.value_or(available), available);
      out.cgroup_version = version;
    }
    if (path.empty() || path == "/") return;
    const size_t slash = path.rfind('/');
    path = slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
  }
}

}  // namespace

int64_t HostMemory::total_bytes() const {
  return std::min(machine_total_bytes, cgroup_limit_bytes.value_or(machine_total_bytes));
}

int64_t HostMemory::available_bytes() const {
  return std::min(machine_available_bytes, cgroup_available_bytes.value_or(machine_available_bytes));
}

HostMemory read_host_memory(const std::string& root) {
  HostMemory out;
  const std::string meminfo = read_text(root + "/proc/meminfo");
  out.machine_total_bytes = field_kb(meminfo, "MemTotal").value_or(0);
  out.machine_available_bytes = field_kb(meminfo, "MemAvailable").value_or(out.machine_total_bytes);

  // Lines of /proc/self/cgroup: "0::/path" (v2) or "5:memory:/path" (v1). Inside a container the path may
  // name a folder of the host that is not mounted here; the mount's own root then holds the limit.
  std::istringstream lines(read_text(root + "/proc/self/cgroup"));
  std::string line;
  while (std::getline(lines, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      apply_cgroup(out, root + "/sys/fs/cgroup", path, kV2, 2);
      apply_cgroup(out, root + "/sys/fs/cgroup/unified", path, kV2, 2);
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      apply_cgroup(out, root + "/sys/fs/cgroup/memory", path, kV1, 1);
    }
  }
  return out;
}

ProcessMemory read_process_memory(const std::string& root) {
  const std::string status = read_text(root + "/proc/self/status");
  return {field_kb(status, "VmRSS").value_or(0), field_kb(status, "VmHWM").value_or(0)};
}

std::string cpu_model_name(const std::string& root) {
  std::istringstream lines(read_text(root + "/proc/cpuinfo"));
  std::string line;
  while (std::getline(lines, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "unknown";
}

}  // namespace vllm
