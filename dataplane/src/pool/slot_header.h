// SlotHeader: the first 64 bytes of a slot, read together with the payload by remote READs and
// checked against the record that led there.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/key.h"

namespace peercache {

struct SlotHeader {
  uint32_t magic = kMagic;
  uint32_t length = 0;  // payload bytes
  Key key;
  uint64_t generation = 0;  // increases with every use of the slot; never 0 for a page
  uint64_t checksum = 0;    // xxh3-64 of the payload; 0: not computed
  uint64_t tag = 0;         // namespace tag, for clear

  static constexpr uint32_t kMagic = 0x50435331;  // "PCS1"
};
static_assert(sizeof(SlotHeader) == 64 && std::is_trivially_copyable_v<SlotHeader>);

}  // namespace peercache
