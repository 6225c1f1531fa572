#include "base/status.h"

namespace vllm {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return bad_input("{} is odd", n);
  return n / 2;
}

Result<int> quarter(int n) {
  VLLM_ASSIGN_OR_RETURN(const int h, half(n));
  VLLM_ASSIGN_OR_RETURN(const int q, half(h));
  return q;
}

Status check_quarter(int n) {
  VLLM_RETURN_IF_ERROR(quarter(n).status());
  return Status::ok();
}

TEST(Status, CarriesCodeAndMessageThroughTheMacros) {
  EXPECT_EQ(quarter(8).value(), 2);
  const auto result = quarter(6);
  ASSERT_FALSE(result.is_ok());
  EXPECT_EQ(result.status().code(), StatusCode::kBadInput);
  EXPECT_EQ(result.status().message(), "3 is odd");
  EXPECT_EQ(check_quarter(6).message(), "3 is odd");
  EXPECT_TRUE(check_quarter(8).is_ok());
}

TEST(Status, ContextComesInFrontAndLeavesSuccessAlone) {
  EXPECT_EQ(bad_input("x").with_context("a.json").message(), "a.json: x");
  EXPECT_TRUE(Status::ok().with_context("a.json").is_ok());
}

TEST(Status, ExitCodesSeparateRefusalFromFailure) {
  EXPECT_EQ(exit_code(Status::ok()), 0);
  EXPECT_EQ(exit_code(failed("x")), 1);
  EXPECT_EQ(exit_code(io_error("x")), 1);
  EXPECT_EQ(exit_code(aborted("x")), 1);
  EXPECT_EQ(exit_code(usage_error("x")), 2);
  EXPECT_EQ(exit_code(bad_input("x")), 2);
  EXPECT_EQ(exit_code(refused("x")), 2);
}

}  // namespace
}  // namespace vllm
