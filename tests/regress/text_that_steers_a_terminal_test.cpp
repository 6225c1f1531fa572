// Values of options and strings of a config.json came back in messages as they were: escape sequences reached
// the terminal, line feeds broke the one line of an error, and 100,000 characters filled the log.

#include "config/model_config.h"
#include "config/option_table.h"
#include "formats/json.h"
#include "formats/printable.h"
#include "support/reference.h"

namespace vllm {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::vector<std::string>& args) {
  const auto parsed = parse_options(Program::kBenchRun, args);
  if (parsed.is_ok()) return "accepted";
  EXPECT_EQ(exit_code(parsed.status()), 2);
  return parsed.status().message();
}

TEST(TextThatSteersATerminal, AnOptionWithAControlCharacterIsRefused) {
  for (const std::string text : {"a\nb", "\x1b[31m", "a\x7f", "\r"}) {
    for (const char* option : {"--dataset", "--num-blocks", "--dtype", "--speed", "--record-steps"}) {
      EXPECT_EQ(refusal({std::string(option) + "=" + text}),
                fmt::format("{}: the value '{}' has a control character; accepted is text of one line",
                            option, printable(text)));
    }
  }
  EXPECT_EQ(refusal({"--no\x1bsuch"}).find('\x1b'), std::string::npos);
  EXPECT_EQ(refusal({"stray\nword"}).find('\n'), std::string::npos);
  EXPECT_EQ(refusal({"--dataset", "--x\ny"}).find('\n'), std::string::npos);
}

TEST(TextThatSteersATerminal, AValueLongerThanAPathIsRefusedShortly) {
  const std::string message = refusal({"--dataset", std::string(100'000, 'A')});
  EXPECT_EQ(message, "--dataset: the value '" + std::string(80, 'A') +
                         "...' has 100000 bytes; accepted are at most 4096");
  EXPECT_LT(refusal({std::string(100'000, 'A')}).size(), 300u);
  EXPECT_LT(refusal({"--" + std::string(100'000, 'A')}).size(), 300u);
}

TEST(TextThatSteersATerminal, AConfigurationToo) {
  const std::string hostile = "\x1b[31m\n" + std::string(1000, 'X');
  for (const char* key : {"architectures", "model_type", "torch_dtype", "hidden_act"}) {
    Json config = {{"architectures", {"LlamaForCausalLM"}},
                   {"vocab_size", 10},
                   {"hidden_size", 8},
                   {"intermediate_size", 8},
                   {"num_hidden_layers", 1},
                   {"num_attention_heads", 1},
                   {"max_position_embeddings", 16},
                   {"torch_dtype", "float32"},
                   {"hidden_act", "silu"}};
    if (std::string(key) == "architectures") {
      config[key] = {hostile};
    } else {
      if (std::string(key) == "model_type") config.erase("architectures");
      config[key] = hostile;
    }
    testing::TempDir dir;
    testing::write_text(dir / "config.json", config.dump());
    const auto model = load_model_config(dir.path());
    ASSERT_FALSE(model.is_ok()) << key;
    EXPECT_THAT(model.status().message(), HasSubstr("\\x1b[31m\\x0a")) << key;
    EXPECT_EQ(model.status().message().find('\n'), std::string::npos) << key;
    EXPECT_LT(model.status().message().size(), 600u) << key;
  }
}

TEST(TextThatSteersATerminal, AWholeMessageKeepsItsLinesAndLetters) {
  EXPECT_EQ(without_control_characters("a\nb \xc3\xa9 \x1b[31m\t\x7f"), "a\nb \xc3\xa9 \\x1b[31m\\x09\\x7f");
}

}  // namespace
}  // namespace vllm
