// Reading and writing the two superblocks of a device. Both say the same: what one flipped bit or
// one torn write takes away, the other still has. So a copy is on the device before the other one
// is begun, and the newer one of those that were read is overwritten last.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "disk/device.h"
#include "disk/format.h"

namespace peercache::disk {

struct FoundSuperblock {
  std::optional<Superblock> superblock;
  size_t copy = 0;      // where it was
  std::string why_not;  // for the log, when a file that was there cannot be used
};

// Fails for a file of a newer format or of another cluster, and when the device does.
Result<FoundSuperblock> LoadSuperblock(Device* device, const std::string& cluster);

// Writes both copies, each with a sync, without waiting: so that many devices do so at once.
class SuperblockWriter {
 public:
  static constexpr int kSteps = 4;

  // `keep`: the copy that is overwritten last.
  explicit SuperblockWriter(size_t keep = 0) : keep_(keep) {}
  // Counts `written` up. Not while one is under way.
  void Start(Device* device, Superblock* superblock);
  bool under_way() const { return transfer_ != nullptr; }
  // Waits for the step under way, and begins the next one. False: it is the last one, or it has not
  // ended by then, or has failed.
  bool Advance(TimePoint deadline);
  // ok: both are on the device (fdatasync). Nothing: they are not by then; ask again.
  std::optional<Status> Await(TimePoint deadline);

 private:
  void Begin();

  Device* device_ = nullptr;
  std::shared_ptr<Transfer> transfer_;  // while one is under way
  size_t keep_;
  int step_ = 0;
};

// The same, and waits.
Status SaveSuperblock(SuperblockWriter* writer, Device* device, Superblock* superblock);

}  // namespace peercache::disk
