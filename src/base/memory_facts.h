#pragma once

// What the operating system says about memory: the machine's, the container's limit (cgroup v1 and v2) and
// this process's own.

#include <cstdint>
#include <optional>
#include <string>

namespace vllm {

struct HostMemory {
  int64_t machine_total_bytes = 0;
  int64_t machine_available_bytes = 0;        // MemAvailable
  std::optional<int64_t> cgroup_limit_bytes;  // the smallest limit of this process's cgroup and its ancestors
  std::optional<int64_t> cgroup_available_bytes;  // limit - use, reclaimable page cache counted as free
  int cgroup_version = 0;                         // 0 none, 1, 2

  // The cgroup's numbers where they are smaller than the machine's.
  int64_t total_bytes() const;
  int64_t available_bytes() const;
};

// `root` stands before /proc and /sys/fs/cgroup, so that tests can lay out a machine of their own.
HostMemory read_host_memory(const std::string& root = "");

struct ProcessMemory {
  int64_t rss_bytes = 0;
  int64_t peak_rss_bytes = 0;
};
ProcessMemory read_process_memory(const std::string& root = "");

// "AMD EPYC 9B14", from /proc/cpuinfo; "unknown" where it says nothing.
std::string cpu_model_name(const std::string& root = "");

}  // namespace vllm
