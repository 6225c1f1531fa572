// The CPU's memory: taken when it is allocated, accounted by purpose, refused before anything is taken.

#include "backend/device_memory.h"

#include <thread>

#include "base/memory_facts.h"
#include "base/units.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

TEST(CpuDeviceMemory, SaysWhatTheMachineHas) {
  const auto memory = make_cpu_device_memory();
  const DeviceMemoryInfo info = memory->info();
  EXPECT_EQ(info.device, "cpu");
  EXPECT_FALSE(info.shared_with_host);
  EXPECT_GT(info.total_bytes, 0);
  EXPECT_GT(info.free_bytes, 0);
  EXPECT_LE(info.free_bytes, info.total_bytes);
  EXPECT_EQ(info.total_bytes, read_host_memory().total_bytes());
}

TEST(CpuDeviceMemory, WhatIsAllocatedIsZeroAndResident) {
  const auto memory = make_cpu_device_memory();
  const int64_t bytes = 64 * kMiB;
  const int64_t before = read_process_memory().rss_bytes;
  auto buffer = memory->allocate(MemoryPurpose::kKvCache, bytes);
  ASSERT_TRUE(buffer.is_ok()) << buffer.status().message();
  EXPECT_GE(read_process_memory().rss_bytes - before, bytes - kMiB);
  EXPECT_EQ(buffer->bytes(), bytes);
  for (int64_t at = 0; at < bytes; at += 4093) ASSERT_EQ(buffer->data()[at], std::byte{0});
  buffer->data()[bytes - 1] = std::byte{7};
  *buffer = DeviceBuffer();
  EXPECT_LE(read_process_memory().rss_bytes - before, bytes / 2);
  EXPECT_EQ(memory->held_bytes(MemoryPurpose::kKvCache), 0);
}

TEST(CpuDeviceMemory, CountsByPurposeAndKeepsThePeak) {
  const auto memory = make_cpu_device_memory();
  {
    const auto a = memory->allocate(MemoryPurpose::kKvCache, 1000);
    auto b = memory->allocate(MemoryPurpose::kKvCache, 5 * kMiB);
    const auto c = memory->allocate(MemoryPurpose::kWorkspace, 77);
    EXPECT_EQ(memory->held_bytes(MemoryPurpose::kKvCache), 1000 + 5 * kMiB);
    EXPECT_EQ(memory->held_bytes(MemoryPurpose::kWorkspace), 77);
    EXPECT_EQ(memory->held_bytes(MemoryPurpose::kWeights), 0);
    DeviceBuffer moved = std::move(b).value();
    EXPECT_EQ(memory->held_bytes(MemoryPurpose::kKvCache), 1000 + 5 * kMiB);
    moved = DeviceBuffer();
    EXPECT_EQ(memory->held_bytes(MemoryPurpose::kKvCache), 1000);
  }
  EXPECT_EQ(memory->held_bytes(MemoryPurpose::kKvCache), 0);
  EXPECT_EQ(memory->held_bytes(MemoryPurpose::kWorkspace), 0);
  EXPECT_EQ(memory->peak_held_bytes(MemoryPurpose::kKvCache), 1000 + 5 * kMiB);
  EXPECT_EQ(memory->peak_held_bytes(MemoryPurpose::kWorkspace), 77);
}

TEST(CpuDeviceMemory, MoreThanThereIsIsRefusedAndNothingIsTaken) {
  const auto memory = make_cpu_device_memory();
  const int64_t before = read_process_memory().rss_bytes;
  for (const int64_t bytes : {memory->info().total_bytes + kGiB, std::numeric_limits<int64_t>::max()}) {
    const auto buffer = memory->allocate(MemoryPurpose::kKvCache, bytes);
    ASSERT_FALSE(buffer.is_ok());
    EXPECT_EQ(buffer.status().code(), StatusCode::kRefused);
    EXPECT_THAT(buffer.status().message(), HasSubstr("of kv_cache do not fit"));
    EXPECT_THAT(buffer.status().message(), HasSubstr("free"));
  }
  EXPECT_FALSE(memory->allocate(MemoryPurpose::kKvCache, -1).is_ok());
  EXPECT_EQ(memory->held_bytes(MemoryPurpose::kKvCache), 0);
  EXPECT_EQ(memory->peak_held_bytes(MemoryPurpose::kKvCache), 0);
  EXPECT_LE(read_process_memory().rss_bytes - before, kMiB);
}

TEST(CpuDeviceMemory, NothingIsAnEmptyBuffer) {
  const auto memory = make_cpu_device_memory();
  const auto buffer = memory->allocate(MemoryPurpose::kWeights, 0);
  ASSERT_TRUE(buffer.is_ok());
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(buffer->bytes(), 0);
}

TEST(CpuDeviceMemory, OthersMayReadTheCountersWhileTheCoreAllocates) {
  const auto memory = make_cpu_device_memory();
  std::thread reader([&] {
    for (int i = 0; i < 2000; ++i) {
      const int64_t held = memory->held_bytes(MemoryPurpose::kWorkspace);
      EXPECT_GE(held, 0);
      EXPECT_LE(held, 3 * 4096);
    }
  });
  for (int i = 0; i < 300; ++i) {
    const auto a = memory->allocate(MemoryPurpose::kWorkspace, 4096);
    const auto b = memory->allocate(MemoryPurpose::kWorkspace, 2 * 4096);
    EXPECT_TRUE(a.is_ok() && b.is_ok());
  }
  reader.join();
  EXPECT_EQ(memory->peak_held_bytes(MemoryPurpose::kWorkspace), 3 * 4096);
}

TEST(DeviceBuffer, MovingOntoItselfKeepsIt) {
  const auto memory = make_cpu_device_memory();
  DeviceBuffer buffer = std::move(memory->allocate(MemoryPurpose::kWeights, 100)).value();
  DeviceBuffer& same = buffer;
  buffer = std::move(same);
  EXPECT_EQ(buffer.bytes(), 100);
  EXPECT_EQ(memory->held_bytes(MemoryPurpose::kWeights), 100);
}

TEST(MemoryPurpose, Names) {
  EXPECT_STREQ(memory_purpose_name(MemoryPurpose::kWeights), "weights");
  EXPECT_STREQ(memory_purpose_name(MemoryPurpose::kKvCache), "kv_cache");
  EXPECT_STREQ(memory_purpose_name(MemoryPurpose::kWorkspace), "workspace");
}

}  // namespace
}  // namespace vllm
