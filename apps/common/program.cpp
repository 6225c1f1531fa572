#include "common/program.h"

#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "base/cpu_features.h"
#include "base/log.h"
#include "base/version.h"
#include "config/libraries.h"
#include "engine/engine.h"
#include "formats/json.h"
#include "formats/printable.h"
#include "kv/plan.h"

namespace vllm {
namespace {

// The plan is all that stdout gets, also when it does not fit: then the reason goes to stderr.
Status print_plan(const ParsedOptions& parsed) {
  VLLM_ASSIGN_OR_RETURN(const PlanResult result, plan_without_engine(parsed.options));
  const bool json = parsed.options.runtime.print_plan == PrintPlan::kJson;
  std::string text = json ? json_text(kv_plan_json(result.plan)) : kv_plan_text(result.plan);
  if (text.empty() || text.back() != '\n') text += '\n';
  VLLM_RETURN_IF_ERROR(write_stdout(text));
  return result.status;
}

Status dispatch(Program program, const ParsedOptions& parsed, const Job& job) {
  configure_logging(parsed.options.runtime.log_level, parsed.options.runtime.log_format);
  const bool planning = parsed.options.runtime.print_plan != PrintPlan::kNo;
  const auto missing = not_built_yet(program);
  if (missing && !planning) return {StatusCode::kRefused, *missing};
  VLLM_RETURN_IF_ERROR(check_supported(parsed));
  if (planning) return print_plan(parsed);
  VLLM_RETURN_IF_ERROR(job(parsed));
  return write_stdout("");  // what the job printed may still be on its way
}

// A program that is started with a closed stdin, stdout or stderr would get that number for the next file
// that it opens, and what is meant for a terminal would go into that file. The place is taken by something
// that can neither be read from nor written to, so that a missing stdout stays an error.
void hold_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF && open("/dev/null", O_PATH) < 0) return;
  }
}

}  // namespace

Status write_stdout(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return io_error("cannot write to stdout: {}", std::strerror(errno));
  }
  return Status::ok();
}

int report_error(const std::string& name, const Status& status) {
  // A plan that does not fit comes with its table: lines are kept, what could steer a terminal is not.
  if (!status) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), without_control_characters(status.message()).c_str());
  }
  return exit_code(status);
}

std::string version_text(Program program) {
  const std::string sanitizers = version_sanitizers();
  std::string out =
      fmt::format("{} {}\ncommit: {}\nbuild: {}, sanitizers: {}\ncompiler: {}\nISA: {} ({})\nlibraries:\n",
                  program_name(program), version_string(), version_commit(), version_build_type(),
                  sanitizers.empty() ? "none" : sanitizers, compiler_version(), isa_name(best_isa()),
                  fmt::join(cpu_feature_names(), " "));
  for (const auto& [library, version] : linked_libraries()) out += fmt::format("  {} {}\n", library, version);
  return out;
}

int run_program(Program program, const std::vector<std::string>& args, const Job& job) {
  const char* name = program_name(program);
  const auto parsed = parse_options(program, args);
  if (!parsed) return report_error(name, parsed.status());
  if (parsed->help) return report_error(name, write_stdout(help_text(program)));
  if (parsed->version) return report_error(name, write_stdout(version_text(program)));
  return report_error(name, dispatch(program, *parsed, job));
}

int guarded_main(const char* name, int argc, char** argv,
                 const std::function<int(const std::vector<std::string>&)>& body) {
  hold_standard_descriptors();
  // A limit of the file size is an error of a write, as a full disk is, and not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return body(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory\n", name);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: internal error: %s\n", name, error.what());
  }
  return 1;
}

}  // namespace vllm
