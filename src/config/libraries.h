#pragma once

// Name and version of every library that is linked, in alphabetical order, for --version and meta.json.

#include <string>
#include <utility>
#include <vector>

namespace vllm {

std::vector<std::pair<std::string, std::string>> linked_libraries();

}  // namespace vllm
