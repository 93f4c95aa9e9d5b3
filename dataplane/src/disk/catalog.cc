#include "disk/catalog.h"

#include <array>

namespace peercache::disk {

void Catalog::Find(std::span<const Key> keys, std::span<DiskPage> pages) const {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < keys.size(); ++i) {
    const Index::Number number = index_.Find(keys[i]);
    pages[i] = number == Index::kNone ? DiskPage{} : index_.At(number);
    if (Dead(pages[i])) pages[i] = {};
  }
}

bool Catalog::Contains(const Key& key, uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const Index::Number number = index_.Find(key);
  return number != Index::kNone && index_.SequenceAt(number) == sequence &&
         (cleared_ == swept_ || !Dead(index_.At(number)));
}

Catalog::Outcome Catalog::Store(const DiskPage& page, bool moves) {
  DiskPage added = page;
  DiskPage replaced;
  bool full = false;
  {
    const std::lock_guard lock(mutex_);
    if (clears_.Dead(page.tag, page.sequence)) return Outcome::kCleared;
    const Index::Number there = index_.Find(page.key);
    if (there == Index::kNone) {
      if (moves) return Outcome::kOlder;
    } else {
      replaced = index_.At(there);
      if (Dead(replaced)) {
        if (moves) return Outcome::kOlder;
      } else if (replaced.sequence > page.sequence) {
        return Outcome::kOlder;
      } else if (replaced.sequence == page.sequence) {
        if (!moves) return Outcome::kSame;
        added.note = replaced.note;
      }
      index_.Erase(there);
    }
    full = !index_.Insert(added);
  }
  const bool moved = moves && replaced.sequence == page.sequence;
  if (replaced.length != 0 && observer_ != nullptr && (full || !moved))
    observer_->Dropped(std::span(&replaced, 1));
  if (full) return Outcome::kFull;
  return moved ? Outcome::kMoved : Outcome::kStored;
}

bool Catalog::Remove(const DiskPage& page) {
  DiskPage removed;
  {
    const std::lock_guard lock(mutex_);
    const Index::Number number = index_.Find(page.key);
    if (number == Index::kNone) return false;
    removed = index_.At(number);
    // It may have moved away from the place where it was not right.
    if (removed.sequence != page.sequence || removed.at != page.at || removed.offset != page.offset)
      return false;
    index_.Erase(number);
  }
  if (observer_ != nullptr) observer_->Dropped(std::span(&removed, 1));
  return true;
}

bool Catalog::SetRead(const DiskPage& page) {
  const std::lock_guard lock(mutex_);
  const Index::Number number = index_.Find(page.key);
  if (number != Index::kNone && index_.SequenceAt(number) == page.sequence) index_.SetRead(number);
  return !clears_.Dead(page.tag, page.sequence);
}

bool Catalog::UpdateNote(const Key& key, uint64_t sequence,
                         const std::function<uint32_t(uint32_t)>& change) {
  const std::lock_guard lock(mutex_);
  const Index::Number number = index_.Find(key);
  if (number == Index::kNone || index_.SequenceAt(number) != sequence) return false;
  const DiskPage page = index_.At(number);
  if (Dead(page)) return false;
  index_.SetNote(number, change(page.note));
  return true;
}

uint64_t Catalog::DropRegion(RegionId region) {
  std::array<DiskPage, Index::kPerBlock> dropped;
  uint64_t sum = 0;
  while (true) {
    size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      const uint32_t block = index_.NextBlock(region, Index::kNone);
      if (block == Index::kNone) return sum;
      for (uint32_t i = 0; i < Index::kPerBlock; ++i)
        if (index_.Used(block, i)) dropped[count++] = index_.At(Index::NumberOf(block, i));
      index_.DropBlock(region);
    }
    sum += count;
    TellDropped(std::span(dropped).first(count));
  }
}

uint32_t Catalog::ReadPages(RegionId region, uint32_t block, std::vector<DiskPage>* pages) const {
  pages->clear();
  const std::lock_guard lock(mutex_);
  const uint32_t next = index_.NextBlock(region, block);
  for (uint32_t i = 0; next != Index::kNone && i < Index::kPerBlock; ++i) {
    if (!index_.Used(next, i)) continue;
    const DiskPage page = index_.At(Index::NumberOf(next, i));
    if (page.read && !Dead(page)) pages->push_back(page);
  }
  return next;
}

bool Catalog::Next(uint64_t* at, std::vector<DiskPage>* pages) const {
  for (pages->clear(); pages->empty(); ++*at) {
    const std::lock_guard lock(mutex_);
    if (*at >= index_.blocks()) return false;
    const auto block = static_cast<uint32_t>(*at);
    for (uint32_t i = 0; i < Index::kPerBlock; ++i) {
      if (!index_.Used(block, i)) continue;
      const DiskPage page = index_.At(Index::NumberOf(block, i));
      if (!Dead(page)) pages->push_back(page);
    }
  }
  return true;
}

void Catalog::Clear(TagRange tags, uint64_t epoch, std::span<const ForgottenClears> forgotten) {
  const std::lock_guard lock(mutex_);
  clears_.Add(tags, sequence_->Next(), epoch);
  for (const ForgottenClears& clears : forgotten) clears_.Forgotten(clears);
  ++cleared_;
}

void Catalog::Merge(const ClearList& clears) {
  const std::lock_guard lock(mutex_);
  clears_.Merge(clears);
  ++cleared_;
}

void Catalog::Sweep() {
  uint64_t cleared;
  {
    const std::lock_guard lock(mutex_);
    if (sweeping_ || cleared_ == swept_) return;
    sweeping_ = true;
    cleared = cleared_;
  }
  EraseDead();
  {
    const std::lock_guard lock(mutex_);
    sweeping_ = false;
    swept_ = cleared;
  }
  swept_cv_.notify_all();
}

void Catalog::AwaitSwept(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  swept_cv_.wait_until(lock, deadline, [this, cleared = cleared_] { return swept_ >= cleared; });
}

void Catalog::EraseDead() {
  std::array<DiskPage, Index::kPerBlock> dropped;
  for (uint32_t block = 0;; ++block) {
    size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      if (block >= index_.blocks()) return;
      for (uint32_t i = 0; i < Index::kPerBlock; ++i) {
        if (!index_.Used(block, i)) continue;
        const Index::Number number = Index::NumberOf(block, i);
        const DiskPage page = index_.At(number);
        if (!clears_.Dead(page.tag, page.sequence)) continue;
        dropped[count++] = page;
        index_.Erase(number);
      }
    }
    TellDropped(std::span(dropped).first(count));
  }
}

void Catalog::TellDropped(std::span<const DiskPage> pages) const {
  if (observer_ == nullptr || pages.empty()) return;
  observer_->Dropped(pages);
  observer_->AwaitTold();
}

ClearList Catalog::clears() const {
  const std::lock_guard lock(mutex_);
  return clears_;
}

uint64_t Catalog::size() const {
  const std::lock_guard lock(mutex_);
  return index_.size();
}

uint64_t Catalog::free_pages() const {
  const std::lock_guard lock(mutex_);
  return index_.free_pages();
}

}  // namespace peercache::disk
