// /metrics in Prometheus text format.
#pragma once

#include <string>

namespace peercache {

struct Scrape;  // metric_families.h

// The exposition of one scrape: every series of every family. Pure.
std::string MetricsText(const Scrape& scrape);

}  // namespace peercache
