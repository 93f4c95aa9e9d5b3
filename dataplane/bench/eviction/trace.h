// Trace: what engines ask of a pool, one request after the other, as sessions.py writes it. Pages
// are numbers; a prompt is a few runs of consecutive ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace peercache::bench {

struct PageRun {
  uint32_t first = 0, count = 0;
};

struct Request {
  std::vector<PageRun> prompt;  // asked for, in this order
  PageRun answer;               // stored afterwards
};

struct Trace {
  std::string origin;  // the comment at its top: how it was made
  std::vector<Request> requests;
  uint32_t page_numbers = 0;  // all are below
  size_t footprint = 0;       // distinct pages
};

// Errors name the file and the line.
Result<Trace> ReadTrace(const std::string& path);

template <typename Fn>
void ForEachPage(const std::vector<PageRun>& runs, const Fn& fn) {
  for (const PageRun& run : runs)
    for (uint32_t page = run.first; page < run.first + run.count; ++page) fn(page);
}

}  // namespace peercache::bench
