#include "backend/cpu/kv_cache.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "base/units.h"
#include "model/float_convert.h"

namespace vllm {
namespace {

DType stored_type(KvCacheDType type) {
  switch (type) {
    case KvCacheDType::kBFloat16:
      return DType::kBF16;
    case KvCacheDType::kFloat16:
      return DType::kF16;
    case KvCacheDType::kFloat32:
      return DType::kF32;
    case KvCacheDType::kFp8:
      return DType::kF8E4M3;
  }
  return DType::kF32;
}

template <typename T, typename Convert>
void store_converted(const float* values, int64_t n, std::byte* out, Convert convert) {
  for (int64_t i = 0; i < n; ++i) {
    const T narrow = convert(values[i]);
    std::memcpy(out + i * static_cast<int64_t>(sizeof(T)), &narrow, sizeof(T));
  }
}

void store_row(DType type, const float* values, int64_t n, std::byte* out) {
  switch (type) {
    case DType::kBF16:
      return store_converted<uint16_t>(values, n, out, [](float f) { return f32_to_bf16(f); });
    case DType::kF16:
      return store_converted<uint16_t>(values, n, out, [](float f) { return f32_to_f16(f); });
    case DType::kF8E4M3:
      return store_converted<uint8_t>(values, n, out, [](float f) { return f32_to_e4m3(f); });
    default:
      std::memcpy(out, values, static_cast<size_t>(n) * sizeof(float));
  }
}

}  // namespace

Result<CpuKvCache> CpuKvCache::create(const ModelConfig& model, const KvSpec& spec, int64_t blocks,
                                      int64_t pool_bytes, DeviceMemory& memory) {
  CpuKvCache cache;
  cache.blocks_ = blocks;
  cache.block_bytes_ = spec.bytes_per_block;
  cache.block_size_ = spec.block_size;
  cache.num_groups_ = static_cast<int>(spec.groups.size());
  cache.kv_heads_ = model.num_kv_heads;
  cache.head_dim_ = model.head_dim;
  cache.dtype_ = stored_type(spec.dtype);
  cache.element_bytes_ = kv_dtype_bytes(spec.dtype);
  cache.head_bytes_ = spec.block_size * model.head_dim * cache.element_bytes_;
  cache.places_.resize(static_cast<size_t>(model.num_layers), {.group = -1});

  const int64_t layer_bytes = 2 * cache.kv_heads_ * cache.head_bytes_;
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    int64_t offset = 0;
    for (const int layer : spec.groups[g].layers) {
      cache.places_[static_cast<size_t>(layer)] = {.group = static_cast<int>(g), .offset_bytes = offset};
      offset += layer_bytes;
    }
    if (offset > spec.bytes_per_block) {
      return failed("The KV plan gives {} bytes to a block, but the layers of group {} need {}",
                    spec.bytes_per_block, g, offset);
    }
  }
  for (size_t i = 0; i < cache.places_.size(); ++i) {
    if (cache.places_[i].group < 0) return failed("The KV plan has no place for layer {}", i);
  }
  const auto needed = checked_mul(blocks, spec.bytes_per_block);
  if (!needed || *needed > pool_bytes) {
    return failed("The KV plan has {} blocks of {} bytes, more than its pool of {} bytes", blocks,
                  spec.bytes_per_block, pool_bytes);
  }
  VLLM_ASSIGN_OR_RETURN(cache.pool_, memory.allocate(MemoryPurpose::kKvCache, pool_bytes));
  return cache;
}

std::byte* CpuKvCache::head_start(int layer, BlockId block, int kv_head, bool value) const {
  assert(block >= 0 && block < blocks_);
  const int64_t head = (value ? kv_heads_ : 0) + kv_head;
  return pool_.data() + block * block_bytes_ + places_[static_cast<size_t>(layer)].offset_bytes +
         head * head_bytes_;
}

void CpuKvCache::write(int layer, BlockId block, int slot, const float* k, const float* v) {
  const int64_t offset = slot * head_dim_ * element_bytes_;
  for (int64_t h = 0; h < kv_heads_; ++h) {
    const int head = static_cast<int>(h);
    store_row(dtype_, k + h * head_dim_, head_dim_, head_start(layer, block, head, false) + offset);
    store_row(dtype_, v + h * head_dim_, head_dim_, head_start(layer, block, head, true) + offset);
  }
}

void CpuKvCache::read(const CpuKernels& kernels, int layer, const BlockId* table, int kv_head, bool value,
                      int64_t begin, int64_t end, float* out) const {
  for (int64_t position = begin; position < end;) {
    const int64_t slot = position % block_size_;
    const int64_t count = std::min(end - position, block_size_ - slot);
    const std::byte* rows = head_start(layer, table[position / block_size_], kv_head, value);
    kernels.dequantise_row(dtype_, rows + slot * head_dim_ * element_bytes_, out, count * head_dim_);
    out += count * head_dim_;
    position += count;
  }
}

void CpuKvCache::read_keys(const CpuKernels& kernels, int layer, const BlockId* table, int kv_head,
                           int64_t begin, int64_t end, float* out) const {
  read(kernels, layer, table, kv_head, false, begin, end, out);
}

void CpuKvCache::read_values(const CpuKernels& kernels, int layer, const BlockId* table, int kv_head,
                             int64_t begin, int64_t end, float* out) const {
  read(kernels, layer, table, kv_head, true, begin, end, out);
}

}  // namespace vllm
