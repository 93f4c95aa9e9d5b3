#include "bench/eviction/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace peercache::bench {
namespace {

constexpr uint32_t kMostPages = 1u << 30;  // keeps every sum within 32 bits

bool ParseRun(std::string_view text, PageRun* run) {
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, run->first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') return false;
  const auto count = std::from_chars(first.ptr + 1, end, run->count);
  return count.ec == std::errc() && count.ptr == end && run->first < kMostPages &&
         run->count < kMostPages;
}

bool ParseLine(const std::string& line, Request* request) {
  std::istringstream words(line);
  std::string kind, word;
  if (!(words >> kind) || (kind != "c" && kind != "d")) return false;
  while (words >> word) {
    const bool answer = word[0] == '+';
    PageRun run;
    if (!ParseRun(std::string_view(word).substr(answer ? 1 : 0), &run)) return false;
    if (answer)
      request->answer = run;
    else
      request->prompt.push_back(run);
  }
  return true;
}

size_t CountDistinct(const Trace& trace) {
  std::vector<bool> seen(trace.page_numbers);
  for (const Request& request : trace.requests) {
    ForEachPage(request.prompt, [&](uint32_t page) { seen[page] = true; });
    ForEachPage({request.answer}, [&](uint32_t page) { seen[page] = true; });
  }
  return static_cast<size_t>(std::count(seen.begin(), seen.end(), true));
}

}  // namespace

Result<Trace> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    return Status(Code::kNotFound,
                  fmt::format("{} cannot be read; write it with sessions.py", path));
  Trace trace;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.starts_with('#')) {
      if (trace.origin.empty()) trace.origin = line.substr(std::min<size_t>(2, line.size()));
      continue;
    }
    Request request;
    if (!ParseLine(line, &request))
      return InvalidArgument(fmt::format("{}:{}: \"{}\" is not KIND FIRST:COUNT... [+FIRST:COUNT]",
                                         path, number, line));
    for (const PageRun& run : request.prompt)
      trace.page_numbers = std::max(trace.page_numbers, run.first + run.count);
    trace.page_numbers = std::max(trace.page_numbers, request.answer.first + request.answer.count);
    trace.requests.push_back(std::move(request));
  }
  trace.footprint = CountDistinct(trace);
  return trace;
}

}  // namespace peercache::bench
