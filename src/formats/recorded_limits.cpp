// The limits of a recorded run out of its meta.json, in the dialects that docs/formats.md lists.

#include <charconv>
#include <cmath>

#include "formats/json.h"
#include "formats/printable.h"
#include "formats/recording.h"

namespace vllm {
namespace {

const Json* find(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// "a.b.c"; nullptr when a step is absent or null.
const Json* find_path(const Json& root, std::string_view path) {
  const Json* at = &root;
  while (at != nullptr && !path.empty()) {
    const size_t dot = path.find('.');
    at = find(*at, path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return at;
}

// Values are typed, or text as Python prints them ("128", "True", "0.0", "None").
class Meta {
 public:
  Meta(const Json& root, const std::string& path) : root_(root), path_(path) {}

  // The first place that says anything.
  const Json* first(std::initializer_list<std::string_view> places, std::string& found) const {
    for (const std::string_view place : places) {
      const Json* value = find_path(root_, place);
      if (value == nullptr || (value->is_string() && value->get_ref<const std::string&>() == "None"))
        continue;
      found = std::string(place);
      return value;
    }
    return nullptr;
  }

  Result<std::optional<double>> number(std::initializer_list<std::string_view> places) const {
    std::string place;
    const Json* value = first(places, place);
    if (value == nullptr) return std::optional<double>();
    double number = NAN;
    if (value->is_number()) {
      number = value->get<double>();
    } else if (value->is_string()) {
      const auto& text = value->get_ref<const std::string&>();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) number = NAN;
    }
    if (!std::isfinite(number)) return wrong(place, *value, "a number");
    return std::optional(number);
  }

  Result<std::optional<int64_t>> integer(std::initializer_list<std::string_view> places, int64_t low,
                                         int64_t high) const {
    VLLM_ASSIGN_OR_RETURN(const auto value, number(places));
    if (!value) return std::optional<int64_t>();
    std::string place;
    const Json* json = first(places, place);
    if (*value != std::floor(*value) || *value < static_cast<double>(low) ||
        *value > static_cast<double>(high)) {
      return wrong(place, *json, fmt::format("a whole number from {} to {}", low, high));
    }
    return std::optional(static_cast<int64_t>(*value));
  }

  Result<std::optional<bool>> truth(std::initializer_list<std::string_view> places) const {
    std::string place;
    const Json* value = first(places, place);
    if (value == nullptr) return std::optional<bool>();
    if (value->is_boolean()) return std::optional(value->get<bool>());
    if (value->is_string()) {
      const auto& text = value->get_ref<const std::string&>();
      if (text == "True" || text == "true") return std::optional(true);
      if (text == "False" || text == "false") return std::optional(false);
    }
    return wrong(place, *value, "true or false");
  }

  Status missing(std::string_view what, std::string_view places) const {
    return bad_input("{}: does not say {}: it should stand in {}", path_, what, places);
  }

 private:
  Status wrong(const std::string& place, const Json& value, std::string_view accepted) const {
    return bad_input("{}: '{}' is {}, {} is needed", path_, place,
                     printable(value.dump(-1, ' ', false, Json::error_handler_t::replace)), accepted);
  }

  const Json& root_;
  const std::string& path_;
};

// Per engine, where the recording says so: the scalars of kv_cache are sums over data-parallel engines.
Status read_blocks(const Json& root, const Meta& meta, const std::string& path, RecordedLimits& limits) {
  const Json* status = find_path(root, "kv_cache.capacity.status");
  const Json* engines = find_path(root, "kv_cache.capacity.per_engine");
  const bool per_engine = engines != nullptr && engines->is_array() && !engines->empty();
  if (status != nullptr && *status == "unknown") {
    const Json* reason = find_path(root, "kv_cache.capacity.reason");
    return bad_input("{}: the number of blocks is unknown: {}", path,
                     reason != nullptr && reason->is_string()
                         ? printable(reason->get_ref<const std::string&>())
                         : "the recording gives no reason");
  }
  std::optional<int64_t> blocks, size;
  if (per_engine) {
    const Meta engine((*engines)[0], path);
    VLLM_ASSIGN_OR_RETURN(blocks, engine.integer({"num_gpu_blocks", "num_blocks"}, 1, INT32_MAX));
    VLLM_ASSIGN_OR_RETURN(size, engine.integer({"block_size"}, 1, 1 << 20));
  } else {
    VLLM_ASSIGN_OR_RETURN(blocks, meta.integer({"kv_cache.num_gpu_blocks", "num_gpu_blocks",
                                                "resolved_config.cache_config.num_gpu_blocks"},
                                               1, INT32_MAX));
    VLLM_ASSIGN_OR_RETURN(const auto engine_count,
                          meta.integer({"engine_kwargs.data_parallel_size"}, 1, INT32_MAX));
    if (blocks && engine_count.value_or(1) > 1) {
      return bad_input(
          "{}: the number of blocks of one engine is unknown: {} blocks are those of {} engines together, "
          "and kv_cache.capacity.per_engine is not there",
          path, *blocks, *engine_count);
    }
  }
  if (!size) {
    VLLM_ASSIGN_OR_RETURN(
        size, meta.integer({"kv_cache.block_size", "block_size", "resolved_config.cache_config.block_size",
                            "engine_kwargs.block_size"},
                           1, 1 << 20));
  }
  if (!blocks) {
    return meta.missing("how many KV blocks the engine had",
                        "kv_cache.capacity.per_engine, kv_cache.num_gpu_blocks or num_gpu_blocks");
  }
  if (!size) return meta.missing("how many tokens a KV block holds", "kv_cache.block_size or block_size");
  limits.num_blocks = *blocks;
  limits.block_size = static_cast<int>(*size);
  return Status::ok();
}

Status read_scheduler_switches(const Meta& meta, const std::string& path, RecordedLimits& limits) {
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
  const Meta meta(root, path);
  RecordedLimits limits;
  VLLM_RETURN_IF_ERROR(read_blocks(root, meta, path, limits));
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
