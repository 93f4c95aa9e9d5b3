// Reading and writing the two superblocks of a device. The one that is not the newer is written, so
// a torn write leaves the other.
#pragma once

#include <memory>
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

// Writes a superblock and syncs it, without waiting: so that many devices do so at once.
class SuperblockWriter {
 public:
  // Counts `written` up. Not while one is under way.
  void Start(Device* device, Superblock* superblock);
  bool under_way() const { return transfer_ != nullptr; }
  // Begins the sync when the write has ended, for which it waits.
  void AwaitWritten(TimePoint deadline);
  // ok: it is on the device (fdatasync). Nothing: it has not ended by then; ask again.
  std::optional<Status> Await(TimePoint deadline);

 private:
  Device* device_ = nullptr;
  std::shared_ptr<Transfer> transfer_;  // while it is under way
  bool syncing_ = false;
};

// The same, and waits.
Status SaveSuperblock(Device* device, Superblock* superblock);

}  // namespace peercache::disk
