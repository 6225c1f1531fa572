#pragma once

// The two resources of a serving engine, as a recursion over steps: one host thread that plans, launches and
// waits, and one device that runs what was launched, in order. Costs come from a step bundle
// (docs/step-model.md); what varies from step to step is drawn from a seed. Times are milliseconds on the
// caller's axis.

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/random.h"
#include "formats/step_bundle.h"
#include "sched/step_plan.h"

namespace vllm {

// What the cost of a step depends on.
struct StepShape {
  int64_t tokens = 0, rows = 0;
  double decode_context = 0;  // tokens
  double prefill_pairs = 0;

  // One request's part: `n` tokens behind `computed` ones.
  void add_row(int64_t n, int64_t computed) {
    tokens += n;
    ++rows;
    if (n == 1) {
      decode_context += static_cast<double>(computed);
    } else {
      prefill_pairs += static_cast<double>(n) * (static_cast<double>(computed) + static_cast<double>(n) / 2);
    }
  }
};
StepShape step_shape(const StepPlan& plan);

enum class StepKind { kEmpty, kGraph, kPiecewise, kEager };

// Which steps run in a captured graph, and what they are padded to.
struct StepGraphs {
  std::vector<int64_t> sizes;  // rising; empty: none
  int64_t full_rows = 0;

  StepKind kind(const StepShape& shape) const;
  int64_t padded(const StepShape& shape) const;  // tokens, for steps that run without a graph
};

// `busy`: share of the device's last moments that steps without a graph took.
StepFeatures step_features(const StepShape& shape, int64_t padded, double busy);
double sum_terms(std::span<const StepTerm> terms, const StepFeatures& features);

// Milliseconds of device time without noise; 0 for an empty step. Beyond the rows that the bundle's graphs
// were fitted for, the roofline takes over: multiplying takes as long per row as in steps without a graph,
// once that is longer than reading the weights.
double device_ms(const StepBundle& bundle, StepKind kind, const StepShape& shape, int64_t padded,
                 double busy);

// How much of the last kBusyWindowMs before a time the device spent in steps without a graph.
class BusyShare {
 public:
  static constexpr double kBusyWindowMs = 200;
  void add(double begin_ms, double end_ms);
  double at(double now_ms);

 private:
  struct Span {
    double begin_ms, end_ms;
  };
  std::deque<Span> spans_;
};

// Launch times of steps without a graph, relative to their mean: the recorded distribution, with the recorded
// correlation in time (one part moves slowly, one is new for each step).
class LaunchNoise {
 public:
  LaunchNoise(const StepHost& host, uint64_t seed);
  double next(double now_ms);

 private:
  const StepHost& host_;
  Random random_;
  double slow_ = 0;
  double last_ms_ = 0;
  bool begun_ = false;
};

// Probability that a normal variable is below z, within 1e-7; equal bit for bit on every machine.
double normal_cdf(double z);

// One thread owns it; the bundle must outlive it.
class StepMachine {
 public:
  StepMachine(const StepBundle& bundle, StepGraphs graphs, double host_factor, uint64_t seed);

  struct Times {
    double launched_ms = 0;  // the host is free again
    double device_end_ms = 0;
  };
  // A step whose planning began at `start_ms`.
  Times launch(const StepShape& shape, double start_ms);
  // When the outputs of the oldest step are on the host, which waits for them from `now_ms` on.
  double outputs_ms(const Times& step, double now_ms) const;
  // From the outputs to the stamp of their tokens, and to the start of the next plan.
  double stamp_ms(int64_t rows) const;
  double gap_ms(int64_t rows) const;

 private:
  double launch_ms(StepKind kind, const StepShape& shape, double start_ms);
  double noise(const StepRegion& region, double& state, Random& random);

  const StepBundle& bundle_;
  const StepGraphs graphs_;
  const double host_factor_;
  LaunchNoise launch_noise_;
  Random device_random_;
  double graph_state_ = 0, eager_state_ = 0;
  double device_free_ms_ = -1e18;
  BusyShare busy_;
};

}  // namespace vllm
