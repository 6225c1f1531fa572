#include "sample/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/random.h"

namespace vllm {
namespace {

// exp(x) for x <= 0, within 4e-7 of it, by exactly rounded operations only: the same on every machine, and in
// a form that compilers turn into vector code. Below -87 it is about 1e-38 and stays there.
inline float exp_of_negative(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  const float n = (clamped * 1.44269504f + 12582912.0f) - 12582912.0f;  // rounds to an integer
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = p * r * r + r + 1.0f;
  return e * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

// The tokens that may be drawn: those with a greater weight than `weight`, and of those with exactly this
// weight the ids up to `last_id`.
struct Cut {
  float weight = 0.0f;
  int32_t last_id = INT32_MAX;
  bool keeps(float w, int32_t id) const { return w > weight || (w == weight && id <= last_id); }
};

// Best first: greater weight, then lower id.
struct Better {
  std::span<const float> weights;
  bool operator()(int32_t a, int32_t b) const {
    const float wa = weights[static_cast<size_t>(a)], wb = weights[static_cast<size_t>(b)];
    return wa != wb ? wa > wb : a < b;
  }
};

// The k-th greatest weight among those not yet cut; tokens that tie with it all stay.
Cut cut_top_k(const Cut& before, int top_k, SamplerScratch scratch) {
  size_t count = 0;
  for (size_t i = 0; i < scratch.weights.size(); ++i) {
    if (before.keeps(scratch.weights[i], static_cast<int32_t>(i)))
      scratch.order[count++] = static_cast<int32_t>(i);
  }
  if (static_cast<size_t>(top_k) >= count) return before;
  const auto begin = scratch.order.begin();
  std::nth_element(begin, begin + (top_k - 1), begin + static_cast<std::ptrdiff_t>(count),
                   Better{scratch.weights});
  return {.weight = scratch.weights[static_cast<size_t>(scratch.order[static_cast<size_t>(top_k - 1)])]};
}

// The smallest set of best tokens whose share of the remaining weight reaches top_p; never empty.
Cut cut_top_p(const Cut& before, double top_p, SamplerScratch scratch) {
  size_t count = 0;
  double total = 0;
  for (size_t i = 0; i < scratch.weights.size(); ++i) {
    if (!before.keeps(scratch.weights[i], static_cast<int32_t>(i))) continue;
    scratch.order[count++] = static_cast<int32_t>(i);
    total += static_cast<double>(scratch.weights[i]);
  }
  // A heap gives the best tokens one by one; most of a vocabulary is never sorted.
  const auto worse = [better = Better{scratch.weights}](int32_t a, int32_t b) { return better(b, a); };
  const auto begin = scratch.order.begin();
  auto end = begin + static_cast<std::ptrdiff_t>(count);
  std::make_heap(begin, end, worse);
  double sum = 0;
  Cut cut = before;
  while (end != begin && sum < top_p * total) {
    std::pop_heap(begin, end, worse);
    --end;
    cut = {.weight = scratch.weights[static_cast<size_t>(*end)], .last_id = *end};
    sum += static_cast<double>(cut.weight);
  }
  return cut;
}

// Inverse transform over the kept tokens in the order of their ids.
int32_t draw(const Cut& cut, double uniform, std::span<const float> weights) {
  double total = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (cut.keeps(weights[i], static_cast<int32_t>(i))) total += static_cast<double>(weights[i]);
  }
  const double target = uniform * total;
  double sum = 0;
  int32_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!cut.keeps(weights[i], static_cast<int32_t>(i))) continue;
    last = static_cast<int32_t>(i);
    sum += static_cast<double>(weights[i]);
    if (sum > target) return last;
  }
  return last;  // rounding may leave the sum at the target
}

}  // namespace

uint64_t sampling_key(const SamplingParams& params, int64_t engine_seed, uint64_t request_number) {
  if (params.seed) return static_cast<uint64_t>(*params.seed);
  uint64_t state = static_cast<uint64_t>(engine_seed);
  state = splitmix64(state) ^ request_number;
  return splitmix64(state);
}

double sampling_draw(uint64_t key, int64_t position) {
  uint64_t state = key;
  state = splitmix64(state) ^ static_cast<uint64_t>(position);
  return static_cast<double>(splitmix64(state) >> 11) * 0x1p-53;
}

std::optional<int32_t> greedy_token(std::span<const float> logits) {
  bool finite = true;
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    finite &= std::isfinite(logits[i]);
    if (logits[i] > logits[best]) best = i;
  }
  if (!finite || logits.empty()) return std::nullopt;
  return static_cast<int32_t>(best);
}

std::optional<int32_t> sample_token(std::span<const float> logits, const SamplingParams& params, uint64_t key,
                                    int64_t position, SamplerScratch scratch) {
  const std::optional<int32_t> best = greedy_token(logits);
  if (!best || params.temperature == 0) return best;

  const float greatest = logits[static_cast<size_t>(*best)];
  const float inverse_temperature = static_cast<float>(1.0 / params.temperature);
  scratch.weights = scratch.weights.first(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    scratch.weights[i] = exp_of_negative((logits[i] - greatest) * inverse_temperature);
  }
  // The best token's weight is 1, so min_p is a bound on the weights themselves.
  Cut cut{.weight = static_cast<float>(params.min_p)};
  if (params.top_k > 0) cut = cut_top_k(cut, params.top_k, scratch);
  if (params.top_p < 1) cut = cut_top_p(cut, params.top_p, scratch);
  return draw(cut, sampling_draw(key, position), scratch.weights);
}

}  // namespace vllm
