#include "model/weights.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/units.h"
#include "formats/tensor_file.h"
#include "model/dummy_weights.h"
#include "model/parameter_table.h"

namespace vllm {
namespace {

constexpr const char* kAcceptedTypes = "float32, float16, bfloat16, Q8_0 and Q4_1";

bool can_compute_with(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 || type == DType::kQ8_0 ||
         type == DType::kQ4_1;
}

bool is_plain_float(DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; }

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// The tensors of a file or of a folder of shards, and which of them were asked for.
class TensorSource {
 public:
  explicit TensorSource(GgufFile file)
      : is_gguf_(true), gguf_(std::make_shared<GgufFile>(std::move(file))), tensors_(&gguf_->tensors) {}
  TensorSource(std::string dir, SafetensorsCheckpoint checkpoint)
      : dir_(std::move(dir)),
        checkpoint_(std::make_shared<SafetensorsCheckpoint>(std::move(checkpoint))),
        tensors_(&checkpoint_->tensors) {}

  bool is_gguf() const { return is_gguf_; }
  const std::map<std::string, TensorView>& tensors() const { return *tensors_; }
  std::shared_ptr<void> owner() const { return is_gguf_ ? std::shared_ptr<void>(gguf_) : checkpoint_; }

  const TensorView* find(const std::string& name) {
    const auto found = tensors_->find(name);
    if (found == tensors_->end()) return nullptr;
    used_.insert(name);
    return &found->second;
  }
  bool was_used(const std::string& name) const { return used_.contains(name); }

  // The file that holds the tensor; without a name, the whole source.
  std::string file_of(const std::string& name = {}) const {
    if (is_gguf_) return gguf_->mapping->path();
    for (const SafetensorsFile& shard : checkpoint_->shards) {
      if (shard.tensors.contains(name)) return shard.mapping->path();
    }
    return dir_;
  }

 private:
  bool is_gguf_ = false;
  std::string dir_;
  std::shared_ptr<GgufFile> gguf_;
  std::shared_ptr<SafetensorsCheckpoint> checkpoint_;
  const std::map<std::string, TensorView>* tensors_;
  std::set<std::string> used_;
};

std::string checkpoint_dir(const std::string& model_path) {
  if (is_directory(model_path)) return model_path;
  const size_t slash = model_path.rfind('/');  // a config.json: its weights lie beside it
  return slash == std::string::npos ? "." : model_path.substr(0, std::max<size_t>(slash, 1));
}

Result<TensorSource> open_source(const std::string& model_path) {
  if (is_gguf_path(model_path)) {
    VLLM_ASSIGN_OR_RETURN(GgufFile file, read_gguf(model_path));
    return TensorSource(std::move(file));
  }
  const std::string dir = checkpoint_dir(model_path);
  VLLM_ASSIGN_OR_RETURN(SafetensorsCheckpoint checkpoint, read_safetensors_checkpoint(dir));
  return TensorSource(dir, std::move(checkpoint));
}

std::vector<int64_t> wanted_shape(const ParameterSpec& spec) {
  return spec.vector ? std::vector<int64_t>{spec.cols} : std::vector<int64_t>{spec.rows, spec.cols};
}

Status read_parameter(TensorSource& source, const ParameterSpec& spec, const ModelConfig& model) {
  const std::string& name = source.is_gguf() ? spec.gguf_name : spec.hf_name;
  const TensorView* view = source.find(name);
  if (view == nullptr) {
    if (spec.optional) return Status::ok();
    return bad_input("'{}' has no tensor '{}', which the model described by '{}' needs with shape {}",
                     source.file_of(), name, model.source, shape_text(wanted_shape(spec)));
  }
  if (view->shape != wanted_shape(spec)) {
    return bad_input("'{}': tensor '{}' has shape {}, but the model described by '{}' needs {}",
                     source.file_of(name), name, shape_text(view->shape), model.source,
                     shape_text(wanted_shape(spec)));
  }
  if (spec.vector && !is_plain_float(view->dtype)) {
    return refused(
        "'{}': tensor '{}' has type {}, but norms and biases are accepted in float32, float16 and bfloat16",
        source.file_of(name), name, dtype_name(view->dtype));
  }
  if (!can_compute_with(view->dtype)) {
    return refused("'{}': tensor '{}' has type {}, which this build cannot compute with; accepted are {}",
                   source.file_of(name), name, dtype_name(view->dtype), kAcceptedTypes);
  }
  const auto row_bytes = dtype_bytes(view->dtype, spec.cols);
  if (!row_bytes || view->bytes != *row_bytes * spec.rows) {
    return bad_input(
        "'{}': a row of tensor '{}' has {} elements, which do not fill whole blocks of {} of type {}",
        source.file_of(name), name, spec.cols, dtype_block_elements(view->dtype), dtype_name(view->dtype));
  }
  *spec.target = {.name = name,
                  .dtype = view->dtype,
                  .rows = spec.rows,
                  .cols = spec.cols,
                  .data = view->data,
                  .row_bytes = *row_bytes};
  return Status::ok();
}

// A tensor that no parameter uses would make the result silently wrong, except for those that carry nothing.
Status check_all_used(const TensorSource& source, const ModelConfig& model) {
  for (const auto& [name, view] : source.tensors()) {
    if (source.was_used(name)) continue;
    if (name.ends_with("rotary_emb.inv_freq")) continue;
    if (model.tie_word_embeddings && name == "lm_head.weight") continue;
    return bad_input("'{}': tensor '{}' of shape {} has no place in the model described by '{}' ({})",
                     source.file_of(name), name, shape_text(view.shape), model.source, model.architecture);
  }
  return Status::ok();
}

int64_t rotated_pairs(const ModelConfig& model) {
  return static_cast<int64_t>(static_cast<double>(model.head_dim) * model.rope.partial_rotary_factor) / 2;
}

Result<ModelWeights> read_weights(TensorSource source, const ModelConfig& model) {
  ModelWeights weights;
  std::vector<ParameterSpec> specs = list_parameters(model, weights);
  if (source.is_gguf()) {
    // A GGUF is tied exactly when it has no output matrix; and it may bring the llama3 scaling along as a
    // tensor.
    if (model.tie_word_embeddings && source.tensors().contains("output.weight")) {
      specs.push_back({.gguf_name = "output.weight",
                       .hf_name = {},
                       .target = &weights.head,
                       .rows = model.vocab_size,
                       .cols = model.hidden_size});
    }
    specs.push_back({.gguf_name = "rope_freqs.weight",
                     .hf_name = {},
                     .target = &weights.rope_divisors,
                     .cols = rotated_pairs(model),
                     .vector = true,
                     .optional = true});
  }
  for (const ParameterSpec& spec : specs) {
    VLLM_RETURN_IF_ERROR(read_parameter(source, spec, model));
    weights.total_bytes += spec.target->rows * spec.target->row_bytes;
  }
  VLLM_RETURN_IF_ERROR(check_all_used(source, model));
  if (weights.head.data == nullptr) weights.head = weights.embedding;
  weights.owner = source.owner();
  return weights;
}

Status check_family(const ModelConfig& model) {
  if (!model.runnable) return refused("{}", model.not_runnable_reason);
  const bool moe =
      std::any_of(model.layers.begin(), model.layers.end(), [](const LayerConfig& l) { return l.moe; });
  const bool other_state = std::any_of(model.layers.begin(), model.layers.end(), [](const LayerConfig& l) {
    return l.kind != LayerKind::kFull && l.kind != LayerKind::kSliding;
  });
  if (moe || other_state || model.post_norms || model.norm_plus_one) {
    return refused("'{}' describes a {}, whose parameters this build cannot load: it runs the Llama family",
                   model.source, model.architecture);
  }
  return Status::ok();
}

Result<int64_t> bytes_from_shapes(const ModelConfig& model, DType dtype) {
  const auto bytes = dtype_bytes(dtype, model.num_parameters());
  if (!bytes) return bad_input("'{}' describes a model whose weights exceed 2^63 bytes", model.source);
  return *bytes;
}

// A folder with a configuration alone can be planned for; loading it is an error of its own.
bool has_weight_files(const std::string& dir) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(dir, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) return true;
  }
  return false;
}

}  // namespace

Result<ModelWeights> load_weights(const std::string& model_path, const ModelConfig& model, LoadFormat format,
                                  DType dtype, int64_t seed) {
  VLLM_RETURN_IF_ERROR(check_family(model));
  if (format == LoadFormat::kDummy) return make_dummy_weights(model, dtype, seed);
  VLLM_ASSIGN_OR_RETURN(TensorSource source, open_source(model_path));
  return read_weights(std::move(source), model);
}

Result<int64_t> estimate_weights_bytes(const std::string& model_path, const ModelConfig& model,
                                       LoadFormat format, DType dtype, int tensor_parallel_size) {
  const int64_t ranks = std::max(tensor_parallel_size, 1);
  int64_t total = 0;
  if (format == LoadFormat::kDummy ||
      (!is_gguf_path(model_path) && !has_weight_files(checkpoint_dir(model_path)))) {
    VLLM_ASSIGN_OR_RETURN(total, bytes_from_shapes(model, dtype));
  } else {
    VLLM_ASSIGN_OR_RETURN(TensorSource source, open_source(model_path));
    for (const auto& [name, view] : source.tensors()) {
      const auto sum = checked_add(total, view.bytes);
      if (!sum) return bad_input("'{}' describes tensors that exceed 2^63 bytes", source.file_of(name));
      total = *sum;
    }
  }
  return ceil_div(total, ranks);
}

}  // namespace vllm
