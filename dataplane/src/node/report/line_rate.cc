#include "node/report/line_rate.h"

#include <fmt/format.h>

#include "base/small_file.h"

namespace peercache {

double LineRate(const std::string& rail, const std::string& sysfs) {
  const size_t mark = rail.rfind(':');
  if (mark == std::string::npos) return 0;
  const std::string text = ReadSmallFile(fmt::format("{}/class/infiniband/{}/ports/{}/rate", sysfs,
                                                     rail.substr(0, mark), rail.substr(mark + 1)));
  // "400 Gb/sec (4X NDR)"
  return ParseLeadingNumber<double>(text).value_or(0) * 1e9 / 8;
}

}  // namespace peercache
