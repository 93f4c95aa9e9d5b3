#include "directory/record_table.h"

#include <cassert>
#include <utility>

namespace peercache {

StoredRecord* RecordTable::Insert(const Key& key) {
  if ((size_ + 1) * 4 > index_.size() * 3) Grow();
  if (free_.empty()) {
    const auto first = static_cast<uint32_t>(chunks_.size() * kChunk);
    chunks_.push_back(std::make_unique<StoredRecord[]>(kChunk));
    for (uint32_t i = kChunk; i > 0; --i) free_.push_back(first + i);
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  Place({Tag(key), number});
  ++size_;
  StoredRecord& record = At(number);
  record = StoredRecord{};
  record.key = key;
  return &record;
}

void RecordTable::Erase(StoredRecord* record) {
  size_t i = Tag(record->key) & mask_;
  while (&At(index_[i].number) != record) {
    i = (i + 1) & mask_;
    assert(index_[i].number != 0);
  }
  EraseAt(i);
}

void RecordTable::Place(Slot slot) {
  size_t i = slot.tag & mask_;
  while (index_[i].number != 0) i = (i + 1) & mask_;
  index_[i] = slot;
}

void RecordTable::Grow() {
  std::vector<Slot> old(index_.empty() ? 64 : index_.size() * 2);
  old.swap(index_);
  mask_ = index_.size() - 1;
  for (const Slot& slot : old)
    if (slot.number != 0) Place(slot);
}

void RecordTable::EraseAt(size_t position) {
  free_.push_back(index_[position].number);
  --size_;
  size_t hole = position;
  for (size_t i = (hole + 1) & mask_; index_[i].number != 0; i = (i + 1) & mask_) {
    // A slot may fill the hole unless its home lies behind the hole, cyclically.
    const size_t home = index_[i].tag & mask_;
    if (((i - home) & mask_) < ((i - hole) & mask_)) continue;
    index_[hole] = index_[i];
    hole = i;
  }
  index_[hole] = {};
}

}  // namespace peercache
