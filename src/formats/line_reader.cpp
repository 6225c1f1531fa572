#include "formats/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "formats/sha256.h"

namespace vllm {
namespace {

constexpr size_t kMinBlockBytes = size_t{1} << 12, kMaxBlockBytes = size_t{1} << 18;

// A small file needs no large buffers: cleared pages would be most of the work of reading it.
size_t block_bytes_for(const struct stat& info) {
  if (!S_ISREG(info.st_mode) || info.st_size < 0) return kMaxBlockBytes;
  return std::clamp(std::bit_ceil(static_cast<size_t>(info.st_size) + 1), kMinBlockBytes, kMaxBlockBytes);
}

}  // namespace

struct LineReader::Impl {
  std::string path;
  LineReaderOptions options;
  int fd = -1;
  size_t block_bytes = kMaxBlockBytes;  // read at once
  Sha256 hash;

  // Compressed files go through `packed`; plain ones are read into `buffer` at once.
  bool gzip = false;
  bool stream_open = false;    // inflateInit2 was called
  bool inside_member = false;  // of a gzip file, which may have several
  z_stream stream{};
  std::vector<unsigned char> packed;
  int64_t unpacked_bytes = 0;

  // [begin, end) of `buffer` is not returned yet; kPadding bytes behind `end` always exist.
  std::vector<char> buffer;
  size_t begin = 0, end = 0, scanned = 0;
  bool at_end = false;  // nothing more comes into the buffer
  int64_t line = 0;

  ~Impl() {
    if (stream_open) inflateEnd(&stream);
    if (fd >= 0) close(fd);
  }

  // Raw bytes of the file, hashed on the way. 0 at its end.
  Result<size_t> read_raw(void* to, size_t size) {
    while (true) {
      const ssize_t n = ::read(fd, to, size);
      if (n >= 0) {
        if (options.hash) hash.update(to, static_cast<size_t>(n));
        return static_cast<size_t>(n);
      }
      if (errno != EINTR) {
        return io_error("{}: cannot be read ({})", path, std::generic_category().message(errno));
      }
    }
  }

  // Fills the rest of the packed buffer; the stream's input is empty.
  Status refill_packed() {
    VLLM_ASSIGN_OR_RETURN(const size_t n, read_raw(packed.data(), packed.size()));
    stream.next_in = packed.data();
    stream.avail_in = static_cast<uInt>(n);
    return Status::ok();
  }

  Result<size_t> inflate_some(char* to, size_t size) {
    stream.next_out = reinterpret_cast<unsigned char*>(to);
    stream.avail_out = static_cast<uInt>(size);
    while (stream.avail_out == size) {
      if (stream.avail_in == 0) VLLM_RETURN_IF_ERROR(refill_packed());
      if (stream.avail_in == 0) {
        if (!inside_member) return size_t{0};
        return bad_input("{}: is truncated: its gzip data ends early, after line {}", path, line);
      }
      if (!inside_member) {
        inflateReset(&stream);
        inside_member = true;
      }
      const int code = inflate(&stream, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        inside_member = false;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return bad_input("{}: is not valid gzip data after line {} ({})", path, line,
                         stream.msg != nullptr ? stream.msg : "damaged");
      }
    }
    const size_t n = size - stream.avail_out;
    unpacked_bytes += static_cast<int64_t>(n);
    if (unpacked_bytes > options.max_unpacked_bytes) {
      return bad_input("{}: unpacks to more than the {} bytes that are accepted", path,
                       options.max_unpacked_bytes);
    }
    return n;
  }

  // More bytes behind `end`.
  Status fill() {
    if (begin > 0 && begin >= buffer.size() / 2) {
      std::memmove(buffer.data(), buffer.data() + begin, end - begin);
      end -= begin;
      scanned -= begin;
      begin = 0;
    }
    if (end + block_bytes + kPadding > buffer.size()) buffer.resize(buffer.size() * 2);
    const size_t room = buffer.size() - end - kPadding;
    VLLM_ASSIGN_OR_RETURN(
        const size_t n, gzip ? inflate_some(buffer.data() + end, room) : read_raw(buffer.data() + end, room));
    end += n;
    at_end = n == 0;
    return Status::ok();
  }
};

LineReader::LineReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;
LineReader::~LineReader() = default;

Result<LineReader> LineReader::open(const std::string& path, const LineReaderOptions& options) {
  auto impl = std::make_unique<Impl>();
  Impl& s = *impl;
  s.path = path;
  s.options = options;
  s.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (s.fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return bad_input("{}: no such file", path);
    return bad_input("{}: cannot be read ({})", path, std::generic_category().message(errno));
  }
  struct stat info {};
  if (fstat(s.fd, &info) == 0) {
    if (S_ISDIR(info.st_mode)) return bad_input("{}: is a directory, a file is needed", path);
    s.block_bytes = block_bytes_for(info);
  }
  s.buffer.resize(4 * s.block_bytes);
  VLLM_ASSIGN_OR_RETURN(s.end, s.read_raw(s.buffer.data(), s.block_bytes));
  s.gzip = s.end >= 2 && static_cast<unsigned char>(s.buffer[0]) == 0x1f &&
           static_cast<unsigned char>(s.buffer[1]) == 0x8b;
  if (s.gzip) {
    // 16: a gzip header, and nothing else, is expected.
    if (inflateInit2(&s.stream, 15 + 16) != Z_OK) return failed("{}: zlib cannot be started", path);
    s.stream_open = s.inside_member = true;
    s.packed.resize(s.block_bytes);
    std::memcpy(s.packed.data(), s.buffer.data(), s.end);
    s.stream.next_in = s.packed.data();
    s.stream.avail_in = static_cast<uInt>(s.end);
    s.end = 0;
  }
  return LineReader(std::move(impl));
}

Result<std::optional<std::string_view>> LineReader::next() {
  Impl& s = *impl_;
  while (true) {
    const char* start = s.buffer.data() + s.scanned;
    const auto* newline = static_cast<const char*>(std::memchr(start, '\n', s.end - s.scanned));
    s.scanned = newline != nullptr ? static_cast<size_t>(newline - s.buffer.data()) : s.end;
    if (s.scanned - s.begin > static_cast<size_t>(s.options.max_line_bytes)) {
      return bad_input("{}:{}: is longer than the {} bytes that are accepted in one line", s.path, s.line + 1,
                       s.options.max_line_bytes);
    }
    if (newline == nullptr && !s.at_end) {
      VLLM_RETURN_IF_ERROR(s.fill());
      continue;
    }
    if (newline == nullptr && s.begin == s.end) return std::optional<std::string_view>();
    std::string_view text(s.buffer.data() + s.begin, s.scanned - s.begin);
    s.begin = s.scanned = newline != nullptr ? s.scanned + 1 : s.end;
    ++s.line;
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    static constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (s.line == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    return std::optional(text);
  }
}

int64_t LineReader::line() const { return impl_->line; }

Result<std::string> LineReader::sha256() {
  std::vector<char> rest(impl_->block_bytes);
  while (true) {
    VLLM_ASSIGN_OR_RETURN(const size_t n, impl_->read_raw(rest.data(), rest.size()));
    if (n == 0) return impl_->hash.hex();
  }
}

}  // namespace vllm
