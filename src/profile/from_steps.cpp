#include "profile/from_steps.h"

#include <cstdio>

#include "base/file.h"
#include "profile/clean_scale.h"
#include "profile/step_fit.h"

namespace vllm {
namespace {

Result<std::vector<StepRecording>> read_all(const char* option, const std::vector<std::string>& dirs,
                                            bool with_steps) {
  std::vector<StepRecording> recordings;
  for (const std::string& dir : dirs) {
    auto recording = read_step_recording(dir, with_steps);
    if (!recording) return recording.status().with_context(option);
    recordings.push_back(std::move(*recording));
  }
  return recordings;
}

}  // namespace

Status profile_from_steps(const ParsedOptions& parsed) {
  const ProfileOptions& options = parsed.options.profile;
  VLLM_ASSIGN_OR_RETURN(const auto recorded, read_all("--from-steps", options.from_steps, true));
  VLLM_ASSIGN_OR_RETURN(const auto clean, read_all("--clean", options.clean, false));
  VLLM_ASSIGN_OR_RETURN(StepBundle bundle, fit_step_bundle(recorded));
  std::string text;
  if (!clean.empty()) {
    VLLM_ASSIGN_OR_RETURN(const auto groups, scale_to_clean(clean, bundle));
    text = clean_groups_text(groups);
  }
  VLLM_RETURN_IF_ERROR(write_step_bundle(bundle, options.output));
  text = step_bundle_text(bundle) + text;
  text += fmt::format("\nwritten: {}\n", join_path(options.output, kStepBundleFile));
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    return io_error("the tables cannot be written to stdout");
  }
  return Status::ok();
}

}  // namespace vllm
