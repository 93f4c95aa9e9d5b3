// What is on a device: one file, all numbers little-endian.
//
//   0        superblock A, 64 KiB    the newer valid one of the two counts
//   64 KiB   superblock B, 64 KiB
//   1 MiB    region 0, region 1, ...  each: contents blocks, then pages
//
// A region is written from its beginning to its end, once, and then given up as a whole. Its
// contents blocks name its pages. A block is never written over while it is the only one to name a
// page (contents.h). Nothing is believed without its checksum. Superblock and contents block keep
// magic, version and checksum where they are in all versions, so that an older release can tell a
// newer file from a broken one.
//
// Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/key.h"
#include "base/status.h"
#include "disk/clear_list.h"
#include "disk/limits.h"

namespace peercache::disk {

inline constexpr uint32_t kFormatVersion = 1;
// What pages begin at, and what is read and written: right for devices of 512 and of 4096 bytes.
inline constexpr uint32_t kBlock = 4096;
inline constexpr uint64_t kSuperblockBytes = 64 << 10;
inline constexpr std::array<uint64_t, 2> kSuperblockAt = {0, 64 << 10};
inline constexpr uint64_t kFirstRegionAt = 1 << 20;
inline constexpr uint64_t kMinRegionBytes = 1 << 20;  // smaller than usual in tests
inline constexpr uint32_t kMinRegions = 8;
inline constexpr uint32_t kEntriesPerBlock = 62;
inline constexpr size_t kMostClusterName = 128;

constexpr uint64_t AlignUp(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

struct Geometry {
  uint64_t region_bytes = kRegionBytes;  // a power of two
  uint32_t regions = 0;

  // Before the first page of a region: 256 KiB of 64 MiB.
  uint64_t contents_bytes() const {
    return region_bytes / 256 < 4 * kBlock ? 4 * kBlock : region_bytes / 256;
  }
  uint32_t contents_blocks() const { return static_cast<uint32_t>(contents_bytes() / kBlock); }
  // Of a region. One block is the spare that its neighbour is rewritten to.
  uint32_t most_pages() const { return (contents_blocks() - 1) * kEntriesPerBlock; }
  uint64_t region_at(uint32_t region) const { return kFirstRegionAt + region * region_bytes; }
  uint64_t file_bytes() const { return region_at(regions); }
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

struct Superblock {
  uint64_t written = 0;         // counts up; the higher one of A and B is newer
  uint64_t file_id = 0;         // random; contents blocks of another file are void
  uint64_t first_sequence = 0;  // of the process that wrote it (sequence.h)
  Geometry geometry;
  std::string cluster;  // at most kMostClusterName bytes
  ClearList clears;
};

enum class SuperblockState : uint8_t {
  kValid,
  kAbsent,   // no magic number: never written
  kCorrupt,  // torn, or flipped bits
  kNewer,    // of a newer format; its checksum is right
};

// `out` is kSuperblockBytes long.
void EncodeSuperblock(const Superblock& superblock, std::span<std::byte> out);
SuperblockState DecodeSuperblock(std::span<const std::byte> bytes, Superblock* superblock);

// A page as its region's contents name it: flat, 64 bytes on disk.
struct ContentsEntry {
  Key key;
  uint32_t length = 0;
  uint32_t offset = 0;  // from the beginning of the region
  uint64_t checksum = 0;
  uint64_t tag = 0;
  uint64_t sequence = 0;
  friend bool operator==(const ContentsEntry&, const ContentsEntry&) = default;
};
static_assert(sizeof(ContentsEntry) == 64);

struct ContentsBlock {
  uint64_t file_id = 0;
  uint64_t epoch = 0;  // of the region: higher each time that the region is written anew
  uint32_t region = 0;
  uint32_t count = 0;
  std::array<ContentsEntry, kEntriesPerBlock> entries;
};

enum class ContentsState : uint8_t {
  kValid,
  kAbsent,   // no magic number
  kCorrupt,  // torn, flipped bits, or an entry that cannot be
  kForeign,  // of another file, region or format
};

// `out` is kBlock long.
void EncodeContents(const ContentsBlock& block, std::span<std::byte> out);
ContentsState DecodeContents(std::span<const std::byte> bytes, uint64_t file_id,
                             const Geometry& geometry, uint32_t region, ContentsBlock* block);

}  // namespace peercache::disk
