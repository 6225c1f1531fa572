#pragma once

// Typed reading of one object of a config.json. The first thing that is wrong is kept and everything after it
// reads as its default, so that an architecture reads straight through and asks for `status` once at the end.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/json_fwd.h"

namespace vllm {

// Bounds of what a file may say. With them no product of shapes overflows 64 bits, save for the parameter
// count, which is computed in 128.
inline constexpr int64_t kMaxVocabSize = int64_t{1} << 24;
inline constexpr int64_t kMaxHiddenSize = int64_t{1} << 20;
inline constexpr int64_t kMaxIntermediateSize = int64_t{1} << 22;
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxHeads = 1 << 14;
inline constexpr int64_t kMaxHeadDim = 1 << 14;
inline constexpr int64_t kMaxExperts = 1 << 16;
inline constexpr int64_t kMaxPositions = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kMaxParameters = int64_t{1} << 50;

class ConfigReader {
 public:
  // `json` outlives the reader. `source` names the file in errors.
  ConfigReader(const Json& json, std::string source);

  bool has(const std::string& key) const;      // present, even when null
  bool is_null(const std::string& key) const;  // present and null
  bool is_object(const std::string& key) const;

  // A key that is absent gives `absent`; null is an error.
  int64_t integer(const std::string& key, int64_t absent, int64_t low, int64_t high);
  double number(const std::string& key, double absent, double low, double high);
  bool boolean(const std::string& key, bool absent);
  std::string text(const std::string& key, const std::string& absent);
  // Null means none.
  std::optional<int64_t> optional_integer(const std::string& key, std::optional<int64_t> absent, int64_t low,
                                          int64_t high);
  std::optional<double> optional_number(const std::string& key, std::optional<double> absent, double low,
                                        double high);
  std::optional<std::string> optional_text(const std::string& key);
  // One integer, or a list of them; null means none.
  std::vector<int64_t> integers(const std::string& key, const std::vector<int64_t>& absent, int64_t low,
                                int64_t high);
  std::vector<double> numbers(const std::string& key, double low, double high);
  std::optional<std::vector<std::string>> texts(const std::string& key);  // nullopt: absent or null

  // A reader of the object under `key` (of an empty one when it is absent or null). Errors land in this
  // reader.
  ConfigReader object(const std::string& key);

  // "<source>: "<key>" <why>": kept if it is the first.
  void fail(const std::string& key, const std::string& why);
  const Status& status() const { return *status_; }
  const std::string& source() const { return source_; }
  std::string path(const std::string& key) const { return prefix_ + key; }

 private:
  const Json* find(const std::string& key) const;
  void reject(const std::string& key, const Json& value, const std::string& accepted);
  std::optional<int64_t> integer_value(const std::string& key, const Json& value, int64_t low, int64_t high);
  std::optional<double> number_value(const std::string& key, const Json& value, double low, double high);

  const Json* json_;
  std::string source_;
  std::string prefix_;  // "text_config."
  std::shared_ptr<Status> status_;
};

}  // namespace vllm
