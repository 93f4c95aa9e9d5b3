// SeededHash: the hash of a key for tables in this process's memory.
//
// Engines and peers say which keys there are. Who knew the hash could fill a table with keys of one
// hash: each lookup would walk through all of them, with a lock held. So a seed that each process
// draws anew goes into the hash, and all words of the key.
//
// Nothing that another process reads, now or later, may depend on it: files, messages, the buckets
// of directory/buckets.h.
//
// Costs: two multiplications beside each other and one after them: two nanoseconds. 32 bytes in
// each table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/key.h"

namespace peercache {

class SeededHash {
 public:
  using Seed = std::array<uint64_t, 4>;

  // With the seed of this process.
  SeededHash() : seed_(OfProcess()) {}
  explicit SeededHash(const Seed& seed) : seed_(seed) {}

  // All bits are as good as any others.
  size_t operator()(const Key& key) const {
    const uint64_t both = Fold(key.Word(0) ^ seed_[0], key.Word(1) ^ seed_[1]) ^
                          Fold(key.Word(2) ^ seed_[2], key.Word(3) ^ seed_[3]);
    // Keys that differ in one word alone have moved along a line whose step is a word of the seed;
    // in one process of thirty that step has too few bits at one end.
    return Fold(both, kGolden);
  }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / phi, odd
  static const Seed& OfProcess();
  static uint64_t Fold(uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  }

  Seed seed_;
};

}  // namespace peercache
