#include "directory/location_cache.h"

#include <algorithm>
#include <bit>

#include "directory/by_stripe.h"
#include "directory/lease.h"

namespace peercache {

// A bucket has one stripe only because both are chosen by the low bits of the same word: there are
// at least as many buckets as stripes.
LocationCache::LocationCache(size_t entries)
    : buckets_(entries == 0 ? 0 : std::bit_ceil(std::max(entries / 4, kStripes))) {}

size_t LocationCache::Bucket::PlaceOf(const Key& wanted) const {
  return static_cast<size_t>(std::ranges::find(word, wanted.Word(3)) - word.begin());
}

size_t LocationCache::Find(std::span<const Key> keys, std::span<Record> records,
                           std::span<TimePoint> until, TimePoint now) const {
  std::fill_n(records.begin(), keys.size(), Record{});
  if (buckets_.empty()) return 0;
  size_t found = 0;
  const auto place_of = [&](const Key& key) { return BucketOf(key); };
  ByStripe<kStripes>(keys, StripeOf, place_of,
                     [&](size_t s, size_t first, std::span<const uint16_t> which) {
                       std::lock_guard lock(stripes_[s].mutex);
                       for (const size_t i : which) {
                         FindOne(keys[first + i], now, &records[first + i], &until[first + i]);
                         found += records[first + i].node != 0;
                       }
                     });
  return found;
}

void LocationCache::FindOne(const Key& key, TimePoint now, Record* record, TimePoint* until) const {
  const Bucket& bucket = *BucketOf(key);
  const size_t place = bucket.PlaceOf(key);
  if (place == Bucket::kPlaces || now >= bucket.until[place]) return;  // model: Read, check_lease
  if (bucket.key[place] != key) return;
  *until = bucket.until[place];
  *record = bucket.record[place];
}

void LocationCache::Put(std::span<const Key> keys, std::span<const Record> records,
                        TimePoint asked_at, Duration ttl) {
  Put(keys, records, asked_at, ttl, era());
}

void LocationCache::Put(std::span<const Key> keys, std::span<const Record> records,
                        TimePoint asked_at, Duration ttl, uint64_t era) {
  if (buckets_.empty()) return;
  const auto place_of = [&](const Key& key) { return BucketOf(key); };
  ByStripe<kStripes>(keys, StripeOf, place_of,
                     [&](size_t s, size_t first, std::span<const uint16_t> which) {
                       std::lock_guard lock(stripes_[s].mutex);
                       if (era != this->era()) return;  // Clear is about to come here, or has been
                       for (const size_t i : which) Prefetch(keys[first + i]);
                       for (const size_t i : which) {
                         const Record& record = records[first + i];
                         if (record.node == 0) continue;
                         PutOne(keys[first + i], record, Lease(ttl, record).EndsAfter(asked_at));
                       }
                     });
}

size_t LocationCache::Bucket::PlaceFor(const Key& wanted) const {
  const size_t place = PlaceOf(wanted);
  if (place < kPlaces) return place;
  return static_cast<size_t>(std::ranges::min_element(until) - until.begin());
}

// What PutOne writes beside the line that says where.
void LocationCache::Prefetch(const Key& key) const {
  const Bucket& bucket = *BucketOf(key);
  const size_t place = bucket.PlaceFor(key);
  __builtin_prefetch(&bucket.key[place], 1);
  __builtin_prefetch(&bucket.record[place], 1);
}

void LocationCache::PutOne(const Key& key, const Record& record, TimePoint until) {
  Bucket& bucket = *BucketOf(key);
  const size_t place = bucket.PlaceFor(key);
  bucket.word[place] = key.Word(3);
  bucket.until[place] = until;
  bucket.key[place] = key;
  bucket.record[place] = record;
}

void LocationCache::Forget(const Key& key) {
  if (buckets_.empty()) return;
  std::lock_guard lock(stripes_[StripeOf(key)].mutex);
  Bucket& bucket = *BucketOf(key);
  const size_t place = bucket.PlaceOf(key);
  if (place != Bucket::kPlaces) bucket.until[place] = {};
}

void LocationCache::Clear() {
  era_.fetch_add(1, std::memory_order_acq_rel);
  for (size_t stripe = 0; stripe < kStripes; ++stripe) {
    std::lock_guard lock(stripes_[stripe].mutex);
    for (size_t b = stripe; b < buckets_.size(); b += kStripes) buckets_[b] = {};
  }
}

}  // namespace peercache
