// Buckets: the records of a shard once more, laid out so that a peer can READ those of a key
// without asking anybody: a table of fixed size in registered memory. The record table stays the
// truth; what finds no place here is counted in its bucket, and readers ask the shard for it.
//
//   Buckets buckets(memory, seed);
//   buckets.Put(record, before);        // in one step instead of `before`, if that is not null
//   buckets.Remove(record);
//
// A READ may see a bucket while it is written, in any mixture: the checksum, over all of the
// bucket, its number and the seed of this shard's process, tells. An entry names its owner by its
// place and era in the OwnerTable; whether that counts is for the reader to say (bucket_lookup.h),
// since nobody rewrites the buckets when an owner falls silent or raises its epoch.
//
// What is withdrawn is gone from here before Withdraw returns, hence before it is acknowledged: a
// device that reads the memory afterwards does not see it any more.
//
// Not thread-safe; the lock of a stripe of the shard guards all buckets that its keys have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/key.h"
#include "directory/record_table.h"

namespace peercache {

struct BucketEntry {
  std::array<uint64_t, 2> key{};  // half of it: the header of the page that is read has all
  uint64_t offset = 0;
  uint64_t generation = 0;  // 0: a free entry
  uint64_t checksum = 0;
  uint32_t length = 0;
  uint32_t era = 0;
  uint16_t owner = 0;
  uint8_t tier = 0;
  uint8_t replica = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(BucketEntry) == 56);

struct Bucket {
  static constexpr size_t kEntries = 4;
  uint64_t checksum = 0;   // 0: it was never written, all is 0
  uint32_t elsewhere = 0;  // records of its keys that found no place in it
  uint32_t reserved[5] = {};
  std::array<BucketEntry, kEntries> entries;
};
static_assert(sizeof(Bucket) == 256 && std::is_trivially_copyable_v<Bucket>);

// Word 1 and word 3 of a key: word 2 chooses the bucket, word 0 the shard.
inline std::array<uint64_t, 2> BucketKey(const Key& key) { return {key.Word(1), key.Word(3)}; }
// `buckets`: a power of two.
inline uint64_t BucketOf(const Key& key, uint64_t buckets) { return key.Word(2) & (buckets - 1); }
uint64_t BucketChecksum(const Bucket& bucket, uint64_t index, uint64_t seed);

class Buckets {
 public:
  // As many as fit into `memory`, which is zero and 64-byte aligned; a power of two, at least
  // `least`, or none at all.
  Buckets(std::span<std::byte> memory, size_t least, uint64_t seed);

  size_t count() const { return count_; }
  void Put(const StoredRecord& record, const StoredRecord* before);
  void Remove(const StoredRecord& record);

 private:
  static BucketEntry EntryOf(const StoredRecord& record);
  static BucketEntry* Find(Bucket* bucket, const StoredRecord& record);
  void Write(uint64_t index, Bucket bucket);

  Bucket* const buckets_;
  const size_t count_;
  const uint64_t seed_;
};

}  // namespace peercache
