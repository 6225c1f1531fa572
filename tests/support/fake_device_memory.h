#pragma once

// A device that is not there: its size, what a neighbour holds of it, and every allocation, in order. The
// memory is address space that takes no page before it is written, so that a plan for 80 GiB can be allocated
// in a test.

#include <map>
#include <string>
#include <vector>

#include "backend/device_memory.h"
#include "kv/plan.h"

namespace vllm::testing {

struct FakeDevice {
  std::string name = "cuda";  // "cpu", "cuda", "integrated"
  int64_t total_bytes = 0;
  int64_t neighbour_bytes = 0;  // held by others
};

// One thread.
class FakeDeviceMemory final : public DeviceMemory {
 public:
  struct Allocation {
    MemoryPurpose purpose;
    int64_t bytes;
  };

  explicit FakeDeviceMemory(FakeDevice device) : device_(std::move(device)) {}

  DeviceMemoryInfo info() const override;
  Result<DeviceBuffer> allocate(MemoryPurpose purpose, int64_t bytes) override;
  int64_t held_bytes(MemoryPurpose purpose) const override;
  int64_t peak_held_bytes(MemoryPurpose purpose) const override;

  // Memory that others take or, negative, give back.
  void neighbour_takes(int64_t bytes) { device_.neighbour_bytes += bytes; }
  const std::vector<Allocation>& allocations() const { return allocations_; }

 protected:
  void release(MemoryPurpose purpose, std::byte* data, int64_t bytes) override;

 private:
  int64_t all_held_bytes() const;
  FakeDevice device_;
  std::vector<Allocation> allocations_;
  std::map<MemoryPurpose, int64_t> held_, peak_;
};

// What an engine would know of the device before it takes anything.
MemoryFacts facts_of(const DeviceMemory& memory);

// Takes the pool that the plan describes, as an allocator does: one tensor for each of the spec's, `blocks`
// parts long, and the recurrent state of max_num_seqs sequences, layer by layer.
Result<std::vector<DeviceBuffer>> allocate_planned_pool(const KvPlan& plan, DeviceMemory& memory);

}  // namespace vllm::testing
