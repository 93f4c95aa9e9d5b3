// SplitMix64: numbers to words that look random, and the keys that tests and benchmarks give to
// numbers. The same in every process and release: one process finds what another has set.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/key.h"

namespace peercache {

// A bijection. Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
inline uint64_t SplitMix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

inline Key NumberedKey(uint64_t number) {
  Key key;
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t word = SplitMix64(number * 4 + i);
    std::memcpy(key.bytes.data() + 8 * i, &word, sizeof(word));
  }
  return key;
}

}  // namespace peercache
