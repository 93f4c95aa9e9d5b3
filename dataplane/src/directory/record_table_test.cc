#include "directory/record_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/chosen_keys_testing.h"

namespace peercache {
namespace {

// `tag` decides the probe run; `id` makes keys of one tag differ.
Key MakeKey(uint32_t tag, uint8_t id) { return testing::ChosenKey(tag, id); }

std::multiset<uint64_t> Generations(RecordTable& table, const Key& key) {
  std::multiset<uint64_t> result;
  table.VisitOf(key, [&](const StoredRecord& record) {
    result.insert(record.generation);
    return true;
  });
  return result;
}

TEST(RecordTable, EmptyFindsNothing) {
  RecordTable table{SeededHash(testing::kNoSeed)};
  EXPECT_TRUE(Generations(table, MakeKey(1, 1)).empty());
  EXPECT_EQ(table.EraseIf([](const StoredRecord&) { return true; }), 0u);
}

TEST(RecordTable, SeveralRecordsOfOneKeyAndKeysOfOneTagStayApart) {
  RecordTable table{SeededHash(testing::kNoSeed)};
  table.Insert(MakeKey(5, 1))->generation = 1;
  table.Insert(MakeKey(5, 2))->generation = 2;
  table.Insert(MakeKey(5, 1))->generation = 3;
  EXPECT_EQ(Generations(table, MakeKey(5, 1)), (std::multiset<uint64_t>{1, 3}));
  EXPECT_EQ(Generations(table, MakeKey(5, 2)), (std::multiset<uint64_t>{2}));
  table.Erase(table.Find(MakeKey(5, 1), [](const StoredRecord& r) { return r.generation == 1; }));
  EXPECT_EQ(Generations(table, MakeKey(5, 1)), (std::multiset<uint64_t>{3}));
  EXPECT_EQ(Generations(table, MakeKey(5, 2)), (std::multiset<uint64_t>{2}));
}

// Against a std::multimap, with few tags around the end of the index so that runs collide and wrap.
TEST(RecordTable, AgreesWithAModelUnderRandomUse) {
  std::mt19937_64 rng(11);
  RecordTable table{SeededHash(testing::kNoSeed)};
  std::map<Key, std::multiset<uint64_t>> model;
  size_t size = 0;
  for (uint64_t step = 1; step <= 60000; ++step) {
    const Key key =
        MakeKey(static_cast<uint32_t>(0u - 20u + rng() % 40), static_cast<uint8_t>(rng() % 4));
    auto& mine = model[key];
    const auto choice = rng() % 100;
    if (choice < 50 && size < 300) {
      table.Insert(key)->generation = step;
      mine.insert(step);
      ++size;
    } else if (choice < 99) {
      StoredRecord* record = table.Find(key, [](const StoredRecord&) { return true; });
      ASSERT_EQ(record == nullptr, mine.empty());
      if (record != nullptr) {
        mine.erase(record->generation);
        table.Erase(record);
        --size;
      }
    } else {
      const uint64_t modulus = 2 + rng() % 5;
      const size_t erased =
          table.EraseIf([&](const StoredRecord& r) { return r.generation % modulus == 0; });
      size_t expected = 0;
      for (auto& [k, generations] : model)
        expected += std::erase_if(generations, [&](uint64_t g) { return g % modulus == 0; });
      ASSERT_EQ(erased, expected);
      size -= erased;
    }
    ASSERT_EQ(table.size(), size);
    if (step % 500 != 0) continue;
    for (const auto& [k, generations] : model) ASSERT_EQ(Generations(table, k), generations);
  }
}

TEST(RecordTable, RecordsStayInPlaceWhileTheTableGrows) {
  RecordTable table{SeededHash(testing::kNoSeed)};
  StoredRecord* first = table.Insert(MakeKey(0, 0));
  first->generation = 77;
  for (uint32_t i = 1; i < 5000; ++i) table.Insert(MakeKey(i, 0))->generation = i;
  EXPECT_EQ(table.Find(MakeKey(0, 0), [](const StoredRecord&) { return true; }), first);
  EXPECT_EQ(first->generation, 77u);
  for (uint32_t i = 1; i < 5000; ++i)
    ASSERT_EQ(Generations(table, MakeKey(i, 0)), (std::multiset<uint64_t>{i}));
}

TEST(RecordTable, ChosenKeysCostNoMoreThanOthers) {
  testing::ExpectChosenKeysCostNoMore([](std::span<const Key> keys) {
    RecordTable table;
    const auto any = [](const StoredRecord&) { return true; };
    for (const Key& key : keys) table.Insert(key);
    for (const Key& key : keys) ASSERT_NE(table.Find(key, any), nullptr);
    for (const Key& key : keys) table.Erase(table.Find(key, any));
  });
}

}  // namespace
}  // namespace peercache
