#pragma once

// What this build is; the same facts appear in --version and in meta.json (libraries: config/libraries.h).

namespace vllm {

const char* version_string();      // "0.1.0"
const char* version_commit();      // short hash, "-dirty" appended for a changed tree, or "unknown"
const char* version_build_type();  // "Release"
const char* version_sanitizers();  // "" or "address,undefined"

}  // namespace vllm
