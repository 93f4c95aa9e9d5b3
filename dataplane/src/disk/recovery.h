// Recovery: finds out what is on a device after a start, while it is used already.
//
//   Probe    reads the first two contents blocks of each region: how old is it, is there anything?
//            After that the log may write: free regions first, else the oldest, unread.
//   Read     takes the pages of one region into the catalog. The youngest region goes first,
//            because engines most likely ask for its pages.
//
// Nothing is believed without its checksum; what is not is counted by its reason. Pages are not
// looked at: each read verifies its own.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "disk/catalog.h"
#include "disk/counts.h"
#include "disk/device.h"
#include "disk/format.h"
#include "disk/regions.h"

namespace peercache::disk {

class Recovery {
 public:
  Recovery(uint16_t number, uint64_t file_id, const Geometry& geometry, Device* device,
           Regions* regions, Catalog* catalog, Counts* counts)
      : number_(number),
        file_id_(file_id),
        geometry_(geometry),
        device_(device),
        regions_(regions),
        catalog_(catalog),
        counts_(counts) {}

  // False: the device went off; probes the other regions when it is back.
  bool Probe();
  // Before the first Read after the device was off.
  void Restart() { ahead_ = {}; }
  // Does nothing when the region has been given up meanwhile. `next`, if any, is begun to be read:
  // the device works while pages are taken in.
  void Read(uint32_t region, std::optional<uint32_t> next);

 private:
  // Blocks of one read, in which a valid one is looked for: torn ones may lie between others.
  static constexpr uint32_t kBlocksPerRead = 16;
  // Regions that are probed at a time.
  static constexpr uint32_t kProbes = 32;

  // Begins to read the contents blocks of a region from `first` on.
  std::shared_ptr<Transfer> Begin(uint32_t region, uint32_t first) const;
  uint32_t BlocksFrom(uint32_t first) const {
    return std::min(kBlocksPerRead, geometry_.contents_blocks() - first);
  }
  // Takes in the pages of these blocks; raises *epoch when a younger block is among them. How many
  // blocks were valid and of the epoch.
  uint32_t Take(std::span<const std::byte> blocks, uint32_t region, uint64_t* epoch);
  void TakePages();

  const uint16_t number_;
  const uint64_t file_id_;
  const Geometry geometry_;
  Device* const device_;
  Regions* const regions_;
  Catalog* const catalog_;
  Counts* const counts_;
  struct {
    uint32_t region = 0;
    std::shared_ptr<Transfer> transfer;  // of its first blocks; null: none was begun
  } ahead_;
  ContentsBlock block_;
  std::vector<DiskPage> stored_;
};

}  // namespace peercache::disk
