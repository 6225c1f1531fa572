// The limits of a recorded run out of its meta.json, in the dialects that docs/formats.md lists.

#include "formats/meta_values.h"
#include "formats/recording.h"

namespace vllm {
namespace {

Status read_scheduler_switches(const MetaValues& meta, const std::string& path, RecordedLimits& limits) {
  VLLM_ASSIGN_OR_RETURN(
      const auto chunked,
      meta.truth({"scheduler.enable_chunked_prefill", "engine_kwargs.enable_chunked_prefill",
                  "resolved_config.scheduler_config.enable_chunked_prefill"}));
  VLLM_ASSIGN_OR_RETURN(const auto caching,
                        meta.truth({"scheduler.enable_prefix_caching", "kv_cache.enable_prefix_caching",
                                    "engine_kwargs.enable_prefix_caching",
                                    "resolved_config.cache_config.enable_prefix_caching"}));
  VLLM_ASSIGN_OR_RETURN(
      const auto reserve,
      meta.truth({"scheduler.scheduler_reserve_full_isl", "engine_kwargs.scheduler_reserve_full_isl",
                  "resolved_config.scheduler_config.scheduler_reserve_full_isl"}));
  VLLM_ASSIGN_OR_RETURN(const auto async,
                        meta.truth({"scheduler.async_scheduling", "engine_kwargs.async_scheduling",
                                    "resolved_config.scheduler_config.async_scheduling"}));
  VLLM_ASSIGN_OR_RETURN(const auto depth, meta.integer({"scheduler.scheduling_depth"}, 1, 2));
  VLLM_ASSIGN_OR_RETURN(const auto watermark, meta.number({"scheduler.watermark", "engine_kwargs.watermark",
                                                           "resolved_config.scheduler_config.watermark"}));
  limits.chunked_prefill = chunked.value_or(true);
  limits.prefix_caching = caching.value_or(true);
  limits.reserve_full_isl = reserve.value_or(true);
  limits.watermark = watermark.value_or(0);
  if (limits.watermark < 0 || limits.watermark >= 1) {
    return bad_input("{}: the watermark is {}, accepted is 0 up to, not including, 1", path,
                     limits.watermark);
  }
  if (depth) limits.scheduling_depth = static_cast<int>(*depth);
  if (!depth && async) limits.scheduling_depth = *async ? 2 : 1;

  std::string place;
  const Json* policy = meta.first(
      {"scheduler.policy", "resolved_config.scheduler_config.policy", "engine_kwargs.scheduling_policy"},
      place);
  if (policy != nullptr) {
    if (*policy != "fcfs" && *policy != "priority") {
      return bad_input("{}: '{}' is {}, fcfs or priority is needed", path, place,
                       printable(policy->dump(-1, ' ', false, Json::error_handler_t::replace)));
    }
    limits.priority_policy = *policy == "priority";
  }
  return Status::ok();
}

}  // namespace

Result<RecordedLimits> recorded_limits(const Json& root, const std::string& path) {
  if (!root.is_object()) return bad_input("{}: is not the meta.json of a recording: not an object", path);
  const MetaValues meta(root, path);
  RecordedLimits limits;
  VLLM_ASSIGN_OR_RETURN(const RecordedCapacity capacity, recorded_capacity(root, path));
  if (capacity.engines.empty()) return bad_input("{}: {}", path, capacity.unknown);
  limits.num_blocks = capacity.engines[0].num_blocks;
  limits.block_size = capacity.engines[0].block_size;
  // The scheduler's own values go before what was asked for.
  VLLM_ASSIGN_OR_RETURN(const auto seqs, meta.integer({"scheduler.max_num_seqs",
                                                       "resolved_config.scheduler_config.max_num_seqs",
                                                       "engine_kwargs.max_num_seqs"},
                                                      1, INT32_MAX));
  VLLM_ASSIGN_OR_RETURN(const auto tokens,
                        meta.integer({"scheduler.max_num_batched_tokens",
                                      "resolved_config.scheduler_config.max_num_batched_tokens",
                                      "engine_kwargs.max_num_batched_tokens"},
                                     1, INT32_MAX));
  VLLM_ASSIGN_OR_RETURN(const auto length,
                        meta.integer({"scheduler.max_model_len", "resolved_config.model_config.max_model_len",
                                      "engine_kwargs.max_model_len"},
                                     1, INT32_MAX));
  VLLM_ASSIGN_OR_RETURN(const auto threshold,
                        meta.integer({"scheduler.long_prefill_token_threshold",
                                      "resolved_config.scheduler_config.long_prefill_token_threshold",
                                      "engine_kwargs.long_prefill_token_threshold"},
                                     0, INT32_MAX));
  if (!seqs) return meta.missing("how many requests could run at once", "engine_kwargs.max_num_seqs");
  if (!tokens)
    return meta.missing("how many tokens a step could have", "engine_kwargs.max_num_batched_tokens");
  limits.max_num_seqs = static_cast<int>(*seqs);
  limits.max_num_batched_tokens = static_cast<int>(*tokens);
  limits.max_model_len = length.value_or(INT32_MAX);
  limits.long_prefill_token_threshold = static_cast<int>(threshold.value_or(0));
  VLLM_RETURN_IF_ERROR(read_scheduler_switches(meta, path, limits));
  return limits;
}

}  // namespace vllm
