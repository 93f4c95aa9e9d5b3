#include "disk/index.h"

#include <algorithm>

namespace peercache::disk {
namespace {

uint32_t BlocksFor(uint64_t pages, const std::vector<uint32_t>& regions) {
  // The last block of a region is half empty on average.
  uint64_t blocks = pages / Index::kPerBlock + 1;
  for (const uint32_t count : regions) blocks += count / 2 + 4;
  // Numbers of entries have 32 bits, of which two values are taken.
  return static_cast<uint32_t>(std::min<uint64_t>(blocks, UINT32_MAX / Index::kPerBlock - 1));
}

}  // namespace

Index::Index(uint64_t pages, const std::vector<uint32_t>& regions)
    : block_count_(BlocksFor(pages, regions)),
      buckets_(uint64_t{block_count_} * kPerBlock * 4 / 3 + 1),
      blocks_(block_count_),
      table_(buckets_),
      hashes_(buckets_),
      free_blocks_(block_count_) {
  for (const uint32_t count : regions) regions_.emplace_back(count);
}

uint64_t Index::Home(uint64_t hash) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(hash) * buckets_) >> 64);
}

Index::Number Index::Find(const Key& key) const {
  const uint64_t hash = hash_(key);
  const uint8_t byte = Byte(hash);
  for (uint64_t at = Home(hash); table_[at] != 0; at = Next(at))
    if (hashes_[at] == byte && KeyOf(table_[at] - 1) == key) return table_[at] - 1;
  return kNone;
}

Index::Block* Index::Room(RegionId id) {
  Region& region = Of(id);
  if (region.last != 0 && blocks_[region.last - 1].count < kPerBlock)
    return &blocks_[region.last - 1];
  uint32_t fresh;
  if (free_ != 0) {
    fresh = free_ - 1;
    free_ = blocks_[fresh].next;
  } else if (fresh_ < block_count_) {
    fresh = fresh_++;
  } else {
    return nullptr;
  }
  --free_blocks_;
  Block& block = blocks_[fresh];
  block.region = id;
  block.count = 0;
  block.next = 0;
  (region.last != 0 ? blocks_[region.last - 1].next : region.first) = fresh + 1;
  region.last = fresh + 1;
  return &block;
}

bool Index::Insert(const DiskPage& page) {
  Block* block = Room(page.at);
  if (block == nullptr) return false;
  const uint32_t i = block->count++;
  block->keys[i] = page.key;
  block->checksums[i] = page.checksum;
  block->tags[i] = page.tag;
  block->sequences[i] = page.sequence;
  block->lengths[i] = page.length;
  block->places[i] = page.offset | uint32_t{page.owner} << kOwnerShift | (page.read ? kRead : 0);
  block->notes[i] = page.note;
  const uint64_t hash = hash_(page.key);
  uint64_t at = Home(hash);
  while (table_[at] != 0) at = Next(at);
  table_[at] = NumberOf(Of(page.at).last - 1, i) + 1;
  hashes_[at] = Byte(hash);
  ++size_;
  return true;
}

void Index::Erase(Number number) {
  uint64_t hole = Home(hash_(KeyOf(number)));
  while (table_[hole] != number + 1) hole = Next(hole);
  // Moves back whatever probing would no longer find behind the hole.
  for (uint64_t at = Next(hole); table_[at] != 0; at = Next(at)) {
    const uint64_t home = Home(hash_(KeyOf(table_[at] - 1)));
    const bool stays = hole <= at ? hole < home && home <= at : hole < home || home <= at;
    if (stays) continue;
    table_[hole] = table_[at];
    hashes_[hole] = hashes_[at];
    hole = at;
  }
  table_[hole] = 0;
  blocks_[number / kPerBlock].lengths[number % kPerBlock] = 0;
  --size_;
}

DiskPage Index::At(Number number) const {
  const Block& block = blocks_[number / kPerBlock];
  const uint32_t i = number % kPerBlock;
  return {.key = block.keys[i],
          .checksum = block.checksums[i],
          .tag = block.tags[i],
          .sequence = block.sequences[i],
          .at = block.region,
          .offset = block.places[i] & ~(kBlock - 1),
          .length = block.lengths[i],
          .note = block.notes[i],
          .read = (block.places[i] & kRead) != 0,
          .owner = static_cast<uint8_t>(block.places[i] >> kOwnerShift)};
}

uint64_t Index::SequenceAt(Number number) const {
  return blocks_[number / kPerBlock].sequences[number % kPerBlock];
}

void Index::SetRead(Number number) {
  blocks_[number / kPerBlock].places[number % kPerBlock] |= kRead;
}

void Index::SetNote(Number number, uint32_t note) {
  blocks_[number / kPerBlock].notes[number % kPerBlock] = note;
}

uint32_t Index::NextBlock(RegionId region, uint32_t block) const {
  // One less than 0, none, is kNone.
  return (block == kNone ? Of(region).first : blocks_[block].next) - 1;
}

bool Index::Used(uint32_t block, uint32_t i) const {
  return i < blocks_[block].count && blocks_[block].lengths[i] != 0;
}

bool Index::DropBlock(RegionId id) {
  Region& region = Of(id);
  if (region.first == 0) return false;
  const uint32_t dropped = region.first - 1;
  Block& block = blocks_[dropped];
  for (uint32_t i = 0; i < block.count; ++i)
    if (block.lengths[i] != 0) Erase(NumberOf(dropped, i));
  region.first = block.next;
  if (region.first == 0) region.last = 0;
  block.count = 0;
  block.next = free_;
  free_ = dropped + 1;
  ++free_blocks_;
  return true;
}

}  // namespace peercache::disk
