// KeyIndex: key -> slot of every ready page. Open addressing with linear probing; the table holds
// the hash beside the pointer, so a probe touches a slot only when 64 bits of the key agree, and
// growing touches none. Removal shifts back, so there are no tombstones and lookups stay short for
// ever. Find allocates nothing. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/key.h"
#include "pool/slot.h"

namespace peercache {

class KeyIndex {
 public:
  // Room for about `expected` keys before the table first grows (and all are re-placed).
  explicit KeyIndex(size_t expected);

  Slot* Find(const Key& key) const;
  // slot->key must not be in the index.
  void Insert(Slot* slot);
  // slot must be in the index.
  void Erase(const Slot* slot);
  // Fetches into the cache what Find(key) looks at first.
  void Prefetch(const Key& key) const { __builtin_prefetch(&buckets_[KeyHash()(key) & mask_]); }
  size_t size() const { return size_; }

 private:
  struct Bucket {
    uint64_t hash = 0;
    Slot* slot = nullptr;
  };
  void Place(const Bucket& bucket);
  void Grow();

  std::vector<Bucket> buckets_;  // a power of two
  size_t mask_ = 0;
  size_t size_ = 0;
};

}  // namespace peercache
