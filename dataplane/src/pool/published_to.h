// PublishedTo: the shards that may hold a page's record, as indices of the publisher's peer table.
// Withdrawal must reach each of them before the slot is reused. Four fit, which covers the current
// and the next owner during two ring changes in a row; beyond that `everywhere` is set and
// withdrawal goes to all peers.
#pragma once

#include <array>
#include <cstdint>

namespace peercache {

struct PublishedTo {
  static constexpr int kMax = 4;
  std::array<uint16_t, kMax> peers{};
  uint8_t count = 0;
  bool everywhere = false;

  // It may have a record.
  bool Contains(uint16_t peer) const { return everywhere || Names(peer); }
  // It was sent one.
  bool Names(uint16_t peer) const {
    for (int i = 0; i < count; ++i)
      if (peers[i] == peer) return true;
    return false;
  }
  void Add(uint16_t peer) {
    if (Contains(peer)) return;
    if (count == kMax) {
      everywhere = true;
      return;
    }
    peers[count++] = peer;
  }
  void Remove(uint16_t peer) {
    for (int i = 0; i < count; ++i) {
      if (peers[i] != peer) continue;
      peers[i] = peers[--count];
      return;
    }
  }
};

}  // namespace peercache
