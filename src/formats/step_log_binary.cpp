#include "formats/step_log_binary.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "formats/printable.h"

static_assert(std::endian::native == std::endian::little, "fixed-width numbers are copied as they are");

namespace vllm {
namespace {

enum RecordFlag : uint8_t {
  kHasOut = 1,       // t_out is known
  kHasComputed = 2,  // every entry has a num_computed
  kNewTable = 4,     // the table of ids was emptied before this record
};
constexpr uint8_t kAllFlags = kHasOut | kHasComputed | kNewTable;

void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

// Small numbers of either sign become small unsigned ones. Differences wrap, so that every pair of values has
// one.
void put_signed(std::string& out, int64_t value) {
  put_varint(out, (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
}

int64_t wrapping_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <typename T>
void put_fixed(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

uint32_t checksum(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// Reads forward; the first read beyond the end makes all later ones fail too.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  size_t remaining() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (position_ == bytes_.size()) break;
      const auto byte = static_cast<uint8_t>(bytes_[position_++]);
      // The tenth byte has room for one bit.
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }
  int64_t signed_varint() {
    const uint64_t value = varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  uint8_t byte() {
    if (remaining() == 0) {
      ok_ = false;
      return 0;
    }
    return static_cast<uint8_t>(bytes_[position_++]);
  }
  std::span<const std::byte> take(uint64_t count) {
    if (count > remaining()) {
      ok_ = false;
      return {};
    }
    const auto out = bytes_.subspan(position_, static_cast<size_t>(count));
    position_ += static_cast<size_t>(count);
    return out;
  }
  template <typename T>
  T fixed() {
    T value{};
    const auto bytes = take(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Status StepEncoder::check(const StepRecord& record) {
  const size_t ids = record.entries.size() + record.preempted.size();
  if (ids > kMaxInternedIds) {
    return failed("step log: step {} names {} requests, at most {} are accepted", record.step, ids,
                  kMaxInternedIds);
  }
  const auto check_id = [](const std::string& id) -> Status {
    if (id.size() <= kMaxRequestIdBytes) return Status::ok();
    return failed("step log: the request id '{}' has {} bytes, at most {} are accepted", printable(id),
                  id.size(), kMaxRequestIdBytes);
  };
  for (const auto& entry : record.entries) VLLM_RETURN_IF_ERROR(check_id(entry.request_id));
  for (const std::string& id : record.preempted) VLLM_RETURN_IF_ERROR(check_id(id));
  return Status::ok();
}

void StepEncoder::intern(const StepRecord& record) {
  new_ids_.clear();
  const auto add = [&](const std::string& id) {
    const auto [it, is_new] = index_of_.emplace(id, static_cast<uint32_t>(index_of_.size()));
    if (!is_new) return;
    new_ids_.push_back(&it->first);
    expected_computed_.push_back(0);
  };
  for (const auto& entry : record.entries) add(entry.request_id);
  for (const std::string& id : record.preempted) add(id);
}

Status StepEncoder::encode(const StepRecord& record, std::string& out) {
  VLLM_RETURN_IF_ERROR(check(record));
  const bool new_table =
      index_of_.size() + record.entries.size() + record.preempted.size() > kMaxInternedIds &&
      !index_of_.empty();
  if (new_table) {
    index_of_.clear();
    expected_computed_.clear();
  }
  intern(record);
  const bool has_computed = std::any_of(record.entries.begin(), record.entries.end(),
                                        [](const StepRecord::Entry& e) { return e.num_computed != -1; });
  std::string& p = payload_;
  p.clear();
  p += static_cast<char>((record.t_out_ns != 0 ? kHasOut : 0) | (has_computed ? kHasComputed : 0) |
                         (new_table ? kNewTable : 0));
  put_signed(p, wrapping_sub(record.step, wrapping_add(last_step_, 1)));
  put_signed(p, wrapping_sub(record.t_sched_ns, last_sched_ns_));
  put_signed(p, wrapping_sub(record.t_sched_end_ns, record.t_sched_ns));
  if (record.t_out_ns != 0) put_signed(p, wrapping_sub(record.t_out_ns, record.t_sched_ns));
  put_signed(p, record.total_tokens);
  put_signed(p, record.running);
  put_signed(p, record.waiting);
  put_signed(p, record.free_blocks);
  put_varint(p, new_ids_.size());
  for (const std::string* id : new_ids_) {
    put_varint(p, id->size());
    p += *id;
  }
  put_varint(p, record.entries.size());
  int64_t next = 0;
  for (const auto& entry : record.entries) {
    const int64_t index = index_of_.find(entry.request_id)->second;
    put_signed(p, index - next);
    next = index + 1;
    put_signed(p, entry.num_tokens);
    if (!has_computed) continue;
    int64_t& expected = expected_computed_[static_cast<size_t>(index)];
    put_signed(p, entry.num_computed - expected);
    expected = int64_t{entry.num_computed} + entry.num_tokens;
  }
  put_varint(p, record.preempted.size());
  for (const std::string& id : record.preempted) put_varint(p, index_of_.find(id)->second);

  last_step_ = record.step;
  last_sched_ns_ = record.t_sched_ns;
  if (p.size() > kMaxStepRecordBytes) {
    return failed("step log: step {} takes {} bytes, at most {} are accepted", record.step, p.size(),
                  kMaxStepRecordBytes);
  }
  out.clear();
  put_varint(out, p.size());
  out += p;
  put_fixed(out, checksum(p));
  return Status::ok();
}

Status StepDecoder::decode(std::span<const std::byte> payload, StepRecord& record) {
  Input in(payload);
  const auto malformed = [](std::string_view what) { return bad_input("{} is malformed", what); };
  const uint8_t flags = in.byte();
  if ((flags & ~kAllFlags) != 0) return bad_input("has the unknown flags {:#x}", flags);
  if ((flags & kNewTable) != 0) {
    ids_.clear();
    expected_computed_.clear();
  }
  record.step = wrapping_add(in.signed_varint(), wrapping_add(last_step_, 1));
  record.t_sched_ns = wrapping_add(in.signed_varint(), last_sched_ns_);
  record.t_sched_end_ns = wrapping_add(in.signed_varint(), record.t_sched_ns);
  record.t_out_ns = (flags & kHasOut) != 0 ? wrapping_add(in.signed_varint(), record.t_sched_ns) : 0;
  record.total_tokens = in.signed_varint();
  const int64_t running = in.signed_varint(), waiting = in.signed_varint();
  record.free_blocks = in.signed_varint();
  const auto fits_32 = [](int64_t v) { return v >= INT32_MIN && v <= INT32_MAX; };
  if (!in.ok() || !fits_32(running) || !fits_32(waiting)) return malformed("its head");
  record.running = static_cast<int32_t>(running);
  record.waiting = static_cast<int32_t>(waiting);

  const uint64_t new_ids = in.varint();
  if (!in.ok() || new_ids > in.remaining() || ids_.size() + new_ids > kMaxInternedIds) {
    return malformed("its number of new request ids");
  }
  for (uint64_t i = 0; i < new_ids; ++i) {
    const auto id = in.take(in.varint());
    if (!in.ok() || id.size() > kMaxRequestIdBytes) return malformed("a request id");
    ids_.emplace_back(text_of(id));
    expected_computed_.push_back(0);
    total_bytes_ += static_cast<int64_t>(id.size());
  }
  const uint64_t entries = in.varint();
  const bool has_computed = (flags & kHasComputed) != 0;
  if (!in.ok() || entries > in.remaining() / (has_computed ? 3 : 2))
    return malformed("its number of entries");
  record.entries.clear();
  record.entries.reserve(static_cast<size_t>(entries));
  int64_t next = 0;
  for (uint64_t i = 0; i < entries; ++i) {
    const int64_t index = wrapping_add(next, in.signed_varint());
    const int64_t tokens = in.signed_varint();
    if (!in.ok() || index < 0 || index >= static_cast<int64_t>(ids_.size()) || !fits_32(tokens)) {
      return malformed(fmt::format("entry {}", i));
    }
    next = index + 1;
    int64_t computed = -1;
    if (has_computed) {
      int64_t& expected = expected_computed_[static_cast<size_t>(index)];
      computed = wrapping_add(expected, in.signed_varint());
      if (!in.ok() || !fits_32(computed)) return malformed(fmt::format("entry {}", i));
      expected = computed + tokens;
    }
    const std::string& id = ids_[static_cast<size_t>(index)];
    total_bytes_ += static_cast<int64_t>(sizeof(StepRecord::Entry) + id.size());
    if (total_bytes_ > kMaxStepLogBytes)
      return bad_input("takes the log beyond {} bytes in memory", kMaxStepLogBytes);
    record.entries.push_back({id, static_cast<int32_t>(tokens), static_cast<int32_t>(computed)});
  }
  const uint64_t preempted = in.varint();
  if (!in.ok() || preempted > in.remaining()) return malformed("its number of preempted requests");
  record.preempted.clear();
  for (uint64_t i = 0; i < preempted; ++i) {
    const uint64_t index = in.varint();
    if (!in.ok() || index >= ids_.size()) return malformed("a preempted request");
    record.preempted.push_back(ids_[static_cast<size_t>(index)]);
    total_bytes_ += static_cast<int64_t>(sizeof(std::string) + record.preempted.back().size());
  }
  if (in.remaining() != 0) return bad_input("has {} bytes too many", in.remaining());
  total_bytes_ += static_cast<int64_t>(sizeof(StepRecord));
  if (total_bytes_ > kMaxStepLogBytes)
    return bad_input("takes the log beyond {} bytes in memory", kMaxStepLogBytes);
  last_step_ = record.step;
  last_sched_ns_ = record.t_sched_ns;
  return Status::ok();
}

std::string step_log_header() {
  std::string out(kStepLogMagic);
  put_fixed(out, kStepLogVersion);
  put_fixed(out, uint32_t{0});
  return out;
}

std::string step_log_end(uint64_t records) {
  std::string out(1, '\0');
  put_fixed(out, records);
  return out;
}

Result<std::vector<StepRecord>> parse_step_log_binary(std::span<const std::byte> bytes,
                                                      const std::string& path) {
  Input in(bytes);
  if (text_of(in.take(kStepLogMagic.size())) != kStepLogMagic)
    return bad_input("{}: is not a step log", path);
  const auto version = in.fixed<uint32_t>();
  in.fixed<uint32_t>();
  if (!in.ok()) return bad_input("{}: is truncated: it ends inside its header", path);
  if (version != kStepLogVersion) {
    return bad_input("{}: has version {}, version {} is accepted", path, version, kStepLogVersion);
  }
  std::vector<StepRecord> records;
  StepDecoder decoder;
  const auto place = [&] {
    if (records.empty()) return std::string("before its first record");
    return fmt::format("after record {} (step {})", records.size() - 1, records.back().step);
  };
  while (true) {
    const uint64_t size = in.varint();
    if (!in.ok()) return bad_input("{}: is truncated {}", path, place());
    if (size == 0) break;
    if (size > kMaxStepRecordBytes) {
      return bad_input("{}: is damaged {}: a record of {} bytes, at most {} are accepted", path, place(),
                       size, kMaxStepRecordBytes);
    }
    const auto payload = in.take(size);
    const auto crc = in.fixed<uint32_t>();
    if (!in.ok()) return bad_input("{}: is truncated {}", path, place());
    if (crc != checksum(text_of(payload))) {
      return bad_input("{}: is damaged {}: the checksum of the next record is wrong", path, place());
    }
    StepRecord record;
    const Status status = decoder.decode(payload, record);
    if (!status) return bad_input("{}: is damaged {}: the next record {}", path, place(), status.message());
    records.push_back(std::move(record));
  }
  const auto count = in.fixed<uint64_t>();
  if (!in.ok()) return bad_input("{}: is truncated {}", path, place());
  if (count != records.size() || in.remaining() != 0) {
    return bad_input("{}: is damaged: its end says {} records, {} were read, and {} bytes follow", path,
                     count, records.size(), in.remaining());
  }
  return records;
}

}  // namespace vllm
