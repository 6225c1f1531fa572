# Run as a script by vllm_version_source.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE rc)
if(NOT rc EQUAL 0)
  set(COMMIT "unknown")
else()
  execute_process(COMMAND git -C ${SOURCE_DIR} status --porcelain --untracked-files=no
    OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(changes)
    string(APPEND COMMIT "-dirty")
  endif()
endif()
set(text "// Written by cmake/WriteVersion.cmake.
#include \"base/version.h\"
namespace vllm {
const char* version_string() { return \"${VERSION}\"; }
const char* version_commit() { return \"${COMMIT}\"; }
const char* version_build_type() { return \"${BUILD_TYPE}\"; }
const char* version_sanitizers() { return \"${SANITIZE}\"; }
}  // namespace vllm
")
file(WRITE ${OUTPUT}.new "${text}")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${OUTPUT}.new ${OUTPUT})
