#pragma once

// A cost as a sum of terms: which terms, their coefficients, and what they leave.

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "formats/step_bundle.h"
#include "sim/step_samples.h"

namespace vllm {

// Where a slope may change.
struct Knot {
  StepFeature feature;
  double from;
};

// Coefficients of `terms` (their ms is not looked at), weighted by 1 / measured time. Terms without a knot
// that come out negative are left out: costs do not fall. nullopt when the samples do not determine the rest.
std::optional<std::vector<StepTerm>> fit_terms(std::span<const StepSample> samples,
                                               std::vector<StepTerm> terms);

// The same with knots: all candidates at first, without one after another as long as the error of blocks of
// time that the fit did not see hardly grows, or slopes fall that may not.
std::optional<std::vector<StepTerm>> fit_with_knots(std::span<const StepSample> samples,
                                                    const std::vector<StepTerm>& base,
                                                    const std::vector<Knot>& candidates);

// Residuals of `samples` that `inside` takes, with held-out ones from fits of the same terms.
StepResidual residual_of(const std::string& region, std::span<const StepSample> samples,
                         const std::vector<StepTerm>& terms,
                         const std::function<bool(const StepSample&)>& inside);

}  // namespace vllm
