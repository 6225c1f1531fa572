#pragma once

// Conversions between float32 and the narrow types, rounding to nearest even. Always inlined: kernels include
// them in files that are compiled for one instruction set, and no copy of them may leave such a file.

#include <bit>
#include <cstdint>

#define VLLM_ALWAYS_INLINE inline __attribute__((always_inline))

namespace vllm {

VLLM_ALWAYS_INLINE float bf16_to_f32(uint16_t h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

VLLM_ALWAYS_INLINE uint16_t f32_to_bf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  // A NaN stays one: rounding could carry its mantissa away.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

VLLM_ALWAYS_INLINE float f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
  // Subnormal: an exact multiple of 2^-24.
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

VLLM_ALWAYS_INLINE uint16_t f32_to_f16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or above
  if (magnitude < 0x38800000u) {
    // Below the smallest normal: adding 0.5 lets the processor round at the right bit.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - ((127u - 15u) << 23);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

// E4M3 without infinities (the "fn" form): largest 448, 0x7f is NaN. Values beyond 448 become 448.
VLLM_ALWAYS_INLINE float e4m3_to_f32(uint8_t b) {
  const uint32_t sign = static_cast<uint32_t>(b & 0x80u) << 24;
  const uint32_t magnitude = b & 0x7fu;
  if (magnitude == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude >= 8u) return std::bit_cast<float>(sign | ((magnitude << 20) + ((127u - 7u) << 23)));
  const float value = static_cast<float>(magnitude) * 0x1p-9f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

VLLM_ALWAYS_INLINE uint8_t f32_to_e4m3(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // 448
  if (magnitude < 0x3c800000u) {
    // Below 2^-6: multiples of 2^-9, rounded by adding a number whose last bit is worth that.
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) & 0xfu));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u) - ((127u - 7u) << 23);
  return static_cast<uint8_t>(sign | (rounded >> 20));
}

}  // namespace vllm
