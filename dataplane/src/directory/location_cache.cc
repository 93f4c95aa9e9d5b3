#include "directory/location_cache.h"

#include <algorithm>
#include <bit>

namespace peercache {

// A bucket has one stripe only because both are chosen by the low bits of the same word: there are
// at least as many buckets as stripes.
LocationCache::LocationCache(size_t entries)
    : buckets_(entries == 0 ? 0 : std::bit_ceil(std::max(entries / 4, kStripes))) {}

Record LocationCache::Find(const Key& key, TimePoint now, TimePoint* until) const {
  if (buckets_.empty()) return {};
  std::lock_guard lock(MutexOf(key));
  for (const Entry& entry : *BucketOf(key)) {
    if (entry.key != key || now >= entry.until) continue;  // model: Read, check_lease
    *until = entry.until;
    return entry.record;
  }
  return {};
}

void LocationCache::Put(const Key& key, const Record& record, TimePoint usable_until) {
  if (buckets_.empty()) return;
  std::lock_guard lock(MutexOf(key));
  Bucket& bucket = *BucketOf(key);
  auto place = std::find_if(bucket.begin(), bucket.end(),
                            [&](const Entry& entry) { return entry.key == key; });
  if (place == bucket.end()) {
    place = std::min_element(bucket.begin(), bucket.end(),
                             [](const Entry& a, const Entry& b) { return a.until < b.until; });
  }
  *place = {key, record, usable_until};
}

void LocationCache::Forget(const Key& key) {
  if (buckets_.empty()) return;
  std::lock_guard lock(MutexOf(key));
  for (Entry& entry : *BucketOf(key))
    if (entry.key == key) entry = {};
}

void LocationCache::Clear() {
  for (size_t stripe = 0; stripe < kStripes; ++stripe) {
    std::lock_guard lock(stripes_[stripe].mutex);
    for (size_t b = stripe; b < buckets_.size(); b += kStripes) buckets_[b] = {};
  }
}

}  // namespace peercache
