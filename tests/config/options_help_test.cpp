// --help, docs/options.md and the names of libraries.

#include <regex>
#include <sstream>

#include "base/file.h"
#include "config/libraries.h"
#include "config/option_table.h"
#include "config/options.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

TEST(OptionsHelpTest, ListsEveryOptionOfTheProgramAndNoOther) {
  Options bound;
  const OptionTable table(bound);
  for (const Program program : kAllPrograms) {
    const std::string help = help_text(program);
    for (const OptionDeclaration& d : table.all()) {
      const bool listed = std::regex_search(help, std::regex("\n  --(\\[no-\\])?" + d.name + "[ \n\\[]"));
      EXPECT_EQ(listed, table.find(program, d.name) != nullptr) << program_name(program) << " --" << d.name;
      if (!d.programs.has(program)) continue;
      for (const std::string& alias : d.aliases) EXPECT_THAT(help, HasSubstr("--" + alias));
      EXPECT_THAT(help, HasSubstr("\n" + d.group + ":\n"));
    }
    EXPECT_THAT(help, HasSubstr("--help"));
    EXPECT_THAT(help, HasSubstr("--version"));
  }
}

TEST(OptionsHelpTest, SaysWhatTheProgramDoesAndShowsAnExample) {
  for (const Program program : kAllPrograms) {
    const std::string help = help_text(program);
    EXPECT_TRUE(help.starts_with(std::string(program_name(program)) + ": "));
    EXPECT_THAT(help, HasSubstr("\nUsage: " + std::string(program_name(program))));
    EXPECT_THAT(help, HasSubstr("\nExample:\n  vllm-"));
    EXPECT_THAT(help, HasSubstr("Exit codes: "));
  }
}

TEST(OptionsHelpTest, FitsAHundredColumnsWithoutTrailingSpaces) {
  for (const Program program : kAllPrograms) {
    std::istringstream lines(help_text(program));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 100u) << line;
      EXPECT_FALSE(line.ends_with(' ')) << "'" << line << "'";
    }
  }
}

TEST(OptionsHelpTest, ShowsDefaultsRangesAndRequirements) {
  std::string help = std::regex_replace(help_text(Program::kBenchRun), std::regex("\\s+"), " ");
  EXPECT_THAT(help, HasSubstr("[default 16; a whole number from 1 to 65536]"));
  EXPECT_THAT(help, HasSubstr("[default auto; in vllm-bench run bfloat16, unless --model is a .gguf]"));
  EXPECT_THAT(help, HasSubstr("--dataset FILE The workload"));
  EXPECT_THAT(help, HasSubstr("[required; the path of a workload file (JSON lines)]"));
  EXPECT_THAT(help, HasSubstr("--[no-]enable-prefix-caching"));
  EXPECT_THAT(help, HasSubstr("--print-plan[=text|json]"));
  EXPECT_THAT(help, HasSubstr("also --kv-cache-memory-bytes]"));
}

TEST(OptionsHelpTest, TheBenchListsItsSubcommandsAndWhatIsNotBuilt) {
  const std::string help = help_text(Program::kBenchLoad);
  for (const char* name : {"\n  run ", "\n  check-schedule ", "\n  validate ", "\n  (none) "}) {
    EXPECT_THAT(help, HasSubstr(name));
  }
  EXPECT_THAT(help, HasSubstr("Compare a recorded run with a simulated one.\n"));
  EXPECT_THAT(help, HasSubstr("The load mode with the options below. Not built yet"));
}

TEST(OptionsHelpTest, DocumentationIsUpToDate) {
  const auto committed = read_file(VLLM_SOURCE_DIR "/docs/options.md");
  ASSERT_TRUE(committed.is_ok()) << committed.status().message();
  EXPECT_TRUE(*committed == options_markdown())
      << "docs/options.md is old; write it with: vllm-bench --options-markdown > docs/options.md";
}

TEST(OptionsHelpTest, DocumentationHoldsEveryOption) {
  Options bound;
  const OptionTable table(bound);
  const std::string text = options_markdown();
  for (const OptionDeclaration& d : table.all()) {
    EXPECT_TRUE(std::regex_search(text, std::regex("\n\\| `--(\\[no-\\])?" + d.name + "[ `\\[]"))) << d.name;
  }
}

TEST(LibrariesTest, AreInOrderWithVersions) {
  const auto libraries = linked_libraries();
  ASSERT_GE(libraries.size(), 8u);
  std::string before;
  for (const auto& [name, version] : libraries) {
    std::string key = name;
    for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    EXPECT_LT(before, key);
    before = key;
    EXPECT_TRUE(std::regex_match(version, std::regex("[0-9]+(\\.[0-9a-z]+)+"))) << name << " " << version;
  }
  EXPECT_TRUE(std::regex_search(compiler_version(), std::regex("^(GCC|Clang) [0-9]+\\.")));
}

}  // namespace
}  // namespace vllm
