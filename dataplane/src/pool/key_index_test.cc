#include "pool/key_index.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

#include "base/chosen_keys_testing.h"
#include "pool/pool_testing.h"

namespace peercache {
namespace {

// Random inserts, erases and lookups against std::unordered_map. `buckets` is the number of
// distinct hashes: few of them make long runs that wrap around, in which removal has to shift.
void Compare(size_t keys, uint64_t hashes, uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << "keys " << keys << " hashes " << hashes << " seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<Slot> slots(keys);
  for (size_t i = 0; i < keys; ++i) {
    slots[i].key = KeyOf(i);
    if (hashes != 0) {
      // The last buckets: runs wrap.
      slots[i].key = testing::ChosenKey(UINT64_MAX - random() % hashes, i);
    }
  }
  KeyIndex index(0, SeededHash(testing::kNoSeed));
  std::unordered_map<Key, Slot*, SeededHash> model;
  for (int step = 0; step < 20000; ++step) {
    Slot* slot = &slots[random() % keys];
    const auto found = model.find(slot->key);
    ASSERT_EQ(index.Find(slot->key), found == model.end() ? nullptr : found->second) << step;
    if (found == model.end()) {
      index.Insert(slot);
      model[slot->key] = slot;
    } else if (random() % 2 == 0) {
      index.Erase(slot);
      model.erase(found);
    }
    ASSERT_EQ(index.size(), model.size());
  }
  for (Slot& slot : slots) ASSERT_EQ(index.Find(slot.key) != nullptr, model.contains(slot.key));
}

TEST(KeyIndex, AgreesWithAMap) {
  for (uint64_t seed = 1; seed <= 5; ++seed) Compare(5000, 0, seed);
}

TEST(KeyIndex, AgreesWithAMapWhenHashesCollide) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Compare(40, 1, seed);
    Compare(40, 7, seed);
    Compare(300, 40, seed);
  }
}

// A table of millions of keys is not moved within one operation, which others would wait for.
TEST(KeyIndex, GrowsAFewEntriesAtATime) {
  constexpr size_t kKeys = 200'000;
  std::vector<Slot> slots(kKeys);
  for (size_t i = 0; i < kKeys; ++i) slots[i].key = KeyOf(i);
  KeyIndex index(0);
  size_t growths = 0, longest = 0, grown_for = 0;
  for (size_t i = 0; i < kKeys; ++i) {
    const bool before = index.growing();
    index.Insert(&slots[i]);
    growths += !before && index.growing();
    grown_for = index.growing() ? grown_for + 1 : 0;
    longest = std::max(longest, grown_for);
    // Whatever has been moved and whatever has not.
    ASSERT_EQ(index.Find(slots[i / 2].key), &slots[i / 2]) << i;
    ASSERT_EQ(index.Find(slots[i].key), &slots[i]) << i;
  }
  EXPECT_GE(growths, 10u);
  EXPECT_GT(longest, kKeys / 8) << "the last growth is spread over many insertions";
  for (size_t i = 0; i < kKeys; i += 2) index.Erase(&slots[i]);
  for (size_t i = 0; i < kKeys; ++i)
    ASSERT_EQ(index.Find(slots[i].key) != nullptr, i % 2 == 1) << i;
}

TEST(KeyIndex, ChosenKeysCostNoMoreThanOthers) {
  testing::ExpectChosenKeysCostNoMore([](std::span<const Key> keys) {
    std::vector<Slot> slots(keys.size());
    KeyIndex index(0);
    for (size_t i = 0; i < keys.size(); ++i) {
      slots[i].key = keys[i];
      index.Insert(&slots[i]);
    }
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(index.Find(keys[i]), &slots[i]);
    for (const Slot& slot : slots) index.Erase(&slot);
  });
}

}  // namespace
}  // namespace peercache
