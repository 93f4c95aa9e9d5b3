#include "base/thread_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "base/small_file.h"

namespace peercache {
namespace {

// By which RLIMIT_NPROC does not bind.
constexpr uint64_t kSysAdmin = uint64_t{1} << 21, kSysResource = uint64_t{1} << 24;

// Whether the comma-separated list has the word.
bool Lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// Behind `name` in the line that begins with it, without blanks.
std::string Field(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    line.erase(0, name.size());
    return line.erase(0, line.find_first_not_of(" \t"));
  }
  return {};
}

void Lower(ThreadLimit* limit, std::optional<uint64_t> most, std::optional<uint64_t> used,
           std::string source) {
  if (!most) return;  // "max", "unlimited", or no such file
  const uint64_t free = *most - std::min(*most, used.value_or(0));
  if (free < limit->free) *limit = {free, std::move(source)};
}

// The group and its ancestors, each of which may set a limit.
void LowerByGroups(ThreadLimit* limit, const std::string& root, std::string group) {
  for (;;) {
    if (group.ends_with('/')) group.pop_back();
    const std::string folder = root + group;
    Lower(limit, ReadNumber<uint64_t>(folder + "/pids.max"),
          ReadNumber<uint64_t>(folder + "/pids.current"),
          fmt::format("pids.max of cgroup {}/", group));
    if (group.empty()) return;
    group.resize(std::min(group.find_last_of('/'), group.size()));
  }
}

}  // namespace

ThreadLimit ReadThreadLimit(const std::string& proc, const std::string& cgroup) {
  ThreadLimit limit;
  std::ifstream groups(proc + "/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // NUMBER:CONTROLLERS:GROUP
    const size_t controllers = std::min(line.find(':'), line.size() - 1) + 1;
    const size_t colon = line.find(':', controllers);
    if (colon == std::string::npos) continue;
    const std::string_view list = std::string_view(line).substr(controllers, colon - controllers);
    if (list.empty()) LowerByGroups(&limit, cgroup, line.substr(colon + 1));  // version 2
    if (Lists(list, "pids")) LowerByGroups(&limit, cgroup + "/pids", line.substr(colon + 1));
  }
  const std::string status = proc + "/self/status";
  const uint64_t may = ParseLeadingNumber<uint64_t>("0x" + Field(status, "CapEff:")).value_or(0);
  const auto user = ParseLeadingNumber<uint64_t>(Field(status, "Uid:"));
  if ((may & (kSysAdmin | kSysResource)) == 0 && user != uint64_t{0}) {
    Lower(&limit, ParseLeadingNumber<uint64_t>(Field(proc + "/self/limits", "Max processes")),
          ParseLeadingNumber<uint64_t>(Field(status, "Threads:")), "ulimit -u");
  }
  return limit;
}

Status CheckThreads(uint64_t needed, const ThreadLimit& limit) {
  if (needed <= limit.free) return {};
  return ResourceExhausted(
      fmt::format("{} threads are needed, and {} more can be started ({}): raise that limit",
                  needed, limit.free, limit.source));
}

}  // namespace peercache
