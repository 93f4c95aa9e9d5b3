#include "base/cpu_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace peercache {
namespace {

// More than any kernel is built for (NR_CPUS is 8192 at most); bounds what a broken file can ask.
constexpr int kMostCpus = 1 << 16;

bool ParseRange(std::string_view text, std::vector<int>* out) {
  const char* const end = text.data() + text.size();
  int first = 0;
  auto [at, error] = std::from_chars(text.data(), end, first);
  if (error != std::errc()) return false;
  int last = first;
  if (at != end) {
    if (*at != '-') return false;
    const auto parsed = std::from_chars(at + 1, end, last);
    if (parsed.ec != std::errc() || parsed.ptr != end) return false;
  }
  if (first < 0 || last < first || last >= kMostCpus) return false;
  for (int cpu = first; cpu <= last; ++cpu) out->push_back(cpu);
  return true;
}

}  // namespace

Result<std::vector<int>> ParseCpuList(std::string_view text) {
  std::vector<int> cpus;
  if (text.empty()) return cpus;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    if (!ParseRange(text.substr(start, end - start), &cpus))
      return InvalidArgument(fmt::format("\"{}\" is not a list of CPUs such as 0-3,8", text));
    start = end + 1;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string FormatCpuList(const std::vector<int>& sorted) {
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? std::to_string(sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace peercache
