// Which of several holders of a page a reader is sent to: each pair of reader and key has its own
// random order of them, which spreads readers.
#pragma once

#include <cstdint>

#include "base/key.h"

namespace peercache {

inline uint64_t Preference(uint64_t reader, uint64_t node, const Key& key) {
  uint64_t x = (reader * 0x9e3779b97f4a7c15) ^ (node * 0xc2b2ae3d27d4eb4f) ^ key.Word(3);
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

}  // namespace peercache
