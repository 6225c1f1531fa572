#pragma once

// The records of steps.bin, byte by byte as docs/formats.md says. Encoder and decoder keep the same table of
// request ids and the same predictions, so that what repeats costs nothing. Private to formats.

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/step_log.h"

namespace vllm {

inline constexpr std::string_view kStepLogMagic = "VLLMSTEP";
inline constexpr uint32_t kStepLogVersion = 1;
inline constexpr size_t kMaxRequestIdBytes = 256;
// When the table of ids is full it is emptied and begun anew.
inline constexpr size_t kMaxInternedIds = size_t{1} << 18;
inline constexpr size_t kMaxStepRecordBytes = size_t{64} << 20;
// Of all records of a log in memory.
inline constexpr int64_t kMaxStepLogBytes = int64_t{8} << 30;

class StepEncoder {
 public:
  // Frames one record: length, payload, checksum. `out` is overwritten. After an error nothing more can be
  // encoded.
  Status encode(const StepRecord& record, std::string& out);

 private:
  static Status check(const StepRecord& record);
  void intern(const StepRecord& record);

  std::unordered_map<std::string, uint32_t> index_of_;
  std::vector<int64_t> expected_computed_;  // of each id: where its next entry should begin
  std::vector<const std::string*> new_ids_;
  std::string payload_;
  int64_t last_step_ = -1;
  TimeNs last_sched_ns_ = 0;
};

class StepDecoder {
 public:
  // Of one payload, its checksum already compared. The error says what is wrong, not where.
  Status decode(std::span<const std::byte> payload, StepRecord& record);

 private:
  std::vector<std::string> ids_;
  std::vector<int64_t> expected_computed_;
  int64_t last_step_ = -1;
  TimeNs last_sched_ns_ = 0;
  int64_t total_bytes_ = 0;
};

// The header; and the frame that ends a complete file of `records` records.
std::string step_log_header();
std::string step_log_end(uint64_t records);

Result<std::vector<StepRecord>> parse_step_log_binary(std::span<const std::byte> bytes,
                                                      const std::string& path);

}  // namespace vllm
