#pragma once

// What a benchmark drives: an in-process engine, later an HTTP endpoint or the simulator. The bench does not
// know which. Seam 4 of docs/architecture.md.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"

namespace vllm {

struct TargetRequest {
  size_t index = 0;  // the caller's; comes back in every call to the observer
  std::string name;  // "bench-0"
  std::vector<int32_t> prompt;
  int32_t output_tokens = 0;  // exactly so many: eos is ignored, temperature 0
};

// The end of one request. `status` is an error when it was refused or when the target failed on it.
struct TargetEnd {
  Status status;
  EndReason reason = EndReason::kLength;
  int64_t tokens = 0;
  RequestTimes times;
};

// Called on a thread of the target, one call at a time; must not block. For one request: tokens in order,
// then one end. `on_step` comes after the tokens and the ends of its step; a target without steps never calls
// it.
class TargetObserver {
 public:
  virtual ~TargetObserver() = default;
  virtual void on_token(size_t index, TimeNs ready_ns) = 0;
  virtual void on_end(size_t index, const TargetEnd& end) = 0;
  virtual void on_step(const CoreCounters& after, const StepRecord& record) = 0;
};

struct MemoryUse {
  std::string purpose;  // "weights", "kv_cache", "workspace"
  int64_t held_bytes = 0;
  int64_t peak_bytes = 0;
};

class SystemUnderTest {
 public:
  virtual ~SystemUnderTest() = default;

  virtual std::string name() const = 0;  // "in-process"

  // Who hears of requests and steps from now on; null: nobody. Only while nothing lives. Any one thread.
  virtual void observe(TargetObserver* observer) = 0;

  // Hands over one request and returns without waiting for it. An error means that it was not taken: then no
  // call of the observer follows. One thread at a time.
  virtual Status issue(TargetRequest request) = 0;

  // Ends everything that lives; the ends come through the observer. Any thread.
  virtual void abort_all() = 0;

  // Waits until nothing lives, then makes caches, counters and orders those of a fresh start. False: cannot.
  virtual bool reset_for_measurement() = 0;

  // No call of the observer happens after it has returned. The target takes no more requests; facts, counters
  // and memory stay readable.
  virtual void stop() = 0;

  virtual Status health() const = 0;          // any thread
  virtual CoreCounters counters() const = 0;  // any thread
  virtual std::vector<MemoryUse> memory() const = 0;
  // What the target resolved at its start; null when it does not tell.
  virtual const EngineFacts* facts() const = 0;
};

}  // namespace vllm
