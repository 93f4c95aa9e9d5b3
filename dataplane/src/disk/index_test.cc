#include "disk/index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/chosen_keys_testing.h"
#include "base/small_file.h"
#include "disk/disk_testing.h"

namespace peercache::disk {
namespace {

using testing::KeyOf;

DiskPage Page(uint64_t number, RegionId at, uint32_t offset = 0) {
  return {.key = KeyOf(number),
          .checksum = number + 1,
          .tag = number + 2,
          .sequence = number + 3,
          .at = at,
          .offset = offset * kBlock,
          .length = static_cast<uint32_t>(number % 1000 + 1),
          .note = static_cast<uint32_t>(number),
          .owner = static_cast<uint8_t>(number)};
}

TEST(IndexTest, AgreesWithAMap) {
  Index index(1000, {8, 4});
  std::map<uint64_t, RegionId> model;
  std::mt19937_64 random(1);
  for (int step = 0; step < 200000; ++step) {
    const uint64_t number = random() % 1500;
    const Index::Number found = index.Find(KeyOf(number));
    ASSERT_EQ(found != Index::kNone, model.contains(number));
    const auto device = static_cast<uint16_t>(random() % 2);
    const RegionId region{device, static_cast<uint32_t>(random() % (device == 0 ? 8 : 4))};
    switch (random() % 8) {
      case 0:
        if (found != Index::kNone) {
          index.Erase(found);
          model.erase(number);
        }
        break;
      case 1:
        if (step % 16 == 0) {
          while (index.DropBlock(region)) {
          }
          std::erase_if(model, [&](const auto& entry) { return entry.second == region; });
        }
        break;
      default:
        if (found == Index::kNone && index.Insert(Page(number, region, 5)))
          model.emplace(number, region);
    }
    ASSERT_EQ(index.size(), model.size());
  }
  EXPECT_FALSE(model.empty());
  for (const auto& [number, region] : model) {
    const Index::Number found = index.Find(KeyOf(number));
    ASSERT_NE(found, Index::kNone);
    const DiskPage page = index.At(found);
    EXPECT_EQ(page.key, KeyOf(number));
    EXPECT_EQ(page.at, region);
    EXPECT_EQ(page.checksum, number + 1);
    EXPECT_EQ(page.tag, number + 2);
    EXPECT_EQ(page.sequence, number + 3);
    EXPECT_EQ(page.offset, 5 * kBlock);
    EXPECT_EQ(page.note, number);
    EXPECT_EQ(page.owner, static_cast<uint8_t>(number));
  }
}

TEST(IndexTest, RefusesWhenItIsFullAndTakesAgainAfterARegionHasGone) {
  Index index(100, {2});
  uint64_t count = 0;
  while (index.Insert(Page(count, {0, 0}))) ++count;
  EXPECT_EQ(count, index.capacity());
  EXPECT_EQ(index.free_pages(), 0u);
  EXPECT_EQ(index.Find(KeyOf(count)), Index::kNone);
  while (index.DropBlock({0, 0})) {
  }
  EXPECT_EQ(index.free_pages(), index.capacity());
  EXPECT_TRUE(index.Insert(Page(count, {0, 1})));
}

TEST(IndexTest, ListsTheEntriesOfARegionInTheirOrder) {
  Index index(1000, {2});
  for (uint64_t i = 0; i < 100; ++i)
    ASSERT_TRUE(index.Insert(Page(i, {0, static_cast<uint32_t>(i % 2)})));
  index.Erase(index.Find(KeyOf(1)));
  std::vector<uint32_t> notes;
  for (uint32_t block = index.NextBlock({0, 1}, Index::kNone); block != Index::kNone;
       block = index.NextBlock({0, 1}, block))
    for (uint32_t i = 0; i < Index::kPerBlock; ++i)
      if (index.Used(block, i)) notes.push_back(index.At(Index::NumberOf(block, i)).note);
  ASSERT_EQ(notes.size(), 49u);
  for (size_t i = 0; i < notes.size(); ++i) EXPECT_EQ(notes[i], 3 + 2 * i);
}

TEST(IndexTest, ChosenKeysCostNoMoreThanOthers) {
  peercache::testing::ExpectChosenKeysCostNoMore([](std::span<const Key> keys) {
    Index index(keys.size(), {1});
    for (size_t i = 0; i < keys.size(); ++i) {
      DiskPage page = Page(i, {0, 0});
      page.key = keys[i];
      ASSERT_TRUE(index.Insert(page));
    }
    for (const Key& key : keys) ASSERT_NE(index.Find(key), Index::kNone);
    while (index.DropBlock({0, 0})) {
    }
  });
}

// TSan keeps shadows of all memory.
#ifndef __SANITIZE_THREAD__
uint64_t ResidentBytes() {
  const std::string fields = ReadSmallFile("/proc/self/statm");
  return std::stoull(fields.substr(fields.find(' '))) * 4096;
}

// disk.md: about 76 bytes. Of a disk of 16 GiB with pages of 128 KiB, full.
TEST(IndexTest, TakesAbout76BytesAPage) {
  constexpr uint32_t kRegions = 256, kPerRegion = 512 - 2;
  const uint64_t before = ResidentBytes();
  Index index(uint64_t{kRegions} * kPerRegion, std::vector<uint32_t>{kRegions});
  for (uint32_t region = 0; region < kRegions; ++region)
    for (uint32_t i = 0; i < kPerRegion; ++i)
      ASSERT_TRUE(index.Insert(Page(region * kPerRegion + i, {0, region}, i)));
  const double each =
      static_cast<double>(ResidentBytes() - before) / static_cast<double>(index.size());
  RecordProperty("bytes_a_page", std::to_string(each));
  EXPECT_LT(each, 80);
}
#endif

}  // namespace
}  // namespace peercache::disk
