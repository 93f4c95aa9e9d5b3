// DiskPage: what is known of a page on disk, without its bytes.
#pragma once

#include <cstdint>

#include "base/key.h"

namespace peercache::disk {

// A region of any device.
struct RegionId {
  uint16_t device = 0;
  uint32_t region = 0;
  friend bool operator==(const RegionId&, const RegionId&) = default;
};

// A page on disk.
struct DiskPage {
  Key key;
  uint64_t checksum = 0;
  uint64_t tag = 0;
  uint64_t sequence = 0;  // names this page among all that ever had its key
  RegionId at = {};
  uint32_t offset = 0;  // from the beginning of the region
  uint32_t length = 0;
  uint32_t note = 0;  // the caller's
  bool read = false;  // since it was written
  // Whose page it is: the caller's number. Memory keeps it, the disk does not: 0 after a start.
  uint8_t owner = 0;
};

}  // namespace peercache::disk
