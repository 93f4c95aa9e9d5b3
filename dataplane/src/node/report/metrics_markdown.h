// The page docs/metrics.md, made from the table of metrics (metric_families.h). Pure.
#pragma once

#include <string>

namespace peercache {

std::string MetricsMarkdown();

}  // namespace peercache
