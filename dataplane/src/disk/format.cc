#include "disk/format.h"

#include <bit>
#include <cstring>

#include "base/checksum.h"

namespace peercache::disk {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are");

constexpr uint64_t kSuperblockMagic = 0x31425344'43504350;  // "PCPCDSB1"
constexpr uint64_t kContentsMagic = 0x31544344'43504350;    // "PCPCDCT1"
// Both begin with magic (8), checksum (8) of all that follows, version (4), four bytes of zero.
constexpr size_t kChecksumAt = 8, kVersionAt = 16, kBodyAt = 24;
// Of a superblock, behind as many clears as there may be.
constexpr size_t kFloorsAt = 200 + ClearList::kMostTags * sizeof(ClearedTag);
static_assert(kFloorsAt + kTagGroups * sizeof(ClearList::Floor) <= kSuperblockBytes);
constexpr size_t kEntriesAt = kBlock - kEntriesPerBlock * sizeof(ContentsEntry);  // 128
static_assert(kEntriesAt == 128);

class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) { std::memset(out.data(), 0, out.size()); }
  template <typename T>
  void Put(T value) {
    std::memcpy(out_.data() + at_, &value, sizeof(value));
    at_ += sizeof(value);
  }
  void Begin(uint64_t magic) {
    Put(magic);
    at_ = kVersionAt;
    Put(kFormatVersion);
    at_ = kBodyAt;
  }
  void At(size_t at) { at_ = at; }
  void Finish() const {
    const uint64_t checksum = Checksum(std::span<const std::byte>(out_).subspan(kVersionAt));
    std::memcpy(out_.data() + kChecksumAt, &checksum, sizeof(checksum));
  }

 private:
  const std::span<std::byte> out_;
  size_t at_ = 0;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, size_t at) : bytes_(bytes), at_(at) {}
  template <typename T>
  T Get() {
    T value{};
    std::memcpy(&value, bytes_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }

 private:
  const std::span<const std::byte> bytes_;
  size_t at_;
};

enum class Frame : uint8_t { kAbsent, kCorrupt, kOld, kOurs, kNewer };

Frame FrameOf(std::span<const std::byte> bytes, uint64_t magic) {
  Reader r(bytes, 0);
  if (r.Get<uint64_t>() != magic) return Frame::kAbsent;
  if (r.Get<uint64_t>() != Checksum(bytes.subspan(kVersionAt))) return Frame::kCorrupt;
  const auto version = r.Get<uint32_t>();
  if (version > kFormatVersion) return Frame::kNewer;
  return version == kFormatVersion ? Frame::kOurs : Frame::kOld;
}

bool Sane(const Geometry& geometry) {
  return std::has_single_bit(geometry.region_bytes) && geometry.region_bytes >= kMinRegionBytes &&
         geometry.region_bytes <= kRegionBytes && geometry.regions > 0;
}

}  // namespace

void EncodeSuperblock(const Superblock& superblock, std::span<std::byte> out) {
  Writer w(out);
  w.Begin(kSuperblockMagic);
  w.Put(superblock.written);
  w.Put(superblock.file_id);
  w.Put(superblock.first_sequence);
  w.Put(superblock.geometry.region_bytes);
  w.Put(superblock.geometry.regions);
  w.Put(static_cast<uint32_t>(superblock.cluster.size()));
  std::array<char, kMostClusterName> cluster{};
  superblock.cluster.copy(cluster.data(), cluster.size());
  w.Put(cluster);
  w.Put(uint64_t{superblock.clears.tags().size()});
  for (const ClearedTag& clear : superblock.clears.tags()) w.Put(clear);
  w.At(kFloorsAt);
  for (const ClearList::Floor& floor : superblock.clears.floors()) w.Put(floor);
  w.Finish();
}

SuperblockState DecodeSuperblock(std::span<const std::byte> bytes, Superblock* superblock) {
  if (bytes.size() != kSuperblockBytes) return SuperblockState::kCorrupt;
  switch (FrameOf(bytes, kSuperblockMagic)) {
    case Frame::kAbsent: return SuperblockState::kAbsent;
    case Frame::kNewer: return SuperblockState::kNewer;
    case Frame::kOld:  // there is none before version 1
    case Frame::kCorrupt: return SuperblockState::kCorrupt;
    case Frame::kOurs: break;
  }
  Reader r(bytes, kBodyAt);
  Superblock read;
  read.written = r.Get<uint64_t>();
  read.file_id = r.Get<uint64_t>();
  read.first_sequence = r.Get<uint64_t>();
  read.geometry.region_bytes = r.Get<uint64_t>();
  read.geometry.regions = r.Get<uint32_t>();
  const auto name = r.Get<uint32_t>();
  const auto cluster = r.Get<std::array<char, kMostClusterName>>();
  const auto tags = r.Get<uint64_t>();
  if (!Sane(read.geometry) || name > cluster.size() || tags > ClearList::kMostTags)
    return SuperblockState::kCorrupt;
  read.cluster.assign(cluster.data(), name);
  for (uint64_t i = 0; i < tags; ++i) read.clears.Add(r.Get<ClearedTag>());
  Reader floors(bytes, kFloorsAt);
  for (size_t group = 0; group < kTagGroups; ++group) {
    const auto floor = floors.Get<ClearList::Floor>();
    if (floor.sequence != 0) read.clears.AddFloor(group, floor.sequence, floor.epoch);
    read.clears.Forgotten({group, floor.members_epoch, floor.digest});
  }
  *superblock = std::move(read);
  return SuperblockState::kValid;
}

void EncodeContents(const ContentsBlock& block, std::span<std::byte> out) {
  Writer w(out);
  w.Begin(kContentsMagic);
  w.Put(block.file_id);
  w.Put(block.epoch);
  w.Put(block.region);
  w.Put(block.count);
  std::memcpy(out.data() + kEntriesAt, block.entries.data(), block.count * sizeof(ContentsEntry));
  w.Finish();
}

ContentsState DecodeContents(std::span<const std::byte> bytes, uint64_t file_id,
                             const Geometry& geometry, uint32_t region, ContentsBlock* block) {
  if (bytes.size() != kBlock) return ContentsState::kCorrupt;
  switch (FrameOf(bytes, kContentsMagic)) {
    case Frame::kAbsent: return ContentsState::kAbsent;
    case Frame::kCorrupt: return ContentsState::kCorrupt;
    case Frame::kNewer:
    case Frame::kOld: return ContentsState::kForeign;
    case Frame::kOurs: break;
  }
  Reader r(bytes, kBodyAt);
  block->file_id = r.Get<uint64_t>();
  block->epoch = r.Get<uint64_t>();
  block->region = r.Get<uint32_t>();
  block->count = r.Get<uint32_t>();
  if (block->file_id != file_id || block->region != region) return ContentsState::kForeign;
  if (block->count > kEntriesPerBlock) return ContentsState::kCorrupt;
  std::memcpy(block->entries.data(), bytes.data() + kEntriesAt,
              block->count * sizeof(ContentsEntry));
  for (uint32_t i = 0; i < block->count; ++i) {
    const ContentsEntry& entry = block->entries[i];
    if (entry.length == 0 || entry.offset % kBlock != 0 ||
        entry.offset < geometry.contents_bytes() ||
        uint64_t{entry.offset} + entry.length > geometry.region_bytes)
      return ContentsState::kCorrupt;
  }
  return ContentsState::kValid;
}

}  // namespace peercache::disk
