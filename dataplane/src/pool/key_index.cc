#include "pool/key_index.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace peercache {
namespace {

// Linear probing stays at about three probes up to this load, in fourths.
constexpr size_t kMaxLoadFourths = 3;
// Buckets of the old table that each Insert looks at. A table of n buckets has 3/4 n entries when
// it grows, each of which is looked at once more after what follows it was shifted back, and as
// many Inserts until it grows again: 7/3 would do.
constexpr int kMovesPerInsert = 8;

}  // namespace

KeyIndex::Table::Table(size_t buckets)
    : buckets_(static_cast<Bucket*>(std::calloc(buckets, sizeof(Bucket)))), mask_(buckets - 1) {
  if (buckets_ == nullptr) throw std::bad_alloc();
}

Slot* KeyIndex::Table::Find(uint64_t hash, const Key& key) const {
  for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
    const Bucket& bucket = buckets_[i];
    if (bucket.slot == nullptr) return nullptr;
    if (bucket.hash == hash && bucket.slot->key == key) return bucket.slot;
  }
}

void KeyIndex::Table::Place(const Bucket& bucket) {
  size_t i = bucket.hash & mask_;
  while (buckets_[i].slot != nullptr) i = (i + 1) & mask_;
  buckets_[i] = bucket;
}

bool KeyIndex::Table::Erase(uint64_t hash, const Slot* slot) {
  size_t at = hash & mask_;
  while (buckets_[at].slot != nullptr && buckets_[at].slot != slot) at = (at + 1) & mask_;
  if (buckets_[at].slot == nullptr) return false;
  EraseAt(at);
  return true;
}

void KeyIndex::Table::EraseAt(size_t hole) {
  // Move every later entry of this run into the hole that its own probe would pass.
  for (size_t i = (hole + 1) & mask_; buckets_[i].slot != nullptr; i = (i + 1) & mask_) {
    const size_t home = buckets_[i].hash & mask_;
    if (((i - home) & mask_) < ((i - hole) & mask_)) continue;
    buckets_[hole] = buckets_[i];
    hole = i;
  }
  buckets_[hole] = {};
}

KeyIndex::KeyIndex(size_t expected, const SeededHash& hash)
    : hash_(hash), now_(std::bit_ceil(std::max<size_t>(expected * 4 / kMaxLoadFourths, 64))) {}

Slot* KeyIndex::Find(const Key& key, size_t hash) const {
  Slot* found = now_.Find(hash, key);
  if (found == nullptr && growing()) found = old_.Find(hash, key);
  return found;
}

void KeyIndex::Insert(Slot* slot) {
  if ((size_ + 1) * 4 > now_.buckets() * kMaxLoadFourths) {
    old_ = std::exchange(now_, Table(now_.buckets() * 2));
    moved_ = 0;
  }
  MoveSome();
  now_.Place({hash_(slot->key), slot});
  ++size_;
}

// What is shifted back lands at moved_ or after it: before it there is nothing.
void KeyIndex::MoveSome() {
  for (int move = 0; move < kMovesPerInsert && growing(); ++move) {
    const Bucket bucket = old_.at(moved_);
    if (bucket.slot != nullptr) {
      old_.EraseAt(moved_);
      now_.Place(bucket);
    } else if (++moved_ == old_.buckets()) {
      old_ = {};
    }
  }
}

void KeyIndex::Erase(const Slot* slot) {
  const uint64_t hash = hash_(slot->key);
  if (!now_.Erase(hash, slot)) old_.Erase(hash, slot);
  --size_;
}

}  // namespace peercache
