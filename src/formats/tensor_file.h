#pragma once

// Tensors of a checkpoint, as the headers of safetensors and GGUF files describe them. The bytes stay in the
// mapped file; nothing is read before somebody asks for it. Headers are checked as hostile input: sizes,
// offsets, counts and overlaps, before any allocation that they would decide.

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "formats/dtype.h"

namespace vllm {

// A tensor of `shape` (row-major, slowest dimension first; GGUF's order is turned round by its reader).
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  // Into the mapping, nullptr for no bytes. A GGUF file aligns it to at least 8 bytes; in a safetensors file
  // it may stand at any address, so that numbers are read by memcpy or unaligned loads.
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

// GGUF metadata values. Arrays of numbers come as vectors, other integer widths are widened.
using GgufValue = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

struct GgufFile {
  uint32_t version = 0;
  std::map<std::string, GgufValue> metadata;
  std::map<std::string, TensorView> tensors;
  std::shared_ptr<const MappedFile> mapping;
  // Typed look-ups; nullopt when the key is absent or of another kind.
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  std::optional<std::string> string(const std::string& key) const;
};
Result<GgufFile> read_gguf(const std::string& path);
// The same of bytes in memory, which must outlive the result; `path` names them in errors, `mapping` stays
// empty.
Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, const std::string& path);

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::map<std::string, TensorView> tensors;
  std::shared_ptr<const MappedFile> mapping;
};
Result<SafetensorsFile> read_safetensors(const std::string& path);
Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, const std::string& path);

// All shards of a checkpoint folder: model.safetensors, or those of model.safetensors.index.json, or every
// *.safetensors. A tensor named by the index and missing in its shard is an error.
struct SafetensorsCheckpoint {
  std::vector<SafetensorsFile> shards;
  std::map<std::string, TensorView> tensors;
};
Result<SafetensorsCheckpoint> read_safetensors_checkpoint(const std::string& dir);

}  // namespace vllm
