#include "model/dummy_weights.h"

#include <cstring>
#include <new>
#include <span>
#include <stdexcept>

#include "base/random.h"
#include "base/units.h"
#include "model/float_convert.h"
#include "model/parameter_table.h"

namespace vllm {
namespace {

constexpr int64_t kAlignment = 64;
constexpr float kStandardDeviation = 0.02f;

uint64_t name_hash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// The sum of the four 16-bit quarters of a random word, centred and scaled.
float next_value(uint64_t& state) {
  const uint64_t word = splitmix64(state);
  const auto quarter = [word](int i) { return static_cast<int32_t>((word >> (16 * i)) & 0xffffu); };
  const int32_t sum = quarter(0) + quarter(1) + quarter(2) + quarter(3) - 2 * 65535;
  // Four uniform numbers of 2^16 values have a variance of 4 (2^32 - 1) / 12 together.
  constexpr float kScale = kStandardDeviation / 37837.23f;
  return static_cast<float>(sum) * kScale;
}

template <typename T, typename Convert>
void fill(std::byte* data, int64_t count, uint64_t state, bool ones, Convert convert) {
  for (int64_t i = 0; i < count; ++i) {
    const T value = convert(ones ? 1.0f : next_value(state));
    std::memcpy(data + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

void fill_parameter(std::byte* data, const ParameterSpec& spec, DType dtype, int64_t seed) {
  uint64_t state = static_cast<uint64_t>(seed);
  state = splitmix64(state) ^ name_hash(spec.hf_name);
  const int64_t count = spec.rows * spec.cols;
  if (dtype == DType::kBF16) {
    fill<uint16_t>(data, count, state, spec.norm, [](float f) { return f32_to_bf16(f); });
  } else if (dtype == DType::kF16) {
    fill<uint16_t>(data, count, state, spec.norm, [](float f) { return f32_to_f16(f); });
  } else {
    fill<float>(data, count, state, spec.norm, [](float f) { return f; });
  }
}

Status too_large(const ModelConfig& model) {
  return refused("The dummy weights of '{}' do not fit into memory: take a smaller model or --dtype bfloat16",
                 model.source);
}

}  // namespace

Result<ModelWeights> make_dummy_weights(const ModelConfig& model, DType dtype, int64_t seed) {
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return usage_error(
        "--dtype {} cannot be made by --load-format dummy: accepted are float32, float16 and bfloat16",
        dtype_name(dtype));
  }
  ModelWeights weights;
  const std::vector<ParameterSpec> specs = list_parameters(model, weights);
  int64_t total = 0;
  for (const ParameterSpec& spec : specs) {
    const auto row_bytes = dtype_bytes(dtype, spec.cols);
    const auto bytes = row_bytes ? checked_mul(*row_bytes, spec.rows) : std::nullopt;
    const auto padded = bytes ? checked_add(*bytes, kAlignment) : std::nullopt;
    const auto sum = padded ? checked_add(total, *padded) : std::nullopt;
    if (!sum) return too_large(model);
    *spec.target = {.name = spec.hf_name,
                    .dtype = dtype,
                    .rows = spec.rows,
                    .cols = spec.cols,
                    .data = nullptr,
                    .row_bytes = *row_bytes};
    weights.total_bytes += *bytes;
    total = *sum;
  }
  std::shared_ptr<std::vector<std::byte>> buffer;
  try {
    buffer = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(total));
  } catch (const std::bad_alloc&) {
    return too_large(model);
  } catch (const std::length_error&) {
    return too_large(model);
  }
  int64_t offset = 0;
  for (const ParameterSpec& spec : specs) {
    fill_parameter(buffer->data() + offset, spec, dtype, seed);
    spec.target->data = buffer->data() + offset;
    offset += ceil_div(spec.rows * spec.target->row_bytes, kAlignment) * kAlignment;
  }
  if (model.tie_word_embeddings) weights.head = weights.embedding;
  weights.owner = buffer;
  return weights;
}

}  // namespace vllm
