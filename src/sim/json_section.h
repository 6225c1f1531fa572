#pragma once

// One object of a configuration file: its members by kind, with errors that name file and field, and the keys
// that nobody asked for. The first error is kept; values read after it mean nothing.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/json_fwd.h"

namespace vllm {

class JsonSection {
 public:
  // `json` outlives the section; what is no object is an error. `field` is the section's own place
  // ("nodes[0]").
  JsonSection(const Json& json, std::string path, std::string field, std::shared_ptr<Status> status);

  bool has(const std::string& key);  // present and not null
  // Absent (or null) gives `absent`.
  int64_t integer(const std::string& key, int64_t absent, int64_t low, int64_t high);
  double number(const std::string& key, double absent, double low, double high);
  bool boolean(const std::string& key, bool absent);
  std::string text(const std::string& key, const std::string& absent);
  // As above, but absence is an error.
  int64_t needed_integer(const std::string& key, int64_t low, int64_t high);
  double needed_number(const std::string& key, double low, double high);
  std::string needed_text(const std::string& key);

  // A member of any kind; nullptr when it is absent.
  const Json* raw(const std::string& key);
  JsonSection object(const std::string& key);  // an empty one when it is absent
  JsonSection needed_object(const std::string& key);

  std::string name(const std::string& key) const;               // "nodes[0].cpu_mem"
  void fail(const std::string& key, const std::string& why);    // "<path>: '<name>' <why>", exit code 2
  void refuse(const std::string& key, const std::string& why);  // the same, as a refusal
  bool ok() const { return status_->is_ok(); }
  const Status& status() const { return *status_; }
  const std::shared_ptr<Status>& shared_status() const { return status_; }

  // The names of members that were never asked for.
  std::vector<std::string> unread() const;

 private:
  void reject(const std::string& key, const Json& value, const std::string& accepted);

  const Json* json_;
  std::string path_, field_;
  std::shared_ptr<Status> status_;
  std::set<std::string> read_;
};

}  // namespace vllm
