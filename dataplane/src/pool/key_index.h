// KeyIndex: key -> slot of every ready page. Open addressing with linear probing; the table holds
// the hash beside the pointer, so a probe touches a slot only when 64 bits of the key agree, and
// growing touches none. Removal shifts back, so there are no tombstones and lookups stay short for
// ever. Not thread-safe.
//
// Costs: all operations take a few probes. Find allocates nothing. A table that grows moves its
// entries a few with each Insert, and meanwhile Find looks into two tables; no operation is as long
// as the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/key.h"
#include "base/seeded_hash.h"
#include "pool/slot.h"

namespace peercache {

class KeyIndex {
 public:
  // Room for about `expected` keys before the table first grows.
  explicit KeyIndex(size_t expected, const SeededHash& hash = {});

  // For Prefetch and Find, so that each key of many is hashed once. Thread-safe.
  size_t HashOf(const Key& key) const { return hash_(key); }

  Slot* Find(const Key& key) const { return Find(key, HashOf(key)); }
  Slot* Find(const Key& key, size_t hash) const;
  // slot->key must not be in the index.
  void Insert(Slot* slot);
  // slot must be in the index.
  void Erase(const Slot* slot);
  // Fetches into the cache what Find looks at first.
  void Prefetch(size_t hash) const { now_.Prefetch(hash); }
  size_t size() const { return size_; }
  bool growing() const { return !old_.empty(); }

 private:
  struct Bucket {
    uint64_t hash = 0;
    Slot* slot = nullptr;
  };

  class Table {
   public:
    Table() = default;
    // The kernel gives the memory when it is first touched: making a large table costs nothing.
    explicit Table(size_t buckets);

    bool empty() const { return buckets_ == nullptr; }
    size_t buckets() const { return mask_ + 1; }
    const Bucket& at(size_t i) const { return buckets_[i]; }
    Slot* Find(uint64_t hash, const Key& key) const;
    void Place(const Bucket& bucket);
    // Whether the slot was in it.
    bool Erase(uint64_t hash, const Slot* slot);
    void EraseAt(size_t hole);
    void Prefetch(uint64_t hash) const { __builtin_prefetch(&buckets_[hash & mask_]); }

   private:
    struct Free {
      void operator()(Bucket* buckets) const { std::free(buckets); }
    };
    std::unique_ptr<Bucket[], Free> buckets_;
    size_t mask_ = 0;  // their number, a power of two, less one
  };

  void MoveSome();

  const SeededHash hash_;
  Table now_, old_;   // old_: empty, or its entries from moved_ on are still to be moved
  size_t moved_ = 0;  // buckets of old_ before this are empty
  size_t size_ = 0;
};

}  // namespace peercache
