#include "directory/buckets.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checksum.h"
#include "base/device_order.h"

namespace peercache {

uint64_t BucketChecksum(const Bucket& bucket, uint64_t index, uint64_t seed) {
  Bucket named = bucket;
  named.checksum = seed ^ (index * 0x9e3779b97f4a7c15);
  return Checksum(std::as_bytes(std::span(&named, 1)));
}

Buckets::Buckets(std::span<std::byte> memory, size_t least, uint64_t seed)
    : buckets_(reinterpret_cast<Bucket*>(memory.data())),
      count_(memory.size() < least * sizeof(Bucket)
                 ? 0
                 : std::bit_floor(memory.size() / sizeof(Bucket))),
      seed_(seed) {}

BucketEntry Buckets::EntryOf(const StoredRecord& record) {
  return {.key = BucketKey(record.key),
          .offset = record.offset,
          .generation = record.generation,
          .checksum = record.checksum,
          .length = record.length,
          .era = record.era,
          .owner = record.owner,
          .tier = static_cast<uint8_t>(record.tier),
          .replica = record.replica};
}

// Generations of one owner are never the same, so this is the record's even where two keys look the
// same here.
BucketEntry* Buckets::Find(Bucket* bucket, const StoredRecord& record) {
  const auto key = BucketKey(record.key);
  for (BucketEntry& entry : bucket->entries) {
    if (entry.generation != 0 && entry.generation == record.generation &&
        entry.owner == record.owner && entry.era == record.era && entry.key == key) {
      return &entry;
    }
  }
  return nullptr;
}

void Buckets::Put(const StoredRecord& record, const StoredRecord* before) {
  if (count_ == 0) return;
  const uint64_t index = BucketOf(record.key, count_);
  Bucket bucket = buckets_[index];
  BucketEntry* place = before == nullptr ? nullptr : Find(&bucket, *before);
  if (before != nullptr && place == nullptr && bucket.elsewhere > 0) --bucket.elsewhere;
  if (place == nullptr) {
    const auto free = std::find_if(bucket.entries.begin(), bucket.entries.end(),
                                   [](const BucketEntry& entry) { return entry.generation == 0; });
    if (free != bucket.entries.end()) place = &*free;
  }
  if (place != nullptr) *place = {};
  if (place != nullptr && record.generation != 0) {
    *place = EntryOf(record);
  } else {
    ++bucket.elsewhere;
  }
  Write(index, bucket);
}

// model: rewrite_first
void Buckets::Remove(const StoredRecord& record) {
  if (count_ == 0) return;
  const uint64_t index = BucketOf(record.key, count_);
  Bucket bucket = buckets_[index];
  if (BucketEntry* place = Find(&bucket, record); place != nullptr) {
    *place = {};
  } else if (bucket.elsewhere > 0) {
    --bucket.elsewhere;
  }
  Write(index, bucket);
}

void Buckets::Write(uint64_t index, Bucket bucket) {
  bucket.checksum = BucketChecksum(bucket, index, seed_);
  std::memcpy(&buckets_[index], &bucket, sizeof(bucket));
  OrderForDevices();  // before whatever this thread sends next
}

}  // namespace peercache
