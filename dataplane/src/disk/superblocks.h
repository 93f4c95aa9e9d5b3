// Reading and writing the two superblocks of a device. Both say the same: what one flipped bit or
// one torn write takes away, the other still has. So a copy is on the device before the other one
// is begun, and the newer one of those that were read is overwritten last.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "disk/device.h"
#include "disk/format.h"

namespace peercache::disk {

struct FoundSuperblock {
  std::optional<Superblock> superblock;
  size_t copy = 0;      // where it was
  std::string why_not;  // for the log, when a file that was there cannot be used
};

// Of a file that was there when it was opened, or that this process has written to since. Fails for
// a file of a newer format or of another cluster, and when the device does.
Result<FoundSuperblock> LoadSuperblock(Device* device, const std::string& cluster);

struct SuperblockToSave {
  Device* device = nullptr;
  Superblock* superblock = nullptr;  // its `written` is counted up
  size_t keep = 0;                   // the copy that is overwritten last
};

// Writes both copies, each with a sync, on all devices at once. Waits for each until it has ended,
// or the device is off. [i] is ok: both are on all[i].device (fdatasync).
std::vector<Status> SaveSuperblocks(std::span<const SuperblockToSave> all);

}  // namespace peercache::disk
