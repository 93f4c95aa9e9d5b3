// Reading and writing the two superblocks of a device. The one that is not the newer is written, so
// a torn write leaves the other.
#pragma once

#include <optional>
#include <string>

#include "disk/device.h"
#include "disk/format.h"

namespace peercache::disk {

struct FoundSuperblock {
  std::optional<Superblock> superblock;
  std::string why_not;  // for the log, when a file that was there cannot be used
};

// Fails for a file of a newer format or of another cluster, and when the device does.
Result<FoundSuperblock> LoadSuperblock(Device* device, const std::string& cluster);

// Counts `written` up; ok: it is on the device (fdatasync).
Status SaveSuperblock(Device* device, Superblock* superblock);

}  // namespace peercache::disk
