// LocationCache: records that lookups have brought here, for as long as they may be used. A page
// that was found by exists a moment ago needs no second lookup to be read.
//
// An entry is used until lookup sent + ttl, and ttl is at most the lease: it cannot outlive what
// the directory promised to the lookup (directory/fence.h). It is a hint all the same: a page may
// have been withdrawn since, which the read finds out; the caller then forgets the entry and looks
// the key up afresh.
//
// Bounded: four entries a bucket, the one that ends first gives way. Thread-safe; allocates nothing
// after construction; short stripe locks.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "wire/record.h"

namespace peercache {

class LocationCache {
 public:
  // 88 bytes an entry; 0 entries: remembers nothing.
  explicit LocationCache(size_t entries);

  // record.node = 0 when nothing is known that may be used at `now`; else *until is how long it may
  // be used.
  Record Find(const Key& key, TimePoint now, TimePoint* until) const;
  void Put(const Key& key, const Record& record, TimePoint usable_until);
  void Forget(const Key& key);
  void Clear();

 private:
  struct Entry {
    Key key;
    Record record;
    TimePoint until{};  // in the past: free
  };
  using Bucket = std::array<Entry, 4>;
  static constexpr size_t kStripes = 64;
  struct alignas(64) Stripe {
    std::mutex mutex;
  };
  Bucket* BucketOf(const Key& key) const { return &buckets_[key.Word(1) & (buckets_.size() - 1)]; }
  std::mutex& MutexOf(const Key& key) const { return stripes_[key.Word(1) % kStripes].mutex; }

  mutable std::vector<Bucket> buckets_;  // a power of two, or none
  const std::unique_ptr<Stripe[]> stripes_ = std::make_unique<Stripe[]>(kStripes);
};

}  // namespace peercache
