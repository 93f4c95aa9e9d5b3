// What lies on a drive: superblocks and contents blocks, which anybody may have changed who had the
// drive in hand, or the drive itself.
//
// The first byte says which of the two it is, and whether its checksum is made right, so that what
// lies behind it is reached; the rest is the block, filled up with zeros. What is believed is
// within the file, and is written to the same bytes again, but for what the format does not use.

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checksum.h"
#include "disk/format.h"
#include "fuzz.h"

namespace peercache::fuzz {
namespace {

using namespace disk;  // NOLINT(google-build-using-namespace)

Reached superblock_valid("superblock"), superblock_corrupt("corrupt superblock"),
    superblock_newer("newer superblock"), contents_valid("contents"),
    contents_corrupt("corrupt contents"), contents_foreign("foreign contents");

constexpr uint64_t kFileId = 77;
constexpr uint32_t kRegion = 3;
constexpr Geometry kGeometry{.region_bytes = kRegionBytes, .regions = 8};

void TrySuperblock(std::span<const std::byte> bytes) {
  Superblock read;
  switch (DecodeSuperblock(bytes, &read)) {
    case SuperblockState::kValid: superblock_valid.Hit(); break;
    case SuperblockState::kNewer: superblock_newer.Hit(); return;
    case SuperblockState::kCorrupt: superblock_corrupt.Hit(); return;
    case SuperblockState::kAbsent: return;
  }
  Require(read.cluster.size() <= kMostClusterName, "the name is as long as it may be");
  Require(read.clears.tags().size() <= ClearList::kMostTags, "clears are as many as may be");
  Require(read.geometry.regions > 0 && read.geometry.region_bytes <= kRegionBytes &&
              read.geometry.contents_bytes() < read.geometry.region_bytes,
          "regions can be");
  for (const ClearedTag& clear : read.clears.tags())
    Require(read.clears.Dead(clear.tag, clear.sequence), "what was cleared is dead");
  std::vector<std::byte> again(kSuperblockBytes);
  EncodeSuperblock(read, again);
  Superblock reread;
  Require(DecodeSuperblock(again, &reread) == SuperblockState::kValid, "it can be written");
  Require(reread.clears == read.clears && reread.cluster == read.cluster &&
              reread.geometry == read.geometry && reread.first_sequence == read.first_sequence,
          "and says the same");
}

void TryContents(std::span<const std::byte> bytes) {
  ContentsBlock read;
  switch (DecodeContents(bytes, kFileId, kGeometry, kRegion, &read)) {
    case ContentsState::kValid: contents_valid.Hit(); break;
    case ContentsState::kForeign: contents_foreign.Hit(); return;
    case ContentsState::kCorrupt: contents_corrupt.Hit(); return;
    case ContentsState::kAbsent: return;
  }
  Require(read.count <= kEntriesPerBlock, "no more pages than fit");
  for (uint32_t i = 0; i < read.count; ++i) {
    const ContentsEntry& entry = read.entries[i];
    Require(entry.length > 0 && entry.offset % kBlock == 0 &&
                entry.offset >= kGeometry.contents_bytes() &&
                entry.offset + AlignUp(entry.length) <= kGeometry.region_bytes,
            "a page lies among the pages of its region");
  }
  std::vector<std::byte> again(kBlock);
  EncodeContents(read, again);
  ContentsBlock reread;
  Require(DecodeContents(again, kFileId, kGeometry, kRegion, &reread) == ContentsState::kValid &&
              reread.epoch == read.epoch && reread.count == read.count &&
              std::equal(read.entries.begin(), read.entries.begin() + read.count,
                         reread.entries.begin()),
          "it is written as it was read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SetUp();
  if (size == 0) return 0;
  const bool contents = (data[0] & 1) != 0, made_right = (data[0] & 2) != 0;
  const Input rest = Input(data, size).subspan(1);
  std::vector<std::byte> bytes(contents ? kBlock : kSuperblockBytes);
  std::memcpy(bytes.data(), rest.data(), std::min(rest.size(), bytes.size()));
  if (made_right) {
    const uint64_t checksum = Checksum(std::span<const std::byte>(bytes).subspan(16));
    std::memcpy(bytes.data() + 8, &checksum, sizeof(checksum));
  }
  if (contents)
    TryContents(bytes);
  else
    TrySuperblock(bytes);
  return 0;
}

}  // namespace peercache::fuzz
