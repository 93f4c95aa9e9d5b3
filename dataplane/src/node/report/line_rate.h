// LineRate: what the port of a rail can carry, for the dashboard.
#pragma once

#include <string>

namespace peercache {

// Bytes per second, as the kernel has it for the port of `rail`, such as "mlx5_0:1"; 0: not known.
// `sysfs`: the root of that file system. Reads one small file, which blocks nothing.
double LineRate(const std::string& rail, const std::string& sysfs = "/sys");

}  // namespace peercache
