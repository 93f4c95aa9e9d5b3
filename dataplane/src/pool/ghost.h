// Ghost: remembers which keys went lately, without their pages. A table that holds 32 bits of a key
// and when it went, in buckets of one cache line; a full bucket forgets its oldest entry. What went
// more than `window` departures ago is not remembered.
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
  explicit Ghost(size_t window);

  void Add(const Key& key);
  // Whether the key is remembered; it is not any more afterwards.
  bool Take(const Key& key);
  // How many departures back the memory reaches, at 8 to 26 bytes each. When it grows beyond what
  // the table was made for, the table is made anew and empty: a pool sets this when it first has to
  // evict and seldom again.
  void SetWindow(size_t departures);

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

  void MakeTable(size_t window);

  std::vector<Bucket> buckets_;  // a power of two
  size_t mask_ = 0;
  uint32_t capacity_ = 0;  // windows up to this one fit
  uint32_t window_ = 0;
  uint32_t departures_ = 0;
};

}  // namespace peercache
