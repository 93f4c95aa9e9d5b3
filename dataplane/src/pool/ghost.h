// Ghost: remembers which keys went lately, without their pages. A table of fixed size that holds 32
// bits of a key and when it went, in buckets of one cache line; a full bucket forgets its oldest
// entry. What went more than `window` departures ago is not remembered.
//
// Add and Take are O(1) and allocate nothing. Two keys are taken for each other with a probability
// of 2^-29 per Take; that costs a misplaced page, never a wrong one. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/key.h"

namespace peercache {

class Ghost {
 public:
  // For about `capacity` keys, at 8 to 16 bytes each.
  explicit Ghost(size_t capacity);

  void Add(const Key& key);
  // Whether the key is remembered; it is not any more afterwards.
  bool Take(const Key& key);
  // How many departures back the memory reaches; at most the capacity, which is the start value.
  void SetWindow(size_t departures);
  size_t capacity() const { return capacity_; }

 private:
  struct Entry {
    uint32_t fingerprint = 0;
    uint32_t departure = 0;
  };
  static constexpr size_t kWays = 8;
  struct alignas(64) Bucket {
    std::array<Entry, kWays> entries;
  };

  Bucket& BucketOf(const Key& key) { return buckets_[key.Word(2) & mask_]; }
  static uint32_t FingerprintOf(const Key& key) { return static_cast<uint32_t>(key.Word(3)); }
  // Departures wrap after 2^32; all differences that matter are far below.
  uint32_t Age(const Entry& entry) const { return departures_ - entry.departure; }

  const size_t capacity_;
  std::vector<Bucket> buckets_;  // a power of two
  size_t mask_;
  uint32_t window_;
  uint32_t departures_;
};

}  // namespace peercache
