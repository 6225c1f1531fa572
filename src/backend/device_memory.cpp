#include "backend/device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/memory_facts.h"
#include "base/units.h"

namespace vllm {

const char* memory_purpose_name(MemoryPurpose purpose) {
  switch (purpose) {
    case MemoryPurpose::kWeights:
      return "weights";
    case MemoryPurpose::kKvCache:
      return "kv_cache";
    case MemoryPurpose::kWorkspace:
      return "workspace";
  }
  return "unknown";
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      purpose_(other.purpose_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  if (owner_ != nullptr) owner_->release(purpose_, data_, bytes_);
  owner_ = std::exchange(other.owner_, nullptr);
  purpose_ = other.purpose_;
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (owner_ != nullptr) owner_->release(purpose_, data_, bytes_);
}

namespace {

constexpr int64_t kHugePageBytes = 2 * kMiB;

// Anonymous mappings. Counters are atomic so that any thread may read them while the core allocates.
class CpuDeviceMemory final : public DeviceMemory {
 public:
  DeviceMemoryInfo info() const override {
    const HostMemory host = read_host_memory();
    return {.device = "cpu",
            .total_bytes = host.total_bytes(),
            .free_bytes = host.available_bytes(),
            .shared_with_host = false};
  }

  Result<DeviceBuffer> allocate(MemoryPurpose purpose, int64_t bytes) override {
    if (bytes < 0) return failed("{} bytes of {} were asked for", bytes, memory_purpose_name(purpose));
    if (bytes == 0) return DeviceBuffer();
    const int64_t free_bytes = info().free_bytes;
    // Rounded up to pages, which is what the system gives.
    const auto mapped = checked_add(bytes, page_bytes_ - 1);
    if (!mapped || *mapped > free_bytes) {
      return refused("{} of {} do not fit: the CPU has {} free", format_bytes(bytes),
                     memory_purpose_name(purpose), format_bytes(free_bytes));
    }
    void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      return refused("{} of {} do not fit: the system says {}", format_bytes(bytes),
                     memory_purpose_name(purpose), std::strerror(errno));
    }
    // Fewer page faults and less of the translation cache; refused advice changes nothing else.
    if (bytes >= kHugePageBytes) ::madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    auto* start = static_cast<std::byte*>(data);
    touch(start, bytes);
    account(purpose, bytes);
    return DeviceBuffer(this, purpose, start, bytes);
  }

  int64_t held_bytes(MemoryPurpose purpose) const override { return held_[index(purpose)].load(); }
  int64_t peak_held_bytes(MemoryPurpose purpose) const override { return peak_[index(purpose)].load(); }

 protected:
  void release(MemoryPurpose purpose, std::byte* data, int64_t bytes) override {
    ::munmap(data, static_cast<size_t>(bytes));
    held_[index(purpose)] -= bytes;
  }

 private:
  static size_t index(MemoryPurpose purpose) { return static_cast<size_t>(purpose); }

  // A fresh anonymous page reads as zero, but is taken from the machine only when it is written.
  void touch(std::byte* data, int64_t bytes) const {
    volatile std::byte* pages = data;
    for (int64_t at = 0; at < bytes; at += page_bytes_) pages[at] = std::byte{0};
  }

  void account(MemoryPurpose purpose, int64_t bytes) {
    const int64_t held = held_[index(purpose)] += bytes;
    int64_t peak = peak_[index(purpose)].load();
    while (held > peak && !peak_[index(purpose)].compare_exchange_weak(peak, held)) {
    }
  }

  const int64_t page_bytes_ = ::sysconf(_SC_PAGESIZE);
  std::array<std::atomic<int64_t>, 3> held_{}, peak_{};
};

}  // namespace

std::unique_ptr<DeviceMemory> make_cpu_device_memory() { return std::make_unique<CpuDeviceMemory>(); }

}  // namespace vllm
