// What the directory has of a page on disk, in the 32 bits that the tier keeps beside it: the
// indices of two shards, plus 1, or "everywhere". Two fit: the current and the next owner.
#pragma once

#include <cstdint>

#include "pool/published_to.h"

namespace peercache {

inline constexpr uint32_t kEverywhereNote = UINT32_MAX;

inline PublishedTo FromNote(uint32_t note) {
  PublishedTo to;
  if (note == kEverywhereNote) {
    to.everywhere = true;
    return to;
  }
  for (; note != 0; note >>= 16)
    if ((note & 0xffff) != 0) to.Add(static_cast<uint16_t>((note & 0xffff) - 1));
  return to;
}

inline uint32_t ToNote(const PublishedTo& to) {
  if (to.everywhere || to.count > 2) return kEverywhereNote;
  uint32_t note = 0;
  for (int i = 0; i < to.count; ++i) {
    if (to.peers[i] == UINT16_MAX) return kEverywhereNote;
    note = note << 16 | (uint32_t{to.peers[i]} + 1);
  }
  return note;
}

}  // namespace peercache
