#include "bench/environment.h"

#include <filesystem>

#include "formats/json.h"
#include "support/reference.h"

namespace vllm {
namespace {

class EnvironmentTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ / path).parent_path());
    testing::write_text(root_ / path, text);
  }
  testing::TempDir root_;
};

TEST_F(EnvironmentTest, DescribesAMachineFromItsFiles) {
  put("proc/cpuinfo",
      "processor\t: 0\nmodel name\t: Acme 9000\nphysical id\t: 0\ncore id\t\t: 0\n\n"
      "processor\t: 1\nmodel name\t: Acme 9000\nphysical id\t: 0\ncore id\t\t: 0\n\n"
      "processor\t: 2\nmodel name\t: Acme 9000\nphysical id\t: 1\ncore id\t\t: 0\n\n");
  put("proc/self/status", "Name:\tx\nMems_allowed:\t3\nMems_allowed_list:\t0-1\n");
  put("proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n");
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  const Json json = hardware_json(root_.path());
  EXPECT_EQ(json["device_name"], "Acme 9000");
  EXPECT_EQ(json["device_count"], 1);
  EXPECT_EQ(json["logical_cpus"], 3);
  EXPECT_EQ(json["physical_cores"], 2);
  EXPECT_EQ(json["numa_mems_allowed"], "0-1");
  EXPECT_EQ(json["machine_total_memory_bytes"], int64_t{16} << 30);
  EXPECT_EQ(json["cgroup"]["cpu_limit"], 1.5);
  EXPECT_EQ(json["cpu_governor"], "performance");
  EXPECT_FALSE(json["cpu_affinity"].empty());
}

TEST_F(EnvironmentTest, WhatIsNotKnownIsNullWithAReason) {
  const Json json = hardware_json(root_.path());
  EXPECT_TRUE(json["device_uuid"].is_null());
  EXPECT_EQ(json["device_uuid_reason"], "no GPU is used in this run");
  EXPECT_TRUE(json["driver_version"].is_null());
  EXPECT_TRUE(json["physical_cores"].is_null());
  EXPECT_TRUE(json["numa_mems_allowed"].is_null());
  EXPECT_TRUE(json["cpu_governor"].is_null());
  EXPECT_TRUE(json["cgroup"]["cpu_limit"].is_null());
  EXPECT_TRUE(load_average_json(root_.path()).is_null());
}

TEST_F(EnvironmentTest, ThisMachine) {
  const Json json = hardware_json();
  EXPECT_GT(json["device_total_memory_bytes"].get<int64_t>(), 0);
  EXPECT_GT(json["logical_cpus"].get<int64_t>(), 0);
  EXPECT_EQ(load_average_json().size(), 3u);
}

TEST_F(EnvironmentTest, ThereAreNoGraphsOnACpu) {
  const Json json = execution_json("cpu-plain-avx2", 4);
  EXPECT_EQ(json["mode"], "none");
  EXPECT_EQ(json["reason"], "there are no graphs on a CPU");
  EXPECT_EQ(json["executor"], "cpu-plain-avx2");
  EXPECT_EQ(json["threads"], 4);
}

}  // namespace
}  // namespace vllm
