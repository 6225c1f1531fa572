#include "backend/cpu/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vllm {
namespace {

// Single precision throughout, in the order of the reference implementation: at position 100,000 the rounding
// of a frequency is visible in its angle.
std::vector<float> plain_frequencies(double theta, int64_t width) {
  std::vector<float> out(static_cast<size_t>(width / 2));
  for (size_t i = 0; i < out.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
    out[i] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  return out;
}

double original_length(const ModelConfig& model, const RopeConfig& rope) {
  const int64_t length = rope.original_max_position_embeddings;
  return static_cast<double>(length > 0 ? length : model.max_position_embeddings);
}

// Long wavelengths are divided by the factor, short ones stay, those between go over smoothly.
void scale_llama3(const RopeConfig& rope, double original, std::vector<float>& frequencies) {
  for (float& frequency : frequencies) {
    const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
    if (wavelength > original / rope.low_freq_factor) {
      frequency = static_cast<float>(static_cast<double>(frequency) / rope.factor);
    } else if (wavelength >= original / rope.high_freq_factor) {
      const double smooth =
          (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      const double f = static_cast<double>(frequency);
      frequency = static_cast<float>((1 - smooth) * f / rope.factor + smooth * f);
    }
  }
}

// Dimensions that turn more than beta_fast times in the original length keep their frequency, those that turn
// less than beta_slow times are divided by the factor, with a linear ramp between.
void scale_yarn(const RopeConfig& rope, double original, int64_t width, std::vector<float>& frequencies) {
  const auto dimension = [&](double turns) {
    return static_cast<double>(width) * std::log(original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  const double low = std::max(std::floor(dimension(rope.beta_fast)), 0.0);
  double high = std::min(std::ceil(dimension(rope.beta_slow)), static_cast<double>(width - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const double f = static_cast<double>(frequencies[i]);
    frequencies[i] = static_cast<float>(f / rope.factor * ramp + f * (1 - ramp));
  }
}

double yarn_magnitude(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  const auto magnitude = [&](double mscale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1.0;
  };
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) {
    return magnitude(*rope.mscale) / magnitude(*rope.mscale_all_dim);
  }
  return magnitude(1.0);
}

}  // namespace

Result<RopeTable> make_rope_table(const ModelConfig& model, const RopeConfig& rope,
                                  const std::vector<float>& divisors) {
  const auto width =
      static_cast<int64_t>(static_cast<double>(model.head_dim) * rope.partial_rotary_factor) / 2 * 2;
  RopeTable table;
  table.interleaved = model.rope_interleaved;
  double theta = rope.theta;
  if (rope.type == "dynamic" && width > 2) {
    const double stretch = rope.factor * rope.factor - (rope.factor - 1);
    theta *= std::pow(stretch, static_cast<double>(width) / static_cast<double>(width - 2));
  }
  table.inverse_frequencies = plain_frequencies(theta, width);
  if (rope.type == "linear") {
    for (float& f : table.inverse_frequencies) f /= static_cast<float>(rope.factor);
  } else if (rope.type == "llama3") {
    scale_llama3(rope, original_length(model, rope), table.inverse_frequencies);
  } else if (rope.type == "yarn") {
    scale_yarn(rope, original_length(model, rope), width, table.inverse_frequencies);
    table.magnitude = static_cast<float>(yarn_magnitude(rope));
  } else if (rope.type != "default" && rope.type != "dynamic") {
    return refused(
        "'{}' scales its rotary embedding by type '{}', which this build cannot compute; accepted are "
        "default, linear, dynamic, llama3 and yarn",
        model.source, rope.type);
  }
  if (!divisors.empty() && divisors.size() != table.inverse_frequencies.size()) {
    return bad_input("'{}' rotates {} pairs of elements, but its weights bring {} frequency divisors",
                     model.source, table.inverse_frequencies.size(), divisors.size());
  }
  for (size_t i = 0; i < divisors.size(); ++i) table.inverse_frequencies[i] /= divisors[i];
  return table;
}

void rope_angles(const RopeTable& table, int64_t position, float* cosines, float* sines) {
  for (size_t i = 0; i < table.inverse_frequencies.size(); ++i) {
    const double angle = static_cast<double>(static_cast<float>(position) * table.inverse_frequencies[i]);
    cosines[i] = static_cast<float>(std::cos(angle)) * table.magnitude;
    sines[i] = static_cast<float>(std::sin(angle)) * table.magnitude;
  }
}

void rope_rotate(const RopeTable& table, const float* cosines, const float* sines, float* head) {
  const size_t pairs = table.inverse_frequencies.size();
  for (size_t i = 0; i < pairs; ++i) {
    float& a = table.interleaved ? head[2 * i] : head[i];
    float& b = table.interleaved ? head[2 * i + 1] : head[i + pairs];
    const float x = a, y = b;
    a = x * cosines[i] - y * sines[i];
    b = y * cosines[i] + x * sines[i];
  }
}

}  // namespace vllm
