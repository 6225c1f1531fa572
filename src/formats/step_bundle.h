#pragma once

// A step bundle: what a step of a serving engine costs, fitted on recorded steps by vllm-profile --from-steps
// and read by vllm-sim --step-bundle. A folder with one file, step_bundle.json; docs/step-model.md explains
// the model. All times are in milliseconds.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace vllm {

inline constexpr const char* kStepBundleFile = "step_bundle.json";

// What the cost of a step is made of. Contexts and tokens count in thousands, pairs in millions, so that
// coefficients are of the order of milliseconds.
enum class StepFeature {
  kConstant,       // 1
  kRows,           // requests in the step
  kPaddedRows,     // rows after padding to a captured size
  kTokens,         // thousands of tokens
  kDecodeContext,  // thousands of cached tokens that rows of one token attend to
  kPrefillPairs,   // millions of (query, key) pairs of rows with more than one token: n (c + n / 2)
  kBusyTokens,     // thousands of tokens, times the share of the last moments spent in steps without a graph
};
inline constexpr size_t kNumStepFeatures = 7;
const char* step_feature_name(StepFeature feature);  // "decode_context"
using StepFeatures = std::array<double, kNumStepFeatures>;

// Adds ms * max(0, feature - from).
struct StepTerm {
  StepFeature feature = StepFeature::kConstant;
  double from = 0;
  double ms = 0;
  bool operator==(const StepTerm&) const = default;
};

// Device time of one kind of step.
struct StepRegion {
  std::vector<StepTerm> terms;   // none: this kind was not recorded
  double min_ms = 0;             // never less, however far the query lies outside what was fitted
  double largest_rows = 0;       // padded rows up to which it was fitted
  double largest_tokens = 0;     // thousands
  double noise = 0;              // standard deviation of what is left, relative to the time
  double noise_correlation = 0;  // of one step with the next
  bool operator==(const StepRegion&) const = default;
};

// What the host does for a step, one thread, in this order: plan, launch, wait for the oldest step's outputs.
struct StepHost {
  double gap_ms = 0, gap_row_ms = 0;  // from outputs on the host to the start of the next plan
  double empty_ms = 0;                // planning and launching a step without tokens
  // From the start of planning to the end of the launch.
  double graph_launch_ms = 0, graph_launch_row_ms = 0;
  double piecewise_launch_ms = 0;
  double eager_launch_ms = 0;           // mean
  std::vector<double> eager_quantiles;  // of launch / mean, at even steps of probability from 0 to 1
  double eager_correlation = 0;         // of two launches at the same time ...
  double eager_correlation_s = 0;       // ... falling by e in this many seconds
  // Whether kernels of a step without a graph run while the host still launches.
  bool eager_streams = false;
  double eager_head_ms = 0, eager_head_row_ms = 0;  // from the start of planning to the first kernel
  double eager_tail_ms = 0;                         // from the last launch to the last kernel's end, at least
  double graph_head_ms = 0;               // the device begins this long before a graph's launch returns
  double output_ms = 0;                   // from the device's end to the outputs on the host
  double stamp_ms = 0, stamp_row_ms = 0;  // from there to the stamp of a request's token
  double front_ms = 0;                    // from a request's arrival to the earliest plan that sees it
  bool operator==(const StepHost&) const = default;
};

// What the fit leaves in one region of plans, in milliseconds; `held_out_*` from fits that did not see the
// block of time that they are compared with.
struct StepResidual {
  std::string region;  // "device, graph, 65 to 128 rows"
  int64_t samples = 0;
  double mean_ms = 0;  // of what was measured
  double bias_ms = 0, sd_ms = 0, p5_ms = 0, p50_ms = 0, p95_ms = 0;
  double held_out_bias_ms = 0, held_out_sd_ms = 0;
  bool operator==(const StepResidual&) const = default;
};

struct StepBundle {
  std::string hardware, engine;      // as the recordings say
  std::vector<std::string> sources;  // the recordings' folders, the clean ones last
  int scheduling_depth = 1;
  // Sizes that steps are padded to; empty: no graphs. Rows of one token up to `full_graph_rows` run in one
  // graph, other steps up to the largest size in pieces.
  std::vector<int64_t> capture_sizes;
  int64_t full_graph_rows = 0;
  StepHost host;
  StepRegion graph, eager;
  // Factors on the launches of the host and on the device's times: what runs without a recorder took.
  double host_scale = 1, device_scale = 1;
  std::vector<StepResidual> residuals;
  bool operator==(const StepBundle&) const = default;
};

std::string step_bundle_json(const StepBundle& bundle);
// `where` names the file in errors. Every key must be there, no other may be, every number must be finite
// and in its range.
Result<StepBundle> parse_step_bundle(std::string_view text, const std::string& where);

// <dir>/step_bundle.json.
Result<StepBundle> read_step_bundle(const std::string& dir);
Status write_step_bundle(const StepBundle& bundle, const std::string& dir);

}  // namespace vllm
