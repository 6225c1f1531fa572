// The reader of GGUF, versions 2 and 3, little endian. Every number in the file is hostile until it was
// compared with the file's size; only then is memory reserved by it.

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>

#include "base/units.h"
#include "formats/printable.h"
#include "formats/tensor_file.h"

static_assert(std::endian::native == std::endian::little,
              "the readers copy little-endian numbers as they are");

namespace vllm {
namespace {

constexpr uint64_t kMaxNameBytes = 65535;
constexpr int64_t kDefaultAlignment = 32;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxTensors = uint64_t{1} << 20;
constexpr uint64_t kMaxMetadataEntries = 65536;
// Vocabularies have less than a million entries. An entry takes up to 32 times the memory that it has in the
// file, so that without a limit a damaged length makes a large file fill the machine.
constexpr uint64_t kMaxArrayElements = uint64_t{1} << 22;
constexpr uint64_t kMaxMetadataBytes = uint64_t{64} << 20;
// The least that one entry takes in the file: they bound the counts of the header.
constexpr uint64_t kMinMetadataBytes = 8 + 4 + 1;    // empty key, type, one byte
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;  // empty name, rank 0, type, offset

enum GgufType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

struct GgmlType {
  uint32_t id;
  const char* name;
  std::optional<DType> dtype;  // empty: known by name, not supported
};

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", DType::kF32},      {1, "F16", DType::kF16},       {2, "Q4_0", DType::kQ4_0},
    {3, "Q4_1", DType::kQ4_1},    {6, "Q5_0", DType::kQ5_0},     {7, "Q5_1", DType::kQ5_1},
    {8, "Q8_0", DType::kQ8_0},    {9, "Q8_1", std::nullopt},     {10, "Q2_K", DType::kQ2_K},
    {11, "Q3_K", DType::kQ3_K},   {12, "Q4_K", DType::kQ4_K},    {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K},   {15, "Q8_K", DType::kQ8_K},    {16, "IQ2_XXS", std::nullopt},
    {17, "IQ2_XS", std::nullopt}, {18, "IQ3_XXS", std::nullopt}, {19, "IQ1_S", std::nullopt},
    {20, "IQ4_NL", std::nullopt}, {21, "IQ3_S", std::nullopt},   {22, "IQ2_S", std::nullopt},
    {23, "IQ4_XS", std::nullopt}, {24, "I8", DType::kI8},        {25, "I16", DType::kI16},
    {26, "I32", DType::kI32},     {27, "I64", DType::kI64},      {28, "F64", DType::kF64},
    {29, "IQ1_M", std::nullopt},  {30, "BF16", DType::kBF16},    {34, "TQ1_0", std::nullopt},
    {35, "TQ2_0", std::nullopt},  {39, "MXFP4", std::nullopt},
};

Status unsupported_type(const std::string& where, uint32_t id) {
  std::string name = "unknown", supported;
  for (const GgmlType& t : kGgmlTypes) {
    if (t.id == id) name = t.name;
    if (t.dtype) supported += fmt::format("{}{}", supported.empty() ? "" : ", ", t.name);
  }
  return bad_input("{} has type {} ({}), supported are {}", where, id, name, supported);
}

// Walks over the bytes before the tensor data. A read beyond the end fails and says what was being read.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  size_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  Result<T> read(std::string_view what) {
    if (remaining() < sizeof(T)) return ends_inside(what);
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  Result<std::string_view> read_string(std::string_view what, uint64_t limit) {
    VLLM_ASSIGN_OR_RETURN(const uint64_t length, read<uint64_t>(what));
    if (length > remaining()) {
      return bad_input("{}: {} has a length of {} bytes at offset {}, the file ends {} bytes later", path_,
                       what, length, position_ - 8, remaining());
    }
    if (length > limit) {
      return bad_input("{}: {} has a length of {} bytes, at most {} are accepted", path_, what, length,
                       limit);
    }
    const auto* text = reinterpret_cast<const char*>(bytes_.data() + position_);
    position_ += static_cast<size_t>(length);
    return std::string_view(text, static_cast<size_t>(length));
  }

  // An error unless `count` items of at least `item_bytes` can still follow.
  Status check_count(std::string_view what, uint64_t count, uint64_t item_bytes) const {
    if (count <= remaining() / item_bytes) return Status::ok();
    return bad_input("{}: {} is {}, but only {} bytes follow", path_, what, count, remaining());
  }

  // The metadata is copied, so that it has a size of its own that may not be passed.
  Status check_metadata_bytes(std::string_view what) const {
    if (position_ <= kMaxMetadataBytes) return Status::ok();
    return bad_input("{}: the metadata up to {} has more than the {} bytes that are accepted", path_, what,
                     kMaxMetadataBytes);
  }

  Status ends_inside(std::string_view what) const {
    return bad_input("{}: is truncated: the file ends at byte {}, inside {}", path_, bytes_.size(), what);
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
  size_t position_ = 0;
};

Status check_array_length(const Cursor& in, std::string_view what, uint64_t count, uint64_t item_bytes,
                          const std::string& path) {
  VLLM_RETURN_IF_ERROR(in.check_count(fmt::format("the length of {}", what), count, item_bytes));
  if (count <= kMaxArrayElements) return Status::ok();
  return bad_input("{}: {} is an array of {} elements, at most {} are accepted", path, what, count,
                   kMaxArrayElements);
}

template <typename T>
Result<GgufValue> read_number_array(Cursor& in, uint64_t count, std::string_view what,
                                    const std::string& path) {
  VLLM_RETURN_IF_ERROR(check_array_length(in, what, count, sizeof(T), path));
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  std::vector<Wide> values;
  values.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    VLLM_ASSIGN_OR_RETURN(const T value, in.read<T>(what));
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (value > static_cast<uint64_t>(INT64_MAX)) {
        return bad_input("{}: {} holds {}, at most {} is accepted", path, what, value, INT64_MAX);
      }
    }
    values.push_back(static_cast<Wide>(value));
  }
  return GgufValue(std::move(values));
}

Result<GgufValue> read_array(Cursor& in, std::string_view what, const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(const uint32_t type, in.read<uint32_t>(what));
  VLLM_ASSIGN_OR_RETURN(const uint64_t count, in.read<uint64_t>(what));
  switch (type) {
    case kUint8:
    case kBool:
      return read_number_array<uint8_t>(in, count, what, path);
    case kInt8:
      return read_number_array<int8_t>(in, count, what, path);
    case kUint16:
      return read_number_array<uint16_t>(in, count, what, path);
    case kInt16:
      return read_number_array<int16_t>(in, count, what, path);
    case kUint32:
      return read_number_array<uint32_t>(in, count, what, path);
    case kInt32:
      return read_number_array<int32_t>(in, count, what, path);
    case kUint64:
      return read_number_array<uint64_t>(in, count, what, path);
    case kInt64:
      return read_number_array<int64_t>(in, count, what, path);
    case kFloat32:
      return read_number_array<float>(in, count, what, path);
    case kFloat64:
      return read_number_array<double>(in, count, what, path);
    case kString: {
      VLLM_RETURN_IF_ERROR(check_array_length(in, what, count, 8, path));
      std::vector<std::string> values;
      values.reserve(static_cast<size_t>(count));
      for (uint64_t i = 0; i < count; ++i) {
        VLLM_ASSIGN_OR_RETURN(const std::string_view text, in.read_string(what, kMaxMetadataBytes));
        VLLM_RETURN_IF_ERROR(in.check_metadata_bytes(what));
        values.emplace_back(text);
      }
      return GgufValue(std::move(values));
    }
    case kArray:
      return bad_input("{}: {} is an array of arrays, which is not supported", path, what);
    default:
      return bad_input("{}: {} is an array of type {}, known are 0 to 12", path, what, type);
  }
}

Result<GgufValue> read_value(Cursor& in, uint32_t type, std::string_view what, const std::string& path) {
  const auto integer = [&]<typename T>(T) -> Result<GgufValue> {
    VLLM_ASSIGN_OR_RETURN(const T value, in.read<T>(what));
    return GgufValue(static_cast<int64_t>(value));
  };
  switch (type) {
    case kUint8:
      return integer(uint8_t{});
    case kInt8:
      return integer(int8_t{});
    case kUint16:
      return integer(uint16_t{});
    case kInt16:
      return integer(int16_t{});
    case kUint32:
      return integer(uint32_t{});
    case kInt32:
      return integer(int32_t{});
    case kInt64:
      return integer(int64_t{});
    case kUint64: {
      VLLM_ASSIGN_OR_RETURN(const uint64_t value, in.read<uint64_t>(what));
      return GgufValue(value);
    }
    case kFloat32: {
      VLLM_ASSIGN_OR_RETURN(const float value, in.read<float>(what));
      return GgufValue(static_cast<double>(value));
    }
    case kFloat64: {
      VLLM_ASSIGN_OR_RETURN(const double value, in.read<double>(what));
      return GgufValue(value);
    }
    case kBool: {
      VLLM_ASSIGN_OR_RETURN(const uint8_t value, in.read<uint8_t>(what));
      if (value > 1)
        return bad_input("{}: {} is a truth value of {}, accepted are 0 and 1", path, what, value);
      return GgufValue(value == 1);
    }
    case kString: {
      VLLM_ASSIGN_OR_RETURN(const std::string_view text, in.read_string(what, kMaxMetadataBytes));
      return GgufValue(std::string(text));
    }
    case kArray:
      return read_array(in, what, path);
    default:
      return bad_input("{}: {} has type {}, known are 0 to 12", path, what, type);
  }
}

Status read_metadata(Cursor& in, uint64_t count, const std::string& path, GgufFile& file) {
  for (uint64_t i = 0; i < count; ++i) {
    VLLM_ASSIGN_OR_RETURN(const std::string_view key, in.read_string("a metadata key", kMaxNameBytes));
    const std::string what = fmt::format("metadata '{}'", printable(key));
    VLLM_ASSIGN_OR_RETURN(const uint32_t type, in.read<uint32_t>(what));
    VLLM_ASSIGN_OR_RETURN(GgufValue value, read_value(in, type, what, path));
    if (!file.metadata.emplace(std::string(key), std::move(value)).second) {
      return bad_input("{}: {} occurs twice", path, what);
    }
    VLLM_RETURN_IF_ERROR(in.check_metadata_bytes(what));
  }
  return Status::ok();
}

struct PendingTensor {
  TensorView view;
  uint64_t offset = 0;  // from the start of the data section
};

Result<PendingTensor> read_tensor_info(Cursor& in, const std::string& path) {
  PendingTensor tensor;
  VLLM_ASSIGN_OR_RETURN(const std::string_view name, in.read_string("a tensor's name", kMaxNameBytes));
  tensor.view.name = std::string(name);
  const std::string what = fmt::format("tensor '{}'", printable(name));
  VLLM_ASSIGN_OR_RETURN(const uint32_t rank, in.read<uint32_t>(what));
  if (rank > kMaxDims)
    return bad_input("{}: {} has {} dimensions, at most {} are accepted", path, what, rank, kMaxDims);
  int64_t elements = 1;
  for (uint32_t d = 0; d < rank; ++d) {
    VLLM_ASSIGN_OR_RETURN(const uint64_t size, in.read<uint64_t>(what));
    const auto product = size > static_cast<uint64_t>(INT64_MAX)
                             ? std::nullopt
                             : checked_mul(elements, static_cast<int64_t>(size));
    if (!product) return bad_input("{}: {} has more elements than 63 bits can count", path, what);
    elements = *product;
    tensor.view.shape.push_back(static_cast<int64_t>(size));
  }
  VLLM_ASSIGN_OR_RETURN(const uint32_t type, in.read<uint32_t>(what));
  const auto* known = std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes),
                                   [&](const GgmlType& t) { return t.id == type && t.dtype; });
  if (known == std::end(kGgmlTypes)) return unsupported_type(fmt::format("{}: {}", path, what), type);
  tensor.view.dtype = *known->dtype;
  VLLM_ASSIGN_OR_RETURN(tensor.offset, in.read<uint64_t>(what));

  const int64_t row = rank == 0 ? 1 : tensor.view.shape[0];
  if (row % dtype_block_elements(tensor.view.dtype) != 0) {
    return bad_input("{}: {} has rows of {} elements, {} needs multiples of {}", path, what, row, known->name,
                     dtype_block_elements(tensor.view.dtype));
  }
  const auto bytes = dtype_bytes(tensor.view.dtype, elements);
  if (!bytes) return bad_input("{}: {} has more bytes than 63 bits can count", path, what);
  tensor.view.bytes = *bytes;
  // The file has the fastest dimension first.
  std::reverse(tensor.view.shape.begin(), tensor.view.shape.end());
  return tensor;
}

Result<uint64_t> alignment_of(const GgufFile& file, const std::string& path) {
  const auto it = file.metadata.find("general.alignment");
  if (it == file.metadata.end()) return static_cast<uint64_t>(kDefaultAlignment);
  const auto value = file.integer("general.alignment");
  if (!value || *value < 8 || *value > (1 << 20) || !std::has_single_bit(static_cast<uint64_t>(*value))) {
    return bad_input("{}: general.alignment must be a power of two from 8 to 1048576", path);
  }
  return static_cast<uint64_t>(*value);
}

// Places every tensor into the data section; none may reach beyond it or into another.
Status place_tensors(std::vector<PendingTensor>& tensors, std::span<const std::byte> bytes,
                     uint64_t data_start, uint64_t alignment, const std::string& path, GgufFile& file) {
  const uint64_t data_bytes = bytes.size() > data_start ? bytes.size() - data_start : 0;
  for (PendingTensor& t : tensors) {
    const std::string name = printable(t.view.name);
    if (t.offset % alignment != 0) {
      return bad_input("{}: tensor '{}' starts at offset {}, which is not a multiple of the alignment {}",
                       path, name, t.offset, alignment);
    }
    const auto size = static_cast<uint64_t>(t.view.bytes);
    if (t.offset > data_bytes || size > data_bytes - t.offset) {
      return bad_input(
          "{}: is truncated or damaged: tensor '{}' needs {} bytes at offset {} of the data, which has {}",
          path, name, size, t.offset, data_bytes);
    }
    t.view.data = size == 0 ? nullptr : bytes.data() + data_start + t.offset;
  }
  std::sort(tensors.begin(), tensors.end(), [](const PendingTensor& a, const PendingTensor& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.view.bytes < b.view.bytes;
  });
  for (size_t i = 1; i < tensors.size(); ++i) {
    const PendingTensor& before = tensors[i - 1];
    if (before.offset + static_cast<uint64_t>(before.view.bytes) > tensors[i].offset) {
      return bad_input("{}: tensors '{}' and '{}' overlap", path, printable(before.view.name),
                       printable(tensors[i].view.name));
    }
  }
  for (PendingTensor& t : tensors) {
    const std::string name = t.view.name;
    if (!file.tensors.emplace(name, std::move(t.view)).second) {
      return bad_input("{}: tensor '{}' occurs twice", path, printable(name));
    }
  }
  return Status::ok();
}

}  // namespace

Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, const std::string& path) {
  GgufFile file;
  Cursor in(bytes, path);
  VLLM_ASSIGN_OR_RETURN(const uint32_t magic, in.read<uint32_t>("the magic number"));
  if (magic != 0x46554747) return bad_input("{}: is not a GGUF file: it does not begin with 'GGUF'", path);
  VLLM_ASSIGN_OR_RETURN(file.version, in.read<uint32_t>("the version"));
  if (file.version == 0x02000000 || file.version == 0x03000000) {
    return bad_input("{}: is a big-endian GGUF file, little-endian ones are accepted", path);
  }
  if (file.version != 2 && file.version != 3) {
    return bad_input("{}: has GGUF version {}, versions 2 and 3 are accepted", path, file.version);
  }
  VLLM_ASSIGN_OR_RETURN(const uint64_t tensor_count, in.read<uint64_t>("the number of tensors"));
  VLLM_ASSIGN_OR_RETURN(const uint64_t metadata_count, in.read<uint64_t>("the number of metadata entries"));
  VLLM_RETURN_IF_ERROR(in.check_count("the number of tensors", tensor_count, kMinTensorBytes));
  VLLM_RETURN_IF_ERROR(in.check_count("the number of metadata entries", metadata_count, kMinMetadataBytes));
  if (tensor_count > kMaxTensors || metadata_count > kMaxMetadataEntries) {
    return bad_input("{}: has {} tensors and {} metadata entries, at most {} and {} are accepted", path,
                     tensor_count, metadata_count, kMaxTensors, kMaxMetadataEntries);
  }
  VLLM_RETURN_IF_ERROR(read_metadata(in, metadata_count, path, file));

  VLLM_RETURN_IF_ERROR(in.check_count("the number of tensors", tensor_count, kMinTensorBytes));
  std::vector<PendingTensor> tensors;
  tensors.reserve(static_cast<size_t>(tensor_count));
  for (uint64_t i = 0; i < tensor_count; ++i) {
    VLLM_ASSIGN_OR_RETURN(PendingTensor tensor, read_tensor_info(in, path));
    tensors.push_back(std::move(tensor));
  }
  VLLM_ASSIGN_OR_RETURN(const uint64_t alignment, alignment_of(file, path));
  const uint64_t data_start = (in.position() + alignment - 1) / alignment * alignment;
  VLLM_RETURN_IF_ERROR(place_tensors(tensors, bytes, data_start, alignment, path, file));
  return file;
}

Result<GgufFile> read_gguf(const std::string& path) {
  VLLM_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  auto mapping = std::make_shared<const MappedFile>(std::move(mapped));
  VLLM_ASSIGN_OR_RETURN(GgufFile file, parse_gguf({mapping->data(), mapping->size()}, path));
  file.mapping = std::move(mapping);
  return file;
}

std::optional<int64_t> GgufFile::integer(const std::string& key) const {
  const auto it = metadata.find(key);
  if (it == metadata.end()) return std::nullopt;
  if (const auto* value = std::get_if<int64_t>(&it->second)) return *value;
  if (const auto* value = std::get_if<uint64_t>(&it->second)) {
    if (*value <= static_cast<uint64_t>(INT64_MAX)) return static_cast<int64_t>(*value);
  }
  return std::nullopt;
}

std::optional<double> GgufFile::number(const std::string& key) const {
  const auto it = metadata.find(key);
  if (it == metadata.end()) return std::nullopt;
  if (const auto* value = std::get_if<double>(&it->second)) return *value;
  if (const auto* value = std::get_if<int64_t>(&it->second)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<uint64_t>(&it->second)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<std::string> GgufFile::string(const std::string& key) const {
  const auto it = metadata.find(key);
  if (it == metadata.end()) return std::nullopt;
  if (const auto* value = std::get_if<std::string>(&it->second)) return *value;
  return std::nullopt;
}

}  // namespace vllm
