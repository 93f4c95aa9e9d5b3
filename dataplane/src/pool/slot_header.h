// SlotHeader: the 64 bytes before a page in its slot, read after the page by remote READs and
// checked against the record that led there. A record's offset is that of the header.
//
// A slot begins with kSlotLead bytes that nobody uses, so that the page, which follows the header,
// begins on a block of 512 bytes: a disk reads and writes it where it lies (O_DIRECT).
#pragma once

#include <cstddef>
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

  // It is of a page of this key and length; which of that key's, its generation says.
  bool IsOf(const Key& page, uint32_t page_length) const {
    return magic == kMagic && length == page_length && key == page;
  }
};
static_assert(sizeof(SlotHeader) == 64 && std::is_trivially_copyable_v<SlotHeader>);

inline constexpr size_t kPageAlignment = 512;  // of a page in the pool
inline constexpr size_t kSlotLead = kPageAlignment - sizeof(SlotHeader);

}  // namespace peercache
