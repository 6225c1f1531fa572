#include "sim/step_samples.h"

#include <algorithm>
#include <cmath>

#include "sim/least_squares.h"

namespace vllm {
namespace {

// A step is taken as bound by one resource when the other would have been done this much earlier.
constexpr double kClearMs = 0.35;
// Launches without a graph lie between these multiples of their mean, nearly always.
constexpr double kEarlyLaunch = 0.6, kLateLaunch = 1.65;
// Until a transfer of a few kilobytes is measured apart from the device's time.
constexpr double kOutputMs = 0.05;

// Walks through a recording of two steps in flight, with an estimate of when the device was done with each
// step: observed where the host waited for it, else predicted.
class Walk {
 public:
  Walk(const StepRecording& recording, size_t index, const StepBundle& bundle, StepSamples& samples)
      : r_(recording), index_(index), bundle_(bundle), samples_(samples) {}

  void run() {
    for (size_t k = 0; k < r_.steps.size(); ++k) step(k);
    for (const RecordedStamp& stamp : r_.stamps) {
      add(samples_.stamp, stamp.step, stamp.after_ms, 0);
    }
  }

 private:
  const RecordedStep& at(size_t k) const { return r_.steps[k]; }
  StepKind kind(size_t k) const { return r_.graphs.kind(at(k).shape); }
  bool planned_early(size_t k) const {  // k + 1 was planned before the outputs of k were known
    return k + 1 < r_.steps.size() && at(k + 1).start_ms < at(k).out_ms;
  }
  double launch_guess(size_t k) const {
    const StepHost& host = bundle_.host;
    switch (kind(k)) {
      case StepKind::kEmpty:
        return host.empty_ms;
      case StepKind::kGraph:
        return host.graph_launch_ms + host.graph_launch_row_ms * static_cast<double>(at(k).shape.rows);
      case StepKind::kPiecewise:
        return host.piecewise_launch_ms;
      case StepKind::kEager:
        break;
    }
    return host.eager_launch_ms;
  }
  bool graph_like(size_t k) const { return kind(k) == StepKind::kGraph || kind(k) == StepKind::kEmpty; }

  void add(std::vector<StepSample>& list, size_t k, double ms, double busy) {
    StepSample sample;
    sample.recording = index_;
    sample.at_ms = at(k).start_ms;
    const double span = std::max(1.0, r_.steps.back().start_ms);
    sample.block = std::min(kTimeBlocks - 1, static_cast<int>(sample.at_ms / span * kTimeBlocks));
    sample.rows = at(k).shape.rows;
    sample.padded = r_.graphs.padded(at(k).shape);
    sample.features = step_features(at(k).shape, sample.padded, busy);
    sample.ms = ms;
    list.push_back(sample);
  }

  void step(size_t k) {
    host_samples(k);
    const StepHost& host = bundle_.host;
    const bool early = planned_early(k);
    const bool from_idle = k == 0 || at(k).start_ms >= at(k - 1).out_ms;
    const StepKind what = kind(k);

    // When the launch of k was over: seen from the next plan, or from the outputs that waited for it.
    double launched = at(k).start_ms + launch_guess(k);
    launched_known_ = false;
    if (from_idle && early) {
      launched = at(k + 1).start_ms;
    } else if (!from_idle) {
      launched_known_ = host_bound_;
      launched = host_bound_ ? at(k - 1).out_ms : std::min(launched, at(k - 1).out_ms);
    }
    const double latest_launch = from_idle ? launched : at(k - 1).out_ms;

    double begin = launched;
    double head = 0;
    if (what == StepKind::kGraph || what == StepKind::kPiecewise) begin -= host.graph_head_ms;
    if (what == StepKind::kEager) {
      head = host.eager_head_ms + host.eager_head_row_ms * static_cast<double>(at(k).shape.rows);
      begin = std::min(launched, at(k).start_ms + head);
    }
    const bool device_waited = begin < device_end_;
    begin = std::max(begin, device_end_);
    const double busy = busy_.at(begin);
    const double ms = device_ms(bundle_, what, at(k).shape, r_.graphs.padded(at(k).shape), busy);
    double predicted = what == StepKind::kEmpty ? std::max(device_end_, launched) : begin + ms;
    if (what == StepKind::kEager) predicted = std::max(predicted, launched + host.eager_tail_ms);

    const double seen = at(k).out_ms - kOutputMs;
    const bool observed = device_bound(k, early, predicted);
    const double end = observed ? seen : std::min(predicted, seen);
    if (observed) device_samples(k, begin, end, latest_launch, device_waited, busy, ms);
    note_host_bound(k, early, predicted);
    if (what == StepKind::kEager) busy_.add(begin, end);
    device_end_ = end;
    device_observed_ = observed;
  }

  bool device_bound(size_t k, bool early, double predicted) const {
    if (kind(k) == StepKind::kEmpty) return false;
    if (!early) return true;
    const double wait = at(k).out_ms - at(k + 1).start_ms;
    if (graph_like(k + 1)) return wait > launch_guess(k + 1) + kClearMs;
    return wait > kLateLaunch * launch_guess(k + 1) && predicted > at(k + 1).start_ms + launch_guess(k + 1);
  }

  // Whether the outputs of k waited for the launch of k + 1.
  void note_host_bound(size_t k, bool early, double predicted) {
    host_bound_ = false;
    if (!early) return;
    const double next = at(k + 1).start_ms;
    const double wait = at(k).out_ms - next;
    const double guess = launch_guess(k + 1);
    const StepKind what = kind(k + 1);
    if (graph_like(k + 1)) {
      host_bound_ = predicted + kOutputMs < next + 0.75 * guess;
      if (host_bound_ && what == StepKind::kGraph) add(samples_.graph_launch, k + 1, wait, 0);
      return;
    }
    host_bound_ = predicted + kOutputMs < next + kEarlyLaunch * guess;
    if (!host_bound_) return;
    add(what == StepKind::kEager ? samples_.eager_launch : samples_.piecewise_launch, k + 1, wait, 0);
  }

  void host_samples(size_t k) {
    const bool early = planned_early(k);
    if (early && k + 2 < r_.steps.size() && planned_early(k + 1)) {
      add(samples_.gap, k, at(k + 2).start_ms - at(k).out_ms, 0);
    }
    if (kind(k) == StepKind::kEmpty && !early) add(samples_.empty, k, at(k).out_ms - at(k).start_ms, 0);
    const bool from_idle = k == 0 || at(k).start_ms >= at(k - 1).out_ms;
    if (from_idle && early && kind(k) == StepKind::kEager) {
      add(samples_.eager_launch, k, at(k + 1).start_ms - at(k).start_ms, 0);
    }
  }

  void device_samples(size_t k, double begin, double end, double latest_launch, bool device_waited,
                      double busy, double model_ms) {
    const StepHost& host = bundle_.host;
    if (kind(k) == StepKind::kGraph) {
      // The device went from one step to the next without a pause.
      const double launched = std::min(latest_launch, at(k).start_ms + launch_guess(k));
      if (device_observed_ && device_end_ > launched - host.graph_head_ms + kClearMs) {
        add(samples_.graph_device, k, end - device_end_, busy);
      }
      if (launched_known_ && device_end_ < latest_launch - 3) {
        add(samples_.graph_head, k, latest_launch + model_ms - end, busy);
      }
    }
    if (kind(k) == StepKind::kEager && end > latest_launch + host.eager_tail_ms + 1) {
      // Where the device would hardly be the bottleneck, only its slow steps show.
      const bool clear = !planned_early(k) || begin + model_ms > at(k + 1).start_ms + launch_guess(k + 1) + 2;
      if (clear) add(samples_.eager_device, k, end - begin, busy);
      if (clear && !device_waited) add(samples_.eager_head, k, end - model_ms - at(k).start_ms, busy);
    }
  }

  const StepRecording& r_;
  const size_t index_;
  const StepBundle& bundle_;
  StepSamples& samples_;
  double device_end_ = -1e18;
  bool device_observed_ = false;
  bool host_bound_ = false;  // of the step before
  bool launched_known_ = false;
  BusyShare busy_;
};

// One step in flight: the host plans, the step runs, the outputs are there.
void collect_serial(const StepRecording& r, size_t index, StepSamples& samples) {
  const double span = std::max(1.0, r.steps.back().start_ms);
  const auto add = [&](std::vector<StepSample>& list, size_t k, double ms) {
    const RecordedStep& step = r.steps[k];
    StepSample sample;
    sample.recording = index;
    sample.at_ms = step.start_ms;
    sample.block = std::min(kTimeBlocks - 1, static_cast<int>(sample.at_ms / span * kTimeBlocks));
    sample.rows = step.shape.rows;
    sample.padded = r.graphs.padded(step.shape);
    sample.features = step_features(step.shape, sample.padded, 0);
    sample.ms = ms;
    list.push_back(sample);
  };
  for (size_t k = 0; k < r.steps.size(); ++k) {
    const RecordedStep& step = r.steps[k];
    const StepKind kind = r.graphs.kind(step.shape);
    const double launch = step.planned_ms - step.start_ms;
    if (kind == StepKind::kEmpty) {
      add(samples.empty, k, step.out_ms - step.start_ms);
    } else {
      const bool graph = kind == StepKind::kGraph;
      add(graph ? samples.graph_launch : samples.eager_launch, k, launch);
      add(graph ? samples.graph_device : samples.eager_device, k, step.out_ms - step.planned_ms);
    }
    // The loop went on at once; otherwise it slept until the next arrival.
    constexpr double kPromptMs = 5;
    if (k + 1 < r.steps.size() && r.steps[k + 1].start_ms - step.out_ms < kPromptMs) {
      add(samples.gap, k, r.steps[k + 1].start_ms - step.out_ms);
    }
  }
  for (const RecordedStamp& stamp : r.stamps) add(samples.stamp, stamp.step, stamp.after_ms);
}

// A launch that takes several times as long as others was not a launch alone: the engine took in a burst of
// requests, or something else ran.
void drop_stray_launches(StepSamples& samples) {
  constexpr double kStray = 2.5;
  std::vector<double> times;
  for (const StepSample& sample : samples.eager_launch) times.push_back(sample.ms);
  const double limit = kStray * median_of(std::move(times));
  std::erase_if(samples.eager_launch, [limit](const StepSample& s) { return s.ms > limit; });
}

}  // namespace

StepSamples collect_all_samples(const std::vector<StepRecording>& recordings, const StepBundle& bundle) {
  StepSamples samples;
  for (size_t i = 0; i < recordings.size(); ++i) {
    if (recordings[i].depth == 1) {
      collect_serial(recordings[i], i, samples);
    } else {
      Walk(recordings[i], i, bundle, samples).run();
    }
  }
  drop_stray_launches(samples);
  return samples;
}

Result<double> mean_launch_ms(const StepRecording& recording, const StepBundle& bundle) {
  const StepSamples samples = collect_all_samples({recording}, bundle);
  if (samples.eager_launch.size() < kFewestSamples) {
    return refused("{}: only {} of its steps show the host's launch time, {} are needed", recording.dir,
                   samples.eager_launch.size(), kFewestSamples);
  }
  double sum = 0;
  for (const StepSample& sample : samples.eager_launch) sum += sample.ms;
  return sum / static_cast<double>(samples.eager_launch.size());
}

StepBundle first_guess(const std::vector<StepRecording>& recordings) {
  std::vector<double> eager_waits, graph_waits, graph_steps, eager_per_token;
  for (const StepRecording& r : recordings) {
    for (size_t k = 1; k + 1 < r.steps.size(); ++k) {
      const auto kind = [&r](size_t i) { return r.graphs.kind(r.steps[i].shape); };
      const RecordedStep &step = r.steps[k], &next = r.steps[k + 1];
      if (next.start_ms >= step.out_ms) continue;
      const double wait = step.out_ms - next.start_ms;
      if (kind(k + 1) == StepKind::kEager && kind(k) == StepKind::kGraph) eager_waits.push_back(wait);
      if (kind(k + 1) == StepKind::kGraph && kind(k) == StepKind::kEager) graph_waits.push_back(wait);
      if (kind(k) == StepKind::kGraph && kind(k - 1) == StepKind::kGraph && kind(k + 1) == StepKind::kGraph) {
        graph_steps.push_back(step.out_ms - r.steps[k - 1].out_ms);
      }
      if (kind(k) == StepKind::kEager) {
        eager_per_token.push_back((step.out_ms - step.start_ms) * 1e3 /
                                  static_cast<double>(step.shape.tokens));
      }
    }
  }
  const auto or_else = [](double value, double other) { return std::isfinite(value) ? value : other; };
  StepBundle bundle;
  StepHost& host = bundle.host;
  host.eager_launch_ms = or_else(median_of(eager_waits), or_else(median_of(graph_waits), 1));
  host.graph_launch_ms = or_else(quantile_of(graph_waits, 0.25), host.eager_launch_ms / 8);
  host.piecewise_launch_ms = host.eager_launch_ms / 2;
  host.eager_quantiles = {1, 1};
  host.eager_head_ms = 0.13 * host.eager_launch_ms;
  host.eager_tail_ms = host.graph_head_ms = std::min(1.0, host.graph_launch_ms / 3);
  host.output_ms = kOutputMs;
  bundle.graph.terms = {{StepFeature::kConstant, 0, or_else(median_of(graph_steps), 1)}};
  bundle.eager.terms = {{StepFeature::kTokens, 0, or_else(quantile_of(eager_per_token, 0.1), 1)}};
  host.eager_streams = true;
  return bundle;
}

}  // namespace vllm
