#include "pool/key_index.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace peercache {
namespace {

// Linear probing stays at about three probes up to this load, in fourths.
constexpr size_t kMaxLoadFourths = 3;

}  // namespace

KeyIndex::KeyIndex(size_t expected)
    : buckets_(std::bit_ceil(std::max<size_t>(expected * 4 / kMaxLoadFourths, 64))),
      mask_(buckets_.size() - 1) {}

Slot* KeyIndex::Find(const Key& key) const {
  const uint64_t hash = KeyHash()(key);
  for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
    const Bucket& bucket = buckets_[i];
    if (bucket.slot == nullptr) return nullptr;
    if (bucket.hash == hash && bucket.slot->key == key) return bucket.slot;
  }
}

void KeyIndex::Insert(Slot* slot) {
  if ((size_ + 1) * 4 > buckets_.size() * kMaxLoadFourths) Grow();
  Place({KeyHash()(slot->key), slot});
  ++size_;
}

void KeyIndex::Place(const Bucket& bucket) {
  size_t i = bucket.hash & mask_;
  while (buckets_[i].slot != nullptr) i = (i + 1) & mask_;
  buckets_[i] = bucket;
}

void KeyIndex::Grow() {
  std::vector<Bucket> old(buckets_.size() * 2);
  old.swap(buckets_);
  mask_ = buckets_.size() - 1;
  for (const Bucket& bucket : old)
    if (bucket.slot != nullptr) Place(bucket);
}

void KeyIndex::Erase(const Slot* slot) {
  size_t hole = KeyHash()(slot->key) & mask_;
  while (buckets_[hole].slot != slot) hole = (hole + 1) & mask_;
  // Move every later entry of this run into the hole that its own probe would pass.
  for (size_t i = (hole + 1) & mask_; buckets_[i].slot != nullptr; i = (i + 1) & mask_) {
    const size_t home = buckets_[i].hash & mask_;
    if (((i - home) & mask_) < ((i - hole) & mask_)) continue;
    buckets_[hole] = buckets_[i];
    hole = i;
  }
  buckets_[hole] = {};
  --size_;
}

}  // namespace peercache
