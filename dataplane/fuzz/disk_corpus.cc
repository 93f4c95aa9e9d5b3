// Seeds of the target disk.

#include <algorithm>
#include <cstring>

#include "corpus.h"
#include "disk/format.h"

namespace peercache::fuzz {
namespace {

enum First : uint8_t {
  kSuperblockAsIs = 0,
  kContentsAsIs = 1,
  kSuperblockRight = 2,
  kContentsRight = 3
};

// Zeros at the end are added by the target.
Blob Trimmed(std::span<const std::byte> bytes) {
  size_t size = bytes.size();
  while (size > 0 && bytes[size - 1] == std::byte{0}) --size;
  Blob blob(size);
  if (size != 0) std::memcpy(blob.data(), bytes.data(), size);
  return blob;
}

Blob SuperblockOf(uint64_t clears) {
  disk::Superblock superblock;
  superblock.written = 3;
  superblock.file_id = 77;
  superblock.first_sequence = 1'000'000;
  superblock.geometry = {.region_bytes = disk::kRegionBytes, .regions = 8};
  superblock.cluster = "inference/kv";
  superblock.clears.AddFloor(0, 9, 4);
  superblock.clears.Forgotten({.group = 0, .epoch = 4, .digest = 0x1234567});
  for (uint64_t i = 0; i < clears; ++i)
    superblock.clears.Add({.tag = i * i, .sequence = 100 + i, .epoch = 5 + i});
  std::vector<std::byte> bytes(disk::kSuperblockBytes);
  EncodeSuperblock(superblock, bytes);
  return Trimmed(bytes);
}

Blob ContentsOf(uint32_t count, uint32_t region) {
  disk::ContentsBlock block;
  block.file_id = 77;
  block.epoch = 500;
  block.region = region;
  block.count = count;
  for (uint32_t i = 0; i < count; ++i) {
    block.entries[i] = {.key = {},
                        .length = 4096 + i,
                        .offset = (256 << 10) + i * 2 * disk::kBlock,
                        .checksum = i,
                        .tag = 8,
                        .sequence = 600 + i};
    block.entries[i].key.bytes.fill(static_cast<uint8_t>(i));
  }
  std::vector<std::byte> bytes(disk::kBlock);
  EncodeContents(block, bytes);
  return Trimmed(bytes);
}

}  // namespace

void DiskSeeds() {
  Seed("disk", "superblock", With(kSuperblockAsIs, SuperblockOf(0)));
  Seed("disk", "superblock-clears", With(kSuperblockRight, SuperblockOf(20)));
  Blob newer = SuperblockOf(1);
  newer[16] = 2;
  Seed("disk", "superblock-newer", With(kSuperblockRight, newer));
  Seed("disk", "superblock-torn", With(kSuperblockAsIs, newer));
  Seed("disk", "contents", With(kContentsAsIs, ContentsOf(2, 3)));
  Seed("disk", "contents-full", With(kContentsRight, ContentsOf(disk::kEntriesPerBlock, 3)));
  Seed("disk", "contents-foreign", With(kContentsAsIs, ContentsOf(1, 2)));
  Blob behind = ContentsOf(1, 3);
  behind[128 + 32 + 3] = 0xff;  // longer than its region
  Seed("disk", "contents-behind", With(kContentsRight, behind));
}

}  // namespace peercache::fuzz
