#include "base/machine.h"

#include <algorithm>
#include <span>
#include <string>

#include "base/checksum.h"
#include "base/small_file.h"

namespace peercache {

uint32_t ThisMachine() {
  const std::string boot = ReadSmallFile("/proc/sys/kernel/random/boot_id");
  if (boot.empty()) return 0;
  return std::max(static_cast<uint32_t>(Checksum(std::as_bytes(std::span(boot)))), 1u);
}

}  // namespace peercache
