#pragma once

// What decides an engine before anything large is loaded: its options with every "auto" of types and threads
// resolved, the model, and the memory facts that headers alone give. Engine::start and --print-plan share it,
// so that they cannot disagree.

#include <cstdint>
#include <memory>

#include "backend/cpu/cpu_executor.h"
#include "backend/device_memory.h"
#include "base/status.h"
#include "config/model_config.h"
#include "config/options.h"
#include "engine/engine.h"
#include "kv/plan.h"
#include "sched/scheduler.h"

namespace vllm {

struct EnginePreparation {
  // As given, with the type resolved: --dtype stays empty only for the weights of a GGUF file, which keep
  // theirs.
  Options options;
  ModelConfig model;
  DType dtype = DType::kBF16;  // of dummy weights, and of computing with unquantised ones
  std::string dtype_name;      // "bfloat16"; "as stored" for a GGUF
  CpuExecutorConfig cpu;
};

// Reads the model's configuration. Refuses what no plan can be made for.
Result<EnginePreparation> prepare_engine(const Options& options);

// Refuses what this build cannot run: other devices, several ranks, a model without a forward, a plan for a
// device that is not here.
Status check_runnable(const EnginePreparation& preparation, const EngineSettings& settings);

// Facts from headers and shapes, nothing measured. `device` is the memory of this machine; --device-memory
// takes its place where it is given.
Result<MemoryFacts> estimate_memory_facts(const EnginePreparation& preparation,
                                          const DeviceMemoryInfo& device);

// Whether --num-blocks or --kv-cache-memory decides: then the plan depends on nothing that is read from the
// machine.
bool has_absolute_knob(const Options& options);

// A plan that cannot be used as an error that people understand: the sentence, then the whole table.
Status plan_error(const PlanResult& result);

SchedulerConfig scheduler_config_of(const EnginePreparation& preparation, const KvPlan& plan);

}  // namespace vllm
