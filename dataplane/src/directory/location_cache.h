// LocationCache: records that lookups have brought here, for as long as they may be used. A page
// that was found by exists a moment ago needs no second lookup to be read.
//
// An entry is used until lookup sent + ttl, or + the holder's lease where that is shorter: it
// cannot outlive what the directory promised to the lookup (directory/fence.h). It is a hint all
// the same: a page may have been withdrawn since, which the read finds out; the caller then forgets
// the entry and looks the key up afresh.
//
// Bounded: four entries a bucket, the one that ends first gives way. Thread-safe.
//
// Costs: a key takes one cache line to miss and three to hit; a batch takes each stripe's lock
// once. It allocates nothing after construction. Worse: Clear passes over every bucket.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "wire/record.h"

namespace peercache {

class LocationCache {
 public:
  // 96 bytes an entry; 0 entries: remembers nothing.
  explicit LocationCache(size_t entries);

  // records[i].node = 0 where nothing is known that may be used at `now`; else until[i] is how long
  // it may be used. Returns how many are known.
  size_t Find(std::span<const Key> keys, std::span<Record> records, std::span<TimePoint> until,
              TimePoint now) const;
  // What a lookup that was sent at `asked_at` has found, where records[i].node is not 0: to be used
  // for `ttl`, and no longer than the lease of record.lease_ms.
  void Put(std::span<const Key> keys, std::span<const Record> records, TimePoint asked_at,
           Duration ttl);
  // The same of a lookup that was sent in an `era`: nothing is kept of it when a Clear came after.
  void Put(std::span<const Key> keys, std::span<const Record> records, TimePoint asked_at,
           Duration ttl, uint64_t era);
  void Forget(const Key& key);
  void Clear();
  uint64_t era() const { return era_.load(std::memory_order_acquire); }

 private:
  // To find a key's place takes one cache line, which a batch fetches ahead. Two keys of a bucket
  // that agree in the word share a place.
  struct alignas(64) Bucket {
    static constexpr size_t kPlaces = 4;
    std::array<uint64_t, kPlaces> word{};    // Word(3) of the key
    std::array<TimePoint, kPlaces> until{};  // in the past: the place is free
    std::array<Key, kPlaces> key;
    std::array<Record, kPlaces> record;
    // kPlaces: it has none.
    size_t PlaceOf(const Key& wanted) const;
    // Where it is, or else the one that ends first.
    size_t PlaceFor(const Key& wanted) const;
  };
  static_assert(sizeof(Bucket) == 384);
  static constexpr size_t kStripes = 8;
  struct alignas(64) Stripe {
    std::mutex mutex;
  };
  static size_t StripeOf(const Key& key) { return key.Word(1) % kStripes; }
  Bucket* BucketOf(const Key& key) const { return &buckets_[key.Word(1) & (buckets_.size() - 1)]; }
  void FindOne(const Key& key, TimePoint now, Record* record, TimePoint* until) const;
  void Prefetch(const Key& key) const;
  void PutOne(const Key& key, const Record& record, TimePoint until);

  std::atomic<uint64_t> era_{0};         // Clears so far
  mutable std::vector<Bucket> buckets_;  // a power of two, or none
  const std::unique_ptr<Stripe[]> stripes_ = std::make_unique<Stripe[]>(kStripes);
};

}  // namespace peercache
