// RecordTable: the storage of one stripe of a shard; a multimap Key -> StoredRecord.
//
// Nearly every key has one record, and there are millions of them; so there is no node and no
// vector per key. Records (72 bytes) lie in chunks that never move; an open-addressing index of
// 8-byte (tag, record number) slots leads to them. Growing rehashes the index alone, by the tags,
// without touching records. Records of one key are several index slots of one probe run. Erasing
// shifts the run back, so there are no tombstones and lookups stay short for ever.
//
// Costs: 72 bytes a record and 11 to 22 of the index. A lookup takes a few probes, and one more
// cache line for each record of the key; it does not allocate. Worse: the Insert that doubles the
// index passes over all of it, with the stripe's lock held.
//
// Not thread-safe: the stripe's lock guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/key.h"
#include "base/last_time.h"
#include "base/seeded_hash.h"
#include "wire/record.h"

namespace peercache {

// A Record in terms of its owner's place in the OwnerTable, which knows node and incarnation.
struct StoredRecord {
  Key key;
  uint64_t offset = 0;
  uint64_t generation = 0;
  uint64_t checksum = 0;
  uint32_t length = 0;
  uint32_t era = 0;  // of the owner when it was published; see OwnerTable
  uint16_t owner = 0;
  Tier tier = Tier::kMemory;
  uint8_t replica = 0;
  LastTime served{};  // to a reader that has asked for it
};
static_assert(sizeof(StoredRecord) == 72);

class RecordTable {
 public:
  explicit RecordTable(const SeededHash& hash = {}) : hash_(hash) {}
  size_t size() const { return size_; }

  // fn(StoredRecord&) for the records of the key, in no particular order, while it returns true.
  template <typename Fn>
  void VisitOf(const Key& key, Fn&& fn) {
    if (index_.empty()) return;
    const uint32_t tag = Tag(key);
    for (size_t i = tag & mask_; index_[i].number != 0; i = (i + 1) & mask_) {
      if (index_[i].tag != tag) continue;
      StoredRecord& record = At(index_[i].number);
      if (record.key == key && !fn(record)) return;
    }
  }
  // Fetches the cache line at which the key's probe run begins.
  void Prefetch(const Key& key) const {
    if (!index_.empty()) __builtin_prefetch(&index_[Tag(key) & mask_]);
  }

  // First record of the key for which pred(const StoredRecord&) holds; null if none.
  template <typename Pred>
  StoredRecord* Find(const Key& key, Pred&& pred) {
    if (index_.empty()) return nullptr;
    const uint32_t tag = Tag(key);
    for (size_t i = tag & mask_; index_[i].number != 0; i = (i + 1) & mask_) {
      if (index_[i].tag != tag) continue;
      StoredRecord& record = At(index_[i].number);
      if (record.key == key && pred(std::as_const(record))) return &record;
    }
    return nullptr;
  }

  // A new record of the key, everything else to be filled in. Valid until it is erased.
  StoredRecord* Insert(const Key& key);
  void Erase(StoredRecord* record);
  // Erases the records for which pred(const StoredRecord&) holds; returns how many.
  template <typename Pred>
  size_t EraseIf(Pred&& pred) {
    size_t erased = 0;
    for (size_t i = 0; i < index_.size();) {
      if (index_[i].number != 0 && pred(std::as_const(*this).At(index_[i].number))) {
        EraseAt(i);  // shifts another slot here
        ++erased;
      } else {
        ++i;
      }
    }
    return erased;
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    uint32_t number = 0;  // of the record, from 1; 0: empty
  };
  static constexpr uint32_t kChunk = 1024;  // records: 72 KiB, small against any useful shard

  uint32_t Tag(const Key& key) const { return static_cast<uint32_t>(hash_(key)); }
  StoredRecord& At(uint32_t number) {
    return chunks_[(number - 1) / kChunk][(number - 1) % kChunk];
  }
  const StoredRecord& At(uint32_t number) const {
    return chunks_[(number - 1) / kChunk][(number - 1) % kChunk];
  }
  void Place(Slot slot);
  void Grow();
  void EraseAt(size_t position);

  SeededHash hash_;
  std::vector<Slot> index_;  // a power of two, at most 3/4 full
  size_t mask_ = 0;
  size_t size_ = 0;
  std::vector<std::unique_ptr<StoredRecord[]>> chunks_;
  std::vector<uint32_t> free_;  // numbers
};

}  // namespace peercache
