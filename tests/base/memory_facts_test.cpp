// What the system says about memory, on machines that are laid out as files: no container, cgroup v1 and v2,
// limits of ancestors, paths that are not mounted here, and files with nonsense in them.

#include "base/memory_facts.h"

#include <filesystem>

#include "base/units.h"
#include "support/reference.h"

namespace vllm {
namespace {

// A machine below a temporary folder.
class Machine {
 public:
  Machine() {
    write("/proc/meminfo",
          "MemTotal:       67108864 kB\nMemFree:        1024 kB\nMemAvailable:   33554432 kB\n");
  }
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = dir_.path() + path;
    std::filesystem::create_directories(full.parent_path());
    testing::write_text(full.string(), text);
  }
  // The files of one group of version 2 or 1.
  void v2(const std::string& path, const std::string& limit, const std::string& used,
          const std::string& stat = "") {
    group("/sys/fs/cgroup" + path, "memory.max", limit, "memory.current", used, stat);
  }
  void v1(const std::string& path, const std::string& limit, const std::string& used,
          const std::string& stat = "") {
    group("/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes", limit, "memory.usage_in_bytes", used,
          stat);
  }
  HostMemory read() const { return read_host_memory(dir_.path()); }
  const std::string& root() const { return dir_.path(); }

 private:
  void group(const std::string& dir, const char* limit_name, const std::string& limit, const char* used_name,
             const std::string& used, const std::string& stat) {
    write(dir + "/" + limit_name, limit + "\n");
    write(dir + "/" + used_name, used + "\n");
    if (!stat.empty()) write(dir + "/memory.stat", stat);
  }
  testing::TempDir dir_;
};

std::string gib(int64_t n) { return fmt::format("{}", n * kGiB); }

TEST(MemoryFacts, AMachineWithoutGroups) {
  const Machine machine;
  const HostMemory memory = machine.read();
  EXPECT_EQ(memory.machine_total_bytes, 64 * kGiB);
  EXPECT_EQ(memory.machine_available_bytes, 32 * kGiB);
  EXPECT_EQ(memory.cgroup_version, 0);
  EXPECT_FALSE(memory.cgroup_limit_bytes.has_value());
  EXPECT_EQ(memory.total_bytes(), 64 * kGiB);
  EXPECT_EQ(memory.available_bytes(), 32 * kGiB);
}

TEST(MemoryFacts, AnOldKernelWithoutMemAvailable) {
  Machine machine;
  machine.write("/proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 5 kB\n");
  EXPECT_EQ(machine.read().available_bytes(), kGiB);
}

TEST(MemoryFacts, Version2OwnLimit) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/system.slice/job\n");
  machine.v2("/system.slice/job", gib(8), gib(3));
  const HostMemory memory = machine.read();
  EXPECT_EQ(memory.cgroup_version, 2);
  EXPECT_EQ(memory.total_bytes(), 8 * kGiB);
  EXPECT_EQ(memory.available_bytes(), 5 * kGiB);
}

TEST(MemoryFacts, Version2CountsReclaimableFilesAsFree) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/job\n");
  machine.v2("/job", gib(8), gib(7),
             fmt::format("anon 1\nfile 2\ninactive_file {}\nactive_file 5\n", 4 * kGiB));
  EXPECT_EQ(machine.read().available_bytes(), 5 * kGiB);
  // More reclaimable than used cannot make more than the limit.
  machine.v2("/job", gib(8), gib(1), fmt::format("inactive_file {}\n", 4 * kGiB));
  EXPECT_EQ(machine.read().available_bytes(), 8 * kGiB);
}

TEST(MemoryFacts, Version2MaxIsNoLimit) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/job\n");
  machine.v2("/job", "max", gib(3));
  EXPECT_EQ(machine.read().total_bytes(), 64 * kGiB);
  EXPECT_EQ(machine.read().cgroup_version, 0);
}

TEST(MemoryFacts, Version2TheTightestAncestorBinds) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/pods/pod1/container\n");
  machine.v2("/pods/pod1/container", gib(16), gib(1));
  machine.v2("/pods/pod1", gib(6), gib(5));
  machine.v2("/pods", gib(40), gib(20));
  const HostMemory memory = machine.read();
  EXPECT_EQ(memory.total_bytes(), 6 * kGiB);
  EXPECT_EQ(memory.available_bytes(), kGiB);
}

TEST(MemoryFacts, Version2TheSmallestLimitAndTheLeastRoomMayBeDifferentGroups) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/pods/container\n");
  machine.v2("/pods/container", gib(8), gib(1));
  machine.v2("/pods", gib(20), gib(18));
  EXPECT_EQ(machine.read().total_bytes(), 8 * kGiB);
  EXPECT_EQ(machine.read().available_bytes(), 2 * kGiB);
}

TEST(MemoryFacts, Version2InsideAContainerThePathIsTheRoot) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/\n");
  machine.v2("", gib(12), gib(2));
  EXPECT_EQ(machine.read().total_bytes(), 12 * kGiB);
  EXPECT_EQ(machine.read().available_bytes(), 10 * kGiB);
}

TEST(MemoryFacts, Version2APathOfTheHostThatIsNotMountedHere) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/docker/0123456789abcdef\n");
  machine.v2("", gib(12), gib(2));
  EXPECT_EQ(machine.read().total_bytes(), 12 * kGiB);
}

TEST(MemoryFacts, Version1OwnLimitAndReclaimableTotals) {
  Machine machine;
  machine.write("/proc/self/cgroup", "12:cpu,cpuacct:/a\n5:memory:/job\n1:name=systemd:/\n");
  machine.v1("/job", gib(4), gib(3), fmt::format("cache 1\ninactive_file 9\ntotal_inactive_file {}\n", kGiB));
  const HostMemory memory = machine.read();
  EXPECT_EQ(memory.cgroup_version, 1);
  EXPECT_EQ(memory.total_bytes(), 4 * kGiB);
  EXPECT_EQ(memory.available_bytes(), 2 * kGiB);
}

TEST(MemoryFacts, Version1NoLimitIsANumberNearTheTop) {
  Machine machine;
  machine.write("/proc/self/cgroup", "5:memory:/job\n");
  machine.v1("/job", "9223372036854771712", gib(3));
  EXPECT_EQ(machine.read().total_bytes(), 64 * kGiB);
}

TEST(MemoryFacts, Version1TheTightestAncestorBindsAndTheMountsRootCounts) {
  Machine machine;
  machine.write("/proc/self/cgroup", "5:memory:/docker/abc\n");
  machine.v1("", gib(2), gib(1));
  EXPECT_EQ(machine.read().total_bytes(), 2 * kGiB);
  machine.v1("/docker", gib(1), gib(0));
  EXPECT_EQ(machine.read().total_bytes(), kGiB);
}

TEST(MemoryFacts, BothVersionsAtOnce) {
  Machine machine;
  machine.write("/proc/self/cgroup", "5:memory:/job\n0::/job\n");
  machine.v1("/job", gib(4), gib(1));
  machine.v2("/unified/job", "max", gib(1));
  EXPECT_EQ(machine.read().total_bytes(), 4 * kGiB);
  EXPECT_EQ(machine.read().cgroup_version, 1);
}

TEST(MemoryFacts, ALimitAboveTheMachineDoesNotAddMemory) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/job\n");
  machine.v2("/job", gib(100), gib(1));
  EXPECT_EQ(machine.read().total_bytes(), 64 * kGiB);
  EXPECT_EQ(machine.read().available_bytes(), 32 * kGiB);
}

TEST(MemoryFacts, UseAboveTheLimitLeavesNothing) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/job\n");
  machine.v2("/job", gib(4), gib(5));
  EXPECT_EQ(machine.read().available_bytes(), 0);
}

TEST(MemoryFacts, NonsenseIsNoLimit) {
  for (const char* text : {"", "\n", "lots", "-", "999999999999999999999999"}) {
    Machine machine;
    machine.write("/proc/self/cgroup", "0::/job\n:\nno colons\n7:memory\n");
    machine.v2("/job", text, gib(1));
    EXPECT_EQ(machine.read().available_bytes(), 32 * kGiB) << text;
  }
  const testing::TempDir empty;
  const HostMemory memory = read_host_memory(empty.path());
  EXPECT_EQ(memory.total_bytes(), 0);
  EXPECT_EQ(memory.available_bytes(), 0);
}

TEST(MemoryFacts, ThisMachine) {
  const HostMemory memory = read_host_memory();
  EXPECT_GT(memory.total_bytes(), 0);
  EXPECT_GT(memory.available_bytes(), 0);
  EXPECT_LE(memory.available_bytes(), memory.total_bytes());
}

TEST(MemoryFacts, ThisProcess) {
  const ProcessMemory memory = read_process_memory();
  EXPECT_GT(memory.rss_bytes, kMiB);
  EXPECT_GE(memory.peak_rss_bytes, memory.rss_bytes);
  Machine machine;
  machine.write("/proc/self/status", "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n");
  EXPECT_EQ(read_process_memory(machine.root()).rss_bytes, kMiB);
  EXPECT_EQ(read_process_memory(machine.root()).peak_rss_bytes, 2 * kMiB);
  EXPECT_EQ(read_process_memory("/nowhere").rss_bytes, 0);
}

TEST(MemoryFacts, ProcessorName) {
  Machine machine;
  EXPECT_EQ(cpu_model_name(machine.root()), "unknown");
  machine.write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: An Example 9000\nmodel name\t: Another\n");
  EXPECT_EQ(cpu_model_name(machine.root()), "An Example 9000");
}

}  // namespace
}  // namespace vllm
