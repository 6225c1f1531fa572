// The KV pools of a recorded run's engines out of its meta.json.

#include "formats/meta_values.h"
#include "formats/recording.h"

namespace vllm {
namespace {

Result<int> read_block_size(const Json& root, const Json* engine, const std::string& path) {
  const MetaValues meta(root, path);
  std::optional<int64_t> size;
  if (engine != nullptr) {
    VLLM_ASSIGN_OR_RETURN(size, MetaValues(*engine, path).integer({"block_size"}, 1, 1 << 20));
  }
  if (!size) {
    VLLM_ASSIGN_OR_RETURN(
        size, meta.integer({"kv_cache.block_size", "block_size", "resolved_config.cache_config.block_size",
                            "engine_kwargs.block_size"},
                           1, 1 << 20));
  }
  return static_cast<int>(size.value_or(0));
}

RecordedCapacity unknown(std::string why) { return {{}, std::move(why)}; }

// kv_cache.capacity.per_engine.
Result<RecordedCapacity> read_engines(const Json& root, const Json& engines, const std::string& path) {
  RecordedCapacity out;
  for (const Json& engine : engines) {
    VLLM_ASSIGN_OR_RETURN(const auto blocks,
                          MetaValues(engine, path).integer({"num_gpu_blocks", "num_blocks"}, 1, INT32_MAX));
    VLLM_ASSIGN_OR_RETURN(const int size, read_block_size(root, &engine, path));
    if (!blocks || size == 0) {
      return bad_input("{}: an entry of 'kv_cache.capacity.per_engine' has no {}", path,
                       blocks ? "block_size" : "num_gpu_blocks");
    }
    out.engines.push_back({*blocks, size});
  }
  return out;
}

}  // namespace

Result<RecordedCapacity> recorded_capacity(const Json& root, const std::string& path) {
  if (!root.is_object()) return bad_input("{}: is not the meta.json of a recording: not an object", path);
  const MetaValues meta(root, path);
  const Json* status = find_path(root, "kv_cache.capacity.status");
  if (status != nullptr && *status == "unknown") {
    const Json* reason = find_path(root, "kv_cache.capacity.reason");
    return unknown(fmt::format("the number of blocks is unknown: {}",
                               reason != nullptr && reason->is_string()
                                   ? printable(reason->get_ref<const std::string&>())
                                   : "the recording gives no reason"));
  }
  const Json* engines = find_path(root, "kv_cache.capacity.per_engine");
  if (engines != nullptr && engines->is_array() && !engines->empty())
    return read_engines(root, *engines, path);

  VLLM_ASSIGN_OR_RETURN(const auto blocks, meta.integer({"kv_cache.num_gpu_blocks", "num_gpu_blocks",
                                                         "resolved_config.cache_config.num_gpu_blocks"},
                                                        1, INT32_MAX));
  VLLM_ASSIGN_OR_RETURN(const auto engine_count,
                        meta.integer({"engine_kwargs.data_parallel_size"}, 1, INT32_MAX));
  if (blocks && engine_count.value_or(1) > 1) {
    return unknown(fmt::format(
        "the number of blocks of one engine is unknown: {} blocks are those of {} engines together, "
        "and kv_cache.capacity.per_engine is not there",
        *blocks, *engine_count));
  }
  if (!blocks) {
    return unknown(
        "does not say how many KV blocks the engine had: it should stand in kv_cache.capacity.per_engine, "
        "kv_cache.num_gpu_blocks or num_gpu_blocks");
  }
  VLLM_ASSIGN_OR_RETURN(const int size, read_block_size(root, nullptr, path));
  if (size == 0) {
    return unknown(
        "does not say how many tokens a KV block holds: it should stand in kv_cache.block_size or "
        "block_size");
  }
  return RecordedCapacity{{{*blocks, size}}, ""};
}

}  // namespace vllm
