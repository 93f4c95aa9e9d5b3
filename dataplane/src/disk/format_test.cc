#include "disk/format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/checksum.h"
#include "disk/disk_testing.h"

namespace peercache::disk {
namespace {

using testing::KeyOf;

constexpr Geometry kGeometry{.region_bytes = kMinRegionBytes, .regions = 4};

Superblock SomeSuperblock() {
  Superblock superblock;
  superblock.written = 7;
  superblock.file_id = 0x1122334455667788;
  superblock.first_sequence = 1'000'000;
  superblock.geometry = {.region_bytes = kRegionBytes, .regions = 1600};
  superblock.cluster = "inference/kv";
  superblock.clears.AddFloor(0, 5, 50);
  superblock.clears.Add({.tag = 42, .sequence = 999, .epoch = 12345});
  superblock.clears.Add({.tag = 3, .sequence = 77, .epoch = 678});
  superblock.clears.AddFloor(kTagGroups - 1, 6, 60);
  superblock.clears.Forgotten({.group = 1, .epoch = 600, .digest = 0x12345});
  return superblock;
}

ContentsBlock SomeContents(uint32_t count) {
  ContentsBlock block;
  block.file_id = 99;
  block.epoch = 1234;
  block.region = 2;
  block.count = count;
  for (uint32_t i = 0; i < count; ++i)
    block.entries[i] = {
        .key = KeyOf(i),
        .length = 5000,
        .offset = static_cast<uint32_t>(kGeometry.contents_bytes()) + i * 2 * kBlock,
        .checksum = i + 1,
        .tag = 8,
        .sequence = 2000 + i};
  return block;
}

template <typename T>
T NumberAt(std::span<const std::byte> bytes, size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

TEST(FormatTest, ASuperblockIsReadAsItWasWritten) {
  std::vector<std::byte> bytes(kSuperblockBytes);
  const Superblock written = SomeSuperblock();
  EncodeSuperblock(written, bytes);
  Superblock read;
  ASSERT_EQ(DecodeSuperblock(bytes, &read), SuperblockState::kValid);
  EXPECT_EQ(read.written, written.written);
  EXPECT_EQ(read.file_id, written.file_id);
  EXPECT_EQ(read.first_sequence, written.first_sequence);
  EXPECT_EQ(read.geometry, written.geometry);
  EXPECT_EQ(read.cluster, written.cluster);
  EXPECT_EQ(read.clears, written.clears);
}

// What releases of this format have in common: a change here is another format.
TEST(FormatTest, NumbersLieWhereTheFormatSays) {
  std::vector<std::byte> bytes(kSuperblockBytes);
  EncodeSuperblock(SomeSuperblock(), bytes);
  EXPECT_EQ(std::memcmp(bytes.data(), "PCPCDSB1", 8), 0);
  EXPECT_EQ(NumberAt<uint64_t>(bytes, 8), Checksum(std::span<const std::byte>(bytes).subspan(16)));
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 16), 1u);                   // version
  EXPECT_EQ(NumberAt<uint64_t>(bytes, 24), 7u);                   // written
  EXPECT_EQ(NumberAt<uint64_t>(bytes, 32), 0x1122334455667788u);  // file
  EXPECT_EQ(NumberAt<uint64_t>(bytes, 40), 1'000'000u);           // first sequence
  EXPECT_EQ(NumberAt<uint64_t>(bytes, 48), uint64_t{64} << 20);   // bytes of a region
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 56), 1600u);                // regions
  EXPECT_EQ(NumberAt<uint32_t>(bytes, 60), 12u);                  // bytes of the name
  EXPECT_EQ(std::memcmp(bytes.data() + 64, "inference/kv", 12), 0);
  EXPECT_EQ(NumberAt<uint64_t>(bytes, 192), 2u);  // tags
  EXPECT_EQ(NumberAt<uint64_t>(bytes, 200), 3u);  // in their order
  constexpr size_t kFloor = 200 + 24'000;
  EXPECT_EQ(NumberAt<uint64_t>(bytes, kFloor), 5u);
  EXPECT_EQ(NumberAt<uint64_t>(bytes, kFloor + 8), 50u);
  EXPECT_EQ(NumberAt<uint64_t>(bytes, kFloor + 32 + 16), 600u);  // of the next group
  EXPECT_EQ(NumberAt<uint64_t>(bytes, kFloor + 32 + 24), 0x12345u);
  EXPECT_EQ(NumberAt<uint64_t>(bytes, kFloor + 1023 * 32), 6u);  // of the last

  std::vector<std::byte> block(kBlock);
  EncodeContents(SomeContents(3), block);
  EXPECT_EQ(std::memcmp(block.data(), "PCPCDCT1", 8), 0);
  EXPECT_EQ(NumberAt<uint64_t>(block, 24), 99u);    // file
  EXPECT_EQ(NumberAt<uint64_t>(block, 32), 1234u);  // epoch
  EXPECT_EQ(NumberAt<uint32_t>(block, 40), 2u);     // region
  EXPECT_EQ(NumberAt<uint32_t>(block, 44), 3u);     // pages
  EXPECT_EQ(std::memcmp(block.data() + 128, KeyOf(0).bytes.data(), 32), 0);
  EXPECT_EQ(NumberAt<uint32_t>(block, 128 + 32), 5000u);
  EXPECT_EQ(NumberAt<uint64_t>(block, 128 + 64 + 56), 2001u);  // sequence of the second page
}

TEST(FormatTest, TheLargestListOfClearsFits) {
  Superblock superblock = SomeSuperblock();
  for (uint64_t i = 0; i < 3 * ClearList::kMostTags; ++i) {
    superblock.clears.Add({.tag = TagIn(i % kTagGroups, i), .sequence = 1000 + i, .epoch = i});
    superblock.clears.Forgotten({.group = i % kTagGroups, .epoch = i, .digest = ~i});
  }
  ASSERT_EQ(superblock.clears.tags().size(), ClearList::kMostTags);
  std::vector<std::byte> bytes(kSuperblockBytes);
  EncodeSuperblock(superblock, bytes);
  Superblock read;
  ASSERT_EQ(DecodeSuperblock(bytes, &read), SuperblockState::kValid);
  EXPECT_EQ(read.clears, superblock.clears);
}

TEST(FormatTest, NoFlippedBitOfASuperblockIsBelieved) {
  std::vector<std::byte> bytes(kSuperblockBytes);
  EncodeSuperblock(SomeSuperblock(), bytes);
  // All bits of the head, and one of about every ninth later byte.
  for (size_t bit = 0; bit < 8 * kSuperblockBytes; bit += bit < 8 * 512 ? 1 : 73) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    Superblock read;
    const SuperblockState state = DecodeSuperblock(bytes, &read);
    EXPECT_TRUE(state == SuperblockState::kCorrupt || state == SuperblockState::kAbsent)
        << "bit " << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(FormatTest, NoFlippedBitOfAContentsBlockIsBelieved) {
  std::vector<std::byte> bytes(kBlock);
  EncodeContents(SomeContents(kEntriesPerBlock), bytes);
  ContentsBlock read;
  ASSERT_EQ(DecodeContents(bytes, 99, kGeometry, 2, &read), ContentsState::kValid);
  EXPECT_EQ(read.entries, SomeContents(kEntriesPerBlock).entries);
  for (size_t bit = 0; bit < 8 * kBlock; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(DecodeContents(bytes, 99, kGeometry, 2, &read), ContentsState::kValid)
        << "bit " << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

// As if every sector behind the torn one were of an older block.
TEST(FormatTest, NoTornContentsBlockIsBelieved) {
  std::vector<std::byte> older(kBlock), newer(kBlock);
  EncodeContents(SomeContents(30), older);
  EncodeContents(SomeContents(kEntriesPerBlock), newer);
  for (size_t sectors = 1; sectors < kBlock / 512; ++sectors) {
    std::vector<std::byte> torn = older;
    std::memcpy(torn.data(), newer.data(), sectors * 512);
    ContentsBlock read;
    EXPECT_EQ(DecodeContents(torn, 99, kGeometry, 2, &read), ContentsState::kCorrupt);
  }
}

TEST(FormatTest, BlocksOfOtherFilesAndRegionsAreForeign) {
  std::vector<std::byte> bytes(kBlock);
  EncodeContents(SomeContents(3), bytes);
  ContentsBlock read;
  EXPECT_EQ(DecodeContents(bytes, 98, kGeometry, 2, &read), ContentsState::kForeign);
  EXPECT_EQ(DecodeContents(bytes, 99, kGeometry, 1, &read), ContentsState::kForeign);
}

TEST(FormatTest, EntriesThatCannotBeAreRefusedInSpiteOfTheirChecksum) {
  const auto decode = [](const ContentsEntry& entry) {
    ContentsBlock block = SomeContents(1);
    block.entries[0] = entry;
    std::vector<std::byte> bytes(kBlock);
    EncodeContents(block, bytes);
    ContentsBlock read;
    return DecodeContents(bytes, 99, kGeometry, 2, &read);
  };
  const ContentsEntry good = SomeContents(1).entries[0];
  EXPECT_EQ(decode(good), ContentsState::kValid);
  ContentsEntry bad = good;
  bad.length = 0;
  EXPECT_EQ(decode(bad), ContentsState::kCorrupt);
  bad = good;
  bad.offset += 512;
  EXPECT_EQ(decode(bad), ContentsState::kCorrupt);
  bad = good;
  bad.offset = 0;
  EXPECT_EQ(decode(bad), ContentsState::kCorrupt) << "that is where contents blocks are";
  bad = good;
  bad.length = UINT32_MAX;
  EXPECT_EQ(decode(bad), ContentsState::kCorrupt);
}

TEST(FormatTest, ANewerFormatIsToldFromABrokenOne) {
  std::vector<std::byte> bytes(kSuperblockBytes);
  EncodeSuperblock(SomeSuperblock(), bytes);
  const uint32_t newer = kFormatVersion + 1;
  std::memcpy(bytes.data() + 16, &newer, sizeof(newer));
  Superblock read;
  EXPECT_EQ(DecodeSuperblock(bytes, &read), SuperblockState::kCorrupt);
  const uint64_t checksum = Checksum(std::span<const std::byte>(bytes).subspan(16));
  std::memcpy(bytes.data() + 8, &checksum, sizeof(checksum));
  EXPECT_EQ(DecodeSuperblock(bytes, &read), SuperblockState::kNewer);
}

TEST(ClearListTest, PagesOlderThanTheLastClearOfTheirTagAreDead) {
  ClearList clears;
  EXPECT_FALSE(clears.Dead(1, 1));
  clears.Add({.tag = 1, .sequence = 10, .epoch = 100});
  clears.Add({.tag = 1, .sequence = 5, .epoch = 50});
  EXPECT_TRUE(clears.Dead(1, 10));
  EXPECT_FALSE(clears.Dead(1, 11));
  EXPECT_FALSE(clears.Dead(2, 10));
  clears.AddFloor(0, 20, 0);
  EXPECT_TRUE(clears.Dead(2, 20));
  EXPECT_FALSE(clears.Dead(2, 21));
  ASSERT_EQ(clears.tags().size(), 1u) << "its epoch is above that of the floor";
  EXPECT_EQ(clears.tags()[0].epoch, 100u);
}

TEST(ClearListTest, TheOldestClearOfTheLargestGroupBecomesItsFloor) {
  ClearList clears;
  clears.Add({.tag = TagIn(2, 1), .sequence = 50, .epoch = 3});
  for (uint64_t i = 0; i < ClearList::kMostTags; ++i)
    clears.Add({.tag = TagIn(1, i), .sequence = 100 + i, .epoch = 7});
  EXPECT_EQ(clears.tags().size(), ClearList::kMostTags);
  EXPECT_EQ(clears.floors()[1].sequence, 100u);
  EXPECT_TRUE(clears.Dead(TagIn(1, 123456), 100));
  EXPECT_FALSE(clears.Dead(TagIn(1, 123456), 101));
  EXPECT_TRUE(clears.Dead(TagIn(2, 1), 50)) << "which is older than all of them";
  EXPECT_FALSE(clears.Dead(TagIn(2, 2), 50));
  EXPECT_EQ(clears.forgotten(), (std::vector<ForgottenClears>{{1, 7, 0}}));
}

TEST(ClearListTest, WhatMembersHaveForgottenIsSaidWhereItIsNotLess) {
  ClearList clears;
  clears.AddFloor(3, 20, 9);
  clears.Forgotten({.group = 3, .epoch = 8, .digest = 1});
  clears.Forgotten({.group = 4, .epoch = 8, .digest = 2});
  EXPECT_EQ(clears.forgotten(), (std::vector<ForgottenClears>{{3, 9, 0}, {4, 8, 2}}));
  clears.Forgotten({.group = 3, .epoch = 9, .digest = 5});
  EXPECT_EQ(clears.forgotten(), (std::vector<ForgottenClears>{{3, 9, 5}, {4, 8, 2}}));
}

TEST(ClearListTest, MergedListsKnowWhatEitherKnows) {
  ClearList a, b;
  a.Add({.tag = 1, .sequence = 10, .epoch = 1});
  b.Add({.tag = 1, .sequence = 12, .epoch = 2});
  b.Add({.tag = 2, .sequence = 3, .epoch = 2});
  a.AddFloor(0, 4, 0);
  a.Forgotten({.group = 0, .epoch = 3, .digest = 9});
  b.Forgotten({.group = 0, .epoch = 2, .digest = 8});
  ClearList ab = a, ba = b;
  ab.Merge(b);
  ba.Merge(a);
  EXPECT_EQ(ab, ba);
  EXPECT_TRUE(ab.Dead(1, 12));
  EXPECT_TRUE(ab.Dead(3, 4));
  EXPECT_EQ(ab.floors()[0].digest, 9u);
}

}  // namespace
}  // namespace peercache::disk
