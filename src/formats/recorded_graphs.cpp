#include "formats/recorded_graphs.h"

#include <algorithm>

#include "formats/json.h"
#include "formats/printable.h"

namespace vllm {
namespace {

constexpr size_t kMaxSizes = 4096;

Status wrong_sizes(const std::string& path, const char* key, const std::string& value) {
  return bad_input("{}: '{}' is {}; a list of whole numbers of at least 1 is needed", path, key,
                   printable(value));
}

// A list, or the text of one as Python prints it.
Result<std::vector<int64_t>> read_sizes(const Json& value, const char* key, const std::string& path) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "None" || text.empty()) return std::vector<int64_t>{};
    const auto parsed = parse_json(text, path);
    if (!parsed || !parsed->is_array()) return wrong_sizes(path, key, text);
    return read_sizes(*parsed, key, path);
  }
  std::vector<int64_t> sizes;
  if (value.is_null()) return sizes;
  const bool fine =
      value.is_array() && value.size() <= kMaxSizes &&
      std::all_of(value.begin(), value.end(), [](const Json& size) {
        return size.is_number_integer() && size.get<int64_t>() >= 1 && size.get<int64_t>() <= INT32_MAX;
      });
  if (!fine) return wrong_sizes(path, key, value.dump(-1, ' ', false, Json::error_handler_t::replace));
  for (const Json& size : value) sizes.push_back(size.get<int64_t>());
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace

Result<RecordedGraphs> recorded_graphs(const Json& meta, int64_t max_num_seqs, const std::string& path) {
  RecordedGraphs graphs;
  if (!meta.is_object()) return graphs;
  if (const auto found = meta.find("capture_sizes"); found != meta.end()) {
    graphs.known = true;
    VLLM_ASSIGN_OR_RETURN(graphs.sizes, read_sizes(*found, "capture_sizes", path));
    const auto mode = meta.find("cudagraph_mode");
    const std::string name =
        mode != meta.end() && mode->is_string() ? mode->get<std::string>() : "FULL_AND_PIECEWISE";
    if (name.find("NONE") != std::string::npos) graphs.sizes.clear();
    const bool whole = name.find("FULL") != std::string::npos;
    if (whole && !graphs.sizes.empty()) graphs.full_rows = std::min(max_num_seqs, graphs.sizes.back());
    return graphs;
  }
  const auto execution = meta.find("execution");
  if (execution == meta.end() || !execution->is_object()) return graphs;
  const auto whole = execution->find("full_capture_sizes");
  const auto pieces = execution->find("piecewise_capture_sizes");
  if (whole != execution->end()) {
    graphs.known = true;
    VLLM_ASSIGN_OR_RETURN(graphs.sizes, read_sizes(*whole, "execution.full_capture_sizes", path));
    if (!graphs.sizes.empty()) graphs.full_rows = graphs.sizes.back();
  }
  if (pieces != execution->end()) {
    graphs.known = true;
    VLLM_ASSIGN_OR_RETURN(const auto more, read_sizes(*pieces, "execution.piecewise_capture_sizes", path));
    graphs.sizes.insert(graphs.sizes.end(), more.begin(), more.end());
    std::sort(graphs.sizes.begin(), graphs.sizes.end());
    graphs.sizes.erase(std::unique(graphs.sizes.begin(), graphs.sizes.end()), graphs.sizes.end());
  }
  return graphs;
}

}  // namespace vllm
