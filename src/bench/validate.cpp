#include "bench/validate.h"

#include <cstdio>

#include "base/file.h"
#include "base/log.h"
#include "bench/validate/comparison.h"
#include "bench/validate/figures.h"
#include "bench/validate/html_report.h"
#include "bench/validate/report_text.h"
#include "formats/json.h"

namespace vllm {
namespace {

// Where the files go: an absolute --output-subdir as it is, another one below the first recording.
std::string output_folder(const ValidateOptions& options) {
  if (options.output_subdir.starts_with("/")) return options.output_subdir;
  return join_path(options.bench_dirs[0], options.output_subdir);
}

class Output {
 public:
  Output(std::string folder, const std::string& prefix)
      : folder_(std::move(folder)), prefix_(prefix.empty() ? "" : prefix + "_") {}

  std::string path(const std::string& name) const { return join_path(folder_, prefix_ + name); }
  Status write(const std::string& name, const std::string& text) {
    VLLM_RETURN_IF_ERROR(write_file_atomically(path(name), text));
    written_.push_back(prefix_ + name);
    return Status::ok();
  }
  void drawn(const std::string& name) { written_.push_back(prefix_ + name); }
  std::string list() const { return fmt::format("{}: {}", folder_, fmt::join(written_, ", ")); }

 private:
  std::string folder_, prefix_;
  std::vector<std::string> written_;
};

Status draw(const Comparison& comparison, const std::vector<RealRun>& real, const SimRun& sim,
            Output& output) {
  for (const Figure& figure : {throughput_figure(comparison, real, sim),
                               requests_figure(comparison, real, sim), latency_figure(comparison)}) {
    const std::string name = figure.name + ".png";
    const Status status = draw_png(figure, output.path(name));
    if (status.code() == StatusCode::kRefused) {
      log_warning("{}: no PNG figures; the report has them", status.message());
      return Status::ok();
    }
    VLLM_RETURN_IF_ERROR(status);
    output.drawn(name);
  }
  return Status::ok();
}

Status print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return Status::ok();
  return io_error("the comparison could not be written to standard output");
}

}  // namespace

Status validate(const ParsedOptions& parsed) {
  const ValidateOptions& options = parsed.options.validate;
  std::vector<RealRun> real;
  for (const std::string& dir : options.bench_dirs) {
    VLLM_ASSIGN_OR_RETURN(RealRun run, read_real_run(dir, options.arrival_anchor));
    if (!run.refusals.empty() && !options.force) return refused("{}", run.refusals[0]);
    real.push_back(std::move(run));
  }
  VLLM_ASSIGN_OR_RETURN(const SimRun sim,
                        read_sim_run(options.sim_csv, options.sim_log, options.workloads_root));
  const Comparison comparison = compare_runs(real, sim, options.arrival_anchor, options.title);
  if (!comparison.refusals.empty() && !options.force) return refused("{}", comparison.refusals[0]);

  const std::string folder = output_folder(options);
  VLLM_RETURN_IF_ERROR(make_directories(folder).with_context("--output-subdir"));
  Output output(folder, options.prefix);
  VLLM_RETURN_IF_ERROR(output.write("summary.txt", summary_text(comparison)));
  VLLM_RETURN_IF_ERROR(output.write("summary.json", json_text(summary_json(comparison, real, sim))));
  VLLM_RETURN_IF_ERROR(output.write("report.html", html_report(comparison, real, sim)));
  if (!parsed.options.bench_run.no_plots) VLLM_RETURN_IF_ERROR(draw(comparison, real, sim, output));
  return print(comparison_report(comparison, real.size()) + "\nWritten to " + output.list() + "\n");
}

}  // namespace vllm
