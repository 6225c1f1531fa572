// The reader of safetensors: eight bytes of header length, a JSON header, then the tensors' bytes without a
// gap.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/units.h"
#include "formats/printable.h"
#include "formats/simdjson_no_throw.h"
#include "formats/tensor_file.h"

namespace vllm {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxJsonDepth = 64;
constexpr int64_t kMaxRank = 16;
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

constexpr std::pair<std::string_view, DType> kDTypes[] = {
    {"F64", DType::kF64}, {"F32", DType::kF32},   {"F16", DType::kF16},        {"BF16", DType::kBF16},
    {"I64", DType::kI64}, {"I32", DType::kI32},   {"I16", DType::kI16},        {"I8", DType::kI8},
    {"U8", DType::kU8},   {"BOOL", DType::kBool}, {"F8_E4M3", DType::kF8E4M3}, {"F8_E5M2", DType::kF8E5M2},
};

struct PendingTensor {
  TensorView view;
  uint64_t begin = 0, end = 0;  // in the data section
};

Status header_error(const std::string& path, std::string_view why) {
  return bad_input("{}: has a damaged safetensors header: {}", path, why);
}

std::string tensor_label(std::string_view name) { return fmt::format("tensor '{}'", printable(name)); }

Result<std::vector<int64_t>> read_shape(simdjson::dom::element value, const std::string& path,
                                        std::string_view name) {
  simdjson::dom::array list;
  if (value.get(list))
    return header_error(path, fmt::format("the shape of {} is not a list", tensor_label(name)));
  std::vector<int64_t> shape;
  for (const auto item : list) {
    int64_t size = 0;
    if (item.get(size) || size < 0) {
      return header_error(path,
                          fmt::format("the shape of {} has an entry that is not a size", tensor_label(name)));
    }
    if (static_cast<int64_t>(shape.size()) == kMaxRank) {
      return header_error(path, fmt::format("{} has more than {} dimensions", tensor_label(name), kMaxRank));
    }
    shape.push_back(size);
  }
  return shape;
}

Status read_offsets(simdjson::dom::element value, const std::string& path, PendingTensor& tensor) {
  const auto bad = [&] {
    return header_error(path, fmt::format("data_offsets of {} are not two ascending byte positions",
                                          tensor_label(tensor.view.name)));
  };
  simdjson::dom::array list;
  if (value.get(list)) return bad();
  uint64_t offsets[2] = {0, 0};
  size_t count = 0;
  for (const auto item : list) {
    if (count == 2 || item.get(offsets[count])) return bad();
    ++count;
  }
  if (count != 2 || offsets[0] > offsets[1]) return bad();
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  return Status::ok();
}

Result<PendingTensor> read_tensor(std::string_view name, simdjson::dom::element value,
                                  const std::string& path) {
  PendingTensor tensor;
  tensor.view.name = std::string(name);
  simdjson::dom::object object;
  if (value.get(object)) return header_error(path, fmt::format("{} is not an object", tensor_label(name)));
  std::set<std::string_view> seen;
  for (const auto [key, member] : object) {
    if (!seen.insert(key).second) {
      return header_error(path, fmt::format("{} has the key '{}' twice", tensor_label(name), printable(key)));
    }
    if (key == "dtype") {
      std::string_view text;
      if (member.get(text))
        return header_error(path, fmt::format("the dtype of {} is not a string", tensor_label(name)));
      const auto* known = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                       [&](const auto& d) { return d.first == text; });
      if (known == std::end(kDTypes)) {
        std::string accepted;
        for (const auto& d : kDTypes) accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", d.first);
        return bad_input("{}: {} has dtype '{}', accepted are {}", path, tensor_label(name), printable(text),
                         accepted);
      }
      tensor.view.dtype = known->second;
    } else if (key == "shape") {
      VLLM_ASSIGN_OR_RETURN(tensor.view.shape, read_shape(member, path, name));
    } else if (key == "data_offsets") {
      VLLM_RETURN_IF_ERROR(read_offsets(member, path, tensor));
    } else {
      return header_error(path,
                          fmt::format("{} has the unknown key '{}'", tensor_label(name), printable(key)));
    }
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!seen.contains(key)) return header_error(path, fmt::format("{} has no {}", tensor_label(name), key));
  }
  int64_t elements = 1;
  for (const int64_t size : tensor.view.shape) {
    const auto product = checked_mul(elements, size);
    if (!product)
      return header_error(path,
                          fmt::format("{} has more elements than 63 bits can count", tensor_label(name)));
    elements = *product;
  }
  const auto bytes = dtype_bytes(tensor.view.dtype, elements);
  if (!bytes || static_cast<uint64_t>(*bytes) != tensor.end - tensor.begin) {
    return header_error(
        path, fmt::format("{} has {} elements of {}, but data_offsets span {} bytes", tensor_label(name),
                          elements, dtype_name(tensor.view.dtype), tensor.end - tensor.begin));
  }
  tensor.view.bytes = *bytes;
  return tensor;
}

Status read_metadata(simdjson::dom::element value, const std::string& path, SafetensorsFile& file) {
  simdjson::dom::object object;
  if (value.get(object)) return header_error(path, "__metadata__ is not an object");
  for (const auto [key, member] : object) {
    std::string_view text;
    if (member.get(text)) {
      return header_error(path, fmt::format("__metadata__ '{}' is not a string", printable(key)));
    }
    if (!file.metadata.emplace(std::string(key), std::string(text)).second) {
      return header_error(path, fmt::format("__metadata__ '{}' occurs twice", printable(key)));
    }
  }
  return Status::ok();
}

// The data section must be covered from its first to its last byte, each byte by one tensor.
Status place_tensors(std::vector<PendingTensor>& tensors, std::span<const std::byte> data,
                     const std::string& path, SafetensorsFile& file) {
  const uint64_t data_bytes = data.size();
  std::sort(tensors.begin(), tensors.end(), [](const PendingTensor& a, const PendingTensor& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t covered = 0;
  for (PendingTensor& t : tensors) {
    const std::string label = tensor_label(t.view.name);
    if (t.end > data_bytes) {
      return bad_input("{}: is truncated or damaged: {} ends at byte {} of the data, which has {}", path,
                       label, t.end, data_bytes);
    }
    if (t.begin < covered) return header_error(path, fmt::format("{} overlaps the tensor before it", label));
    if (t.begin > covered) {
      return header_error(path,
                          fmt::format("{} bytes before {} belong to no tensor", t.begin - covered, label));
    }
    covered = t.end;
    t.view.data = t.view.bytes == 0 ? nullptr : data.data() + t.begin;
    const std::string name = t.view.name;
    if (!file.tensors.emplace(name, std::move(t.view)).second) {
      return header_error(path, fmt::format("{} occurs twice", label));
    }
  }
  if (covered != data_bytes) {
    return header_error(path,
                        fmt::format("{} bytes after the last tensor belong to none", data_bytes - covered));
  }
  return Status::ok();
}

// A shard's name in an index must be the plain name of a file beside it.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

// tensor -> shard, as the index says.
Result<std::map<std::string, std::string>> read_index(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(const std::string text, read_file(path, static_cast<int64_t>(kMaxHeaderBytes)));
  const auto bad = [&](std::string_view why) {
    return bad_input("{}: is not an index of shards: {}", path, why);
  };
  simdjson::dom::parser parser;
  if (parser.allocate(text.size() + 1, kMaxJsonDepth)) return bad("it is too large");
  simdjson::dom::element root;
  if (const auto error = parser.parse(text).get(root)) return bad(simdjson::error_message(error));
  simdjson::dom::object weight_map;
  if (root["weight_map"].get(weight_map)) return bad("it has no object weight_map");
  std::map<std::string, std::string> shard_of;
  for (const auto [name, value] : weight_map) {
    std::string_view shard;
    if (value.get(shard)) return bad(fmt::format("the shard of {} is not a string", tensor_label(name)));
    if (!is_plain_file_name(shard)) {
      return bad(fmt::format("the shard '{}' of {} is not the plain name of a file in the same folder",
                             printable(shard), tensor_label(name)));
    }
    if (!shard_of.emplace(std::string(name), std::string(shard)).second) {
      return bad(fmt::format("{} occurs twice", tensor_label(name)));
    }
  }
  if (shard_of.empty()) return bad("weight_map is empty");
  return shard_of;
}

Result<SafetensorsCheckpoint> read_indexed(const std::string& dir, const std::string& index_path) {
  VLLM_ASSIGN_OR_RETURN(const auto shard_of, read_index(index_path));
  std::map<std::string, size_t> shard_index;
  SafetensorsCheckpoint out;
  for (const auto& [name, shard] : shard_of) {
    const auto [it, is_new] = shard_index.emplace(shard, out.shards.size());
    if (is_new) {
      VLLM_ASSIGN_OR_RETURN(SafetensorsFile file, read_safetensors(join_path(dir, shard)));
      out.shards.push_back(std::move(file));
    }
    const auto& tensors = out.shards[it->second].tensors;
    const auto tensor = tensors.find(name);
    if (tensor == tensors.end()) {
      return bad_input("{}: puts {} into {}, which does not have it", index_path, tensor_label(name),
                       printable(shard));
    }
    out.tensors.emplace(name, tensor->second);
  }
  return out;
}

}  // namespace

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, const std::string& path) {
  SafetensorsFile file;
  const size_t size = bytes.size();
  if (size < 8) return bad_input("{}: is truncated: {} bytes are too few for a safetensors file", path, size);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > kMaxHeaderBytes) {
    return bad_input(
        "{}: is not a safetensors file or damaged: its header would have {} bytes, at most {} are accepted",
        path, header_bytes, kMaxHeaderBytes);
  }
  if (header_bytes > size - 8) {
    return bad_input("{}: is truncated: its header has {} bytes, {} follow", path, header_bytes, size - 8);
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data() + 8);
  if (header_bytes == 0 || text[0] != '{') return header_error(path, "it does not begin with '{'");

  simdjson::dom::parser parser;
  // simdjson reads beyond the end of what it parses, so that the header is copied into a padded buffer.
  const simdjson::padded_string header(text, static_cast<size_t>(header_bytes));
  if (parser.allocate(header.size(), kMaxJsonDepth)) return header_error(path, "it is too large");
  simdjson::dom::object root;
  if (const auto error = parser.parse(header).get(root))
    return header_error(path, simdjson::error_message(error));
  std::vector<PendingTensor> tensors;
  bool has_metadata = false;
  for (const auto [name, value] : root) {
    if (name == "__metadata__") {
      if (std::exchange(has_metadata, true)) return header_error(path, "__metadata__ occurs twice");
      VLLM_RETURN_IF_ERROR(read_metadata(value, path, file));
      continue;
    }
    VLLM_ASSIGN_OR_RETURN(PendingTensor tensor, read_tensor(name, value, path));
    tensors.push_back(std::move(tensor));
  }
  VLLM_RETURN_IF_ERROR(
      place_tensors(tensors, bytes.subspan(8 + static_cast<size_t>(header_bytes)), path, file));
  return file;
}

Result<SafetensorsFile> read_safetensors(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  auto mapping = std::make_shared<const MappedFile>(std::move(mapped));
  VLLM_ASSIGN_OR_RETURN(SafetensorsFile file, parse_safetensors({mapping->data(), mapping->size()}, path));
  file.mapping = std::move(mapping);
  return file;
}

Result<SafetensorsCheckpoint> read_safetensors_checkpoint(const std::string& dir) {
  if (!is_directory(dir)) return bad_input("{}: is not a folder with safetensors files", dir);
  std::vector<std::string> paths;
  const std::string single = join_path(dir, kSingleName);
  const std::string index = join_path(dir, kIndexName);
  if (file_exists(single)) {
    paths.push_back(single);
  } else if (file_exists(index)) {
    return read_indexed(dir, index);
  } else {
    std::error_code error;
    for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".safetensors") paths.push_back(it->path().string());
    }
    if (error) return bad_input("{}: cannot be read ({})", dir, error.message());
    std::sort(paths.begin(), paths.end());
  }
  if (paths.empty()) {
    return bad_input("{}: has no weights: neither {}, nor {}, nor any *.safetensors", dir, kSingleName,
                     kIndexName);
  }
  SafetensorsCheckpoint out;
  for (const std::string& path : paths) {
    VLLM_ASSIGN_OR_RETURN(SafetensorsFile file, read_safetensors(path));
    for (const auto& [name, view] : file.tensors) {
      if (!out.tensors.emplace(name, view).second) {
        return bad_input("{}: has {}, which another file of the folder has too", path, tensor_label(name));
      }
    }
    out.shards.push_back(std::move(file));
  }
  return out;
}

}  // namespace vllm
