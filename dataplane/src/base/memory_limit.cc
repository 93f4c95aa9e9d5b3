#include "base/memory_limit.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/size.h"

namespace peercache {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return std::nullopt;
  uint64_t number = 0;
  const auto [_, error] = std::from_chars(text.data() + start, text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The text behind `prefix` on the line that starts with it.
std::string LineAfter(const std::string& text, std::string_view prefix) {
  for (size_t start = 0; start < text.size();) {
    size_t end = text.find('\n', start);
    if (end == std::string::npos) end = text.size();
    if (text.compare(start, prefix.size(), prefix) == 0)
      return text.substr(start + prefix.size(), end - start - prefix.size());
    start = end + 1;
  }
  return {};
}

void Lower(MemoryLimit* limit, std::optional<uint64_t> bytes, std::string source) {
  if (!bytes || *bytes >= limit->bytes) return;
  *limit = {*bytes, std::move(source)};
}

}  // namespace

MemoryLimit ReadMemoryLimit(const std::string& proc, const std::string& cgroup) {
  MemoryLimit limit{UINT64_MAX, "no limit found"};
  if (auto kib = ParseNumber(LineAfter(ReadFile(proc + "/meminfo"), "MemTotal:")))
    Lower(&limit, *kib * 1024, "MemTotal of /proc/meminfo");
  const std::string groups = ReadFile(proc + "/self/cgroup");
  // cgroup v2: every ancestor may set a limit ("max": none).
  std::string path = LineAfter(groups, "0::");
  while (!path.empty()) {
    if (path.back() == '/') path.pop_back();
    Lower(&limit, ParseNumber(ReadFile(cgroup + path + "/memory.max")),
          fmt::format("memory.max of cgroup {}/", path));
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/') + 1);
  }
  // cgroup v1 as a container sees it: its own group is mounted at the root.
  Lower(&limit, ParseNumber(ReadFile(cgroup + "/memory/memory.limit_in_bytes")),
        "memory.limit_in_bytes of the memory cgroup");
  return limit;
}

Status CheckFits(std::string_view name, uint64_t size, const MemoryLimit& limit) {
  if (size <= limit.bytes) return {};
  return InvalidArgument(
      fmt::format("{}: {} do not fit into the {} that this process may use ({}); choose a smaller "
                  "size or raise that limit above it",
                  name, FormatSize(size), FormatSize(limit.bytes), limit.source));
}

HugePageCounts ReadHugePageCounts(uint64_t page_size, const std::string& root) {
  const std::string dir = fmt::format("{}/hugepages-{}kB/", root, page_size / 1024);
  HugePageCounts counts;
  counts.total = ParseNumber(ReadFile(dir + "nr_hugepages")).value_or(0);
  counts.free = ParseNumber(ReadFile(dir + "free_hugepages")).value_or(0);
  counts.reserved = ParseNumber(ReadFile(dir + "resv_hugepages")).value_or(0);
  return counts;
}

Status CheckHugePages(std::string_view name, uint64_t size, uint64_t page_size,
                      const HugePageCounts& counts) {
  const uint64_t need = (size + page_size - 1) / page_size;
  if (need <= counts.available()) return {};
  const uint64_t total = counts.total + need - counts.available();
  return ResourceExhausted(fmt::format(
      "{}: {} need {} huge pages of {}, {} are available ({} total, {} free, {} reserved); run "
      "'echo {} > /sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages' on the machine, choose a "
      "smaller size, or set huge pages to off",
      name, FormatSize(size), need, FormatSize(page_size), counts.available(), counts.total,
      counts.free, counts.reserved, total, page_size / 1024));
}

}  // namespace peercache
