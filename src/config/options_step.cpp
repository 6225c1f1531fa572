// Options around step bundles: fitting one to recordings, and simulating with it.

#include "config/option_table.h"

namespace vllm {
namespace {

void declare_folders(OptionTable& t, const std::string& name, std::vector<std::string>& field,
                     const std::string& accepted, const std::string& help) {
  OptionDeclaration& d = t.add(name, OptionShape::kList, ProgramSet{Program::kProfile}, help);
  d.value_name = "DIR...";
  d.accepted = accepted;
  d.assign = [&field, accepted](std::string_view text) -> Status {
    if (text.empty()) return usage_error("'' is empty; accepted is {}", accepted);
    field.emplace_back(text);
    return Status::ok();
  };
  d.clear = [&field] { field.clear(); };
  d.text = [&field] { return fmt::format("{}", fmt::join(field, " ")); };
}

void declare_profile(OptionTable& t, ProfileOptions& p) {
  t.group("Profile");
  declare_folders(
      t, "from-steps", p.from_steps, "the folder of a recording with a step log",
      "Fit a step bundle to these recordings: meta.json, requests.jsonl and a step log each, ours or "
      "vLLM's. More of them, at different loads, cover more kinds of steps.");
  declare_folders(
      t, "clean", p.clean, "the folder of a recording",
      "Recordings of the same engine without a step recorder: the bundle is scaled to them, since "
      "recording costs time.");
  t.text("output", p.output, "DIR", "the path of a folder to write", ProgramSet{Program::kProfile},
         "The step bundle: a folder that gets one file, step_bundle.json (docs/step-model.md).")
      .note("none");
}

void declare_simulation(OptionTable& t, StepSimOptions& s) {
  const ProgramSet sim = {Program::kSim};
  t.group("Simulation with a step bundle");
  t.text(
       "step-bundle", s.step_bundle, "DIR", "the folder of a step bundle", sim,
       "Simulate with what vllm-profile --from-steps fitted, in place of a cluster and profiles. Blocks and "
       "lengths come from --match-capacity; --model and --cluster-config are not needed.")
      .note("none");
  t.text(
       "host-scale-from", s.host_scale_from, "DIR", "the folder of a recording with a step log", sim,
       "Scale the host's times by this recording's mean launch time over the bundle's: hosts drift from run "
       "to run. Its other times are not looked at.")
      .note("none");
  t.number("speed", s.speed, {.min = 0, .max = 1e6, .above_min = true, .infinity = true}, sim,
           "Compress the arrivals by this factor, as vllm-bench run does. inf: all at once.");
  t.integer(
      "seeds", s.seeds, {1, 100'000}, sim,
      "Simulate with this many seeds, --seed and those after it, and print mean and standard deviation of "
      "every statistic. Files and log are those of the first seed.");
}

}  // namespace

void OptionTable::declare_step(Options& options) {
  declare_profile(*this, options.profile);
  declare_simulation(*this, options.step_sim);
}

}  // namespace vllm
