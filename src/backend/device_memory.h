#pragma once

// What memory a device has, and every byte that this engine holds of it, by purpose. Seam 3 of
// docs/architecture.md: the CPU's (with the cgroup limit), later CUDA's, and a fake one in tests.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"

namespace vllm {

enum class MemoryPurpose { kWeights, kKvCache, kWorkspace };
const char* memory_purpose_name(MemoryPurpose purpose);

struct DeviceMemoryInfo {
  std::string device;  // "cpu"
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
  bool shared_with_host = false;  // an integrated device; false for the CPU itself
};

class DeviceMemory;

// Owns one allocation and gives it back. Zeroed and touched: what was planned is what is used.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceMemory* owner, MemoryPurpose purpose, std::byte* data, int64_t bytes)
      : owner_(owner), purpose_(purpose), data_(data), bytes_(bytes) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  DeviceMemory* owner_ = nullptr;
  MemoryPurpose purpose_ = MemoryPurpose::kWorkspace;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// The engine's core thread allocates; any thread may read info() and held_bytes().
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual DeviceMemoryInfo info() const = 0;
  // kRefused when the device has not that much free: nothing is taken then.
  virtual Result<DeviceBuffer> allocate(MemoryPurpose purpose, int64_t bytes) = 0;
  virtual int64_t held_bytes(MemoryPurpose purpose) const = 0;
  virtual int64_t peak_held_bytes(MemoryPurpose purpose) const = 0;

 protected:
  friend class DeviceBuffer;
  virtual void release(MemoryPurpose purpose, std::byte* data, int64_t bytes) = 0;
};

std::unique_ptr<DeviceMemory> make_cpu_device_memory();

}  // namespace vllm
