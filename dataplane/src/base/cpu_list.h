// Lists of CPUs, NUMA nodes and the like, as the kernel writes them: "0-3,8,10-11".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace peercache {

// Sorted, each number once. Empty text is an empty list: a node without CPUs has one.
Result<std::vector<int>> ParseCpuList(std::string_view text);
std::string FormatCpuList(const std::vector<int>& sorted);

}  // namespace peercache
