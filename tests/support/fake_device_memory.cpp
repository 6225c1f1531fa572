#include "support/fake_device_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/units.h"

namespace vllm::testing {

DeviceMemoryInfo FakeDeviceMemory::info() const {
  return {
      .device = device_.name,
      .total_bytes = device_.total_bytes,
      .free_bytes = std::max<int64_t>(0, device_.total_bytes - device_.neighbour_bytes - all_held_bytes()),
      .shared_with_host = device_.name == "integrated"};
}

Result<DeviceBuffer> FakeDeviceMemory::allocate(MemoryPurpose purpose, int64_t bytes) {
  if (bytes <= 0) return failed("{} bytes were asked for", bytes);
  if (bytes > info().free_bytes) {
    return refused("{} do not fit: the fake device has {} free", format_bytes(bytes),
                   format_bytes(info().free_bytes));
  }
  void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return failed("no address space for {}", format_bytes(bytes));
  allocations_.push_back({purpose, bytes});
  held_[purpose] += bytes;
  peak_[purpose] = std::max(peak_[purpose], held_[purpose]);
  return DeviceBuffer(this, purpose, static_cast<std::byte*>(data), bytes);
}

int64_t FakeDeviceMemory::held_bytes(MemoryPurpose purpose) const {
  const auto it = held_.find(purpose);
  return it == held_.end() ? 0 : it->second;
}

int64_t FakeDeviceMemory::peak_held_bytes(MemoryPurpose purpose) const {
  const auto it = peak_.find(purpose);
  return it == peak_.end() ? 0 : it->second;
}

void FakeDeviceMemory::release(MemoryPurpose purpose, std::byte* data, int64_t bytes) {
  ::munmap(data, static_cast<size_t>(bytes));
  held_[purpose] -= bytes;
}

int64_t FakeDeviceMemory::all_held_bytes() const {
  int64_t sum = 0;
  for (const auto& [purpose, bytes] : held_) sum += bytes;
  return sum;
}

MemoryFacts facts_of(const DeviceMemory& memory) {
  const DeviceMemoryInfo info = memory.info();
  MemoryFacts facts;
  facts.device = info.device;
  facts.shared_with_host = info.shared_with_host;
  facts.total_bytes = info.total_bytes;
  facts.free_bytes = info.free_bytes;
  return facts;
}

Result<std::vector<DeviceBuffer>> allocate_planned_pool(const KvPlan& plan, DeviceMemory& memory) {
  std::vector<DeviceBuffer> pool;
  const auto take = [&](int64_t bytes) -> Status {
    auto buffer = memory.allocate(MemoryPurpose::kKvCache, bytes);
    if (!buffer) return buffer.status();
    pool.push_back(std::move(buffer).value());
    return Status::ok();
  };
  for (const int64_t part_bytes : plan.spec.slot_bytes) VLLM_RETURN_IF_ERROR(take(plan.blocks * part_bytes));
  for (const LayerKv& layer : plan.spec.layers) {
    if (layer.kind == LayerKind::kRecurrent) {
      VLLM_RETURN_IF_ERROR(take(plan.max_num_seqs * layer.bytes_per_sequence));
    }
  }
  return pool;
}

}  // namespace vllm::testing
