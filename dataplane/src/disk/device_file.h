// The file of one device: a file in a folder that the user names. Found or made, locked for one
// process, opened for direct I/O, and given all its space at once. Errors name path, need and fix.
//
// The file is for its user alone, and a link is not followed: pages that somebody else has written
// would be served as this node's.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace peercache::disk {

inline constexpr char kFileName[] = "peercache.disk";

struct DeviceFile {
  std::string path;
  UniqueFd fd;
  uint64_t bytes = 0;  // as it was found
  // What the address of memory must be a multiple of.
  uint32_t memory_alignment = 0;
};

// Waits until `give_up` for another process that has the file and may be about to end.
Result<DeviceFile> OpenDeviceFile(const std::string& folder, TimePoint give_up);

// Makes it `bytes` long, with all blocks there: what is written later cannot lack space, unless
// the device lies (thin volumes, copy on write).
Status ReserveSpace(const DeviceFile& file, uint64_t bytes);

}  // namespace peercache::disk
