#include "bench/gnuplot.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

extern char** environ;

namespace vllm {
namespace {

// Kept of what gnuplot says.
constexpr size_t kMessageLimit = 4096;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { reset(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// A socket in place of a pipe: a program that ends early is then an error of send, not a signal.
bool send_all(int fd, const std::string& text) {
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

std::string receive_all(int fd) {
  std::string text;
  char buffer[1024];
  while (true) {
    const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    if (text.size() < kMessageLimit) text.append(buffer, static_cast<size_t>(n));
  }
}

std::string first_line(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "it said nothing";
  return text.substr(begin, text.find('\n', begin) - begin);
}

// Starts gnuplot, found as the shell would, with its input, output and errors on `fd`; in a process group of
// its own, so that a Ctrl-C meant for us does not cut a figure in half. The return value is an errno.
int spawn_gnuplot(int fd, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int target : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_adddup2(&actions, fd, target);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  char name[] = "gnuplot";
  char* const arguments[] = {name, nullptr};
  const int error = posix_spawnp(pid, name, &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

std::string gnuplot_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      out += ' ';
      continue;
    }
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

std::string figure_style(FigureFormat format, FigureSize size, const std::string& output_path) {
  std::string out;
  // The SVG terminal draws the same point size larger.
  if (format == FigureFormat::kPng) {
    out += fmt::format(
        "set terminal pngcairo noenhanced size {},{} font 'Inter,13' linewidth 1.2 background '#ffffff'\n",
        size.width_px, size.height_px);
  } else {
    out += fmt::format(
        "set terminal svg noenhanced size {},{} dynamic font 'Inter,15' linewidth 1.2 background "
        "'#ffffff'\n",
        size.width_px, size.height_px);
  }
  out += "set output " + gnuplot_quoted(output_path) + "\n";
  out +=
      "set encoding utf8\n"
      "set border 3 linecolor '#8a8f98' linewidth 1\n"
      "set tics nomirror out scale 0.5 textcolor '#3c4149'\n"
      "set grid xtics ytics linetype 1 linecolor '#e6e8eb' linewidth 0.8\n"
      "set style fill solid 0.12 noborder\n"
      "set key above right horizontal samplen 1.6 textcolor '#23272e'\n"
      "set xlabel textcolor '#23272e'\n"
      "set ylabel textcolor '#23272e'\n"
      "set title textcolor '#23272e'\n"
      "set linetype 1 linecolor '#1f6feb' linewidth 2\n"
      "set linetype 2 linecolor '#d9480f' linewidth 2\n"
      "set linetype 3 linecolor '#2b8a3e' linewidth 2\n"
      "set linetype 4 linecolor '#7048c6' linewidth 2\n";
  return out;
}

Status run_gnuplot(const std::string& script) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return io_error("gnuplot cannot be started ({})", std::generic_category().message(errno));
  }
  Socket ours(ends[0]), theirs(ends[1]);
  pid_t pid = 0;
  const int error = spawn_gnuplot(theirs.get(), &pid);
  theirs.reset();
  if (error == ENOENT) return refused("gnuplot is not installed");
  if (error != 0) return io_error("gnuplot cannot be started ({})", std::generic_category().message(error));

  const bool sent = send_all(ours.get(), script);
  shutdown(ours.get(), SHUT_WR);
  const std::string said = receive_all(ours.get());
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (sent && WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::ok();
  return failed("gnuplot failed: {}", first_line(said));
}

}  // namespace vllm
