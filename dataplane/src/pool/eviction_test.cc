#include "pool/eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "pool/ghost.h"
#include "pool/pool_testing.h"
#include "pool/s3fifo.h"
#include "pool/slot.h"

namespace peercache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Slots by number, without a pool around them.
class Pages {
 public:
  explicit Pages(EvictionPolicy policy) : order_(MakeEvictionOrder(policy, &ghost_)) {}

  void Set(uint64_t number) {
    Slot& slot = slots_.emplace_back();
    slot.key = KeyOf(number);
    slot.generation = number;
    slot.last_use = ++uses_;
    order_->Insert(&slot);
  }
  Slot& At(uint64_t number) {  // the latest page of that number
    for (auto slot = slots_.rbegin(); slot != slots_.rend(); ++slot)
      if (slot->generation == number) return *slot;
    throw std::out_of_range("no such page");
  }
  void Use(uint64_t number, int times = 1) {
    for (int i = 0; i < times; ++i) {
      At(number).last_use = ++uses_;
      order_->Use(&At(number));
    }
  }
  std::vector<uint64_t> Evict(size_t count) {
    std::vector<uint64_t> gone;
    while (gone.size() < count) {
      Slot* slot = order_->Next();
      if (slot == nullptr) break;
      order_->Remove(slot, true);
      gone.push_back(slot->generation);
    }
    return gone;
  }
  std::vector<uint64_t> Peek(size_t most) {
    std::vector<const Slot*> next;
    order_->Peek(most, &next);
    std::vector<uint64_t> numbers;
    for (const Slot* slot : next) numbers.push_back(slot->generation);
    return numbers;
  }
  EvictionOrder& order() { return *order_; }

 private:
  Ghost ghost_{100};
  std::deque<Slot> slots_;
  std::unique_ptr<EvictionOrder> order_;
  uint64_t uses_ = 0;
};

TEST(EvictionPolicy, NamesParse) {
  for (EvictionPolicy policy : {EvictionPolicy::kLru, EvictionPolicy::kS3Fifo})
    EXPECT_EQ(ParseEvictionPolicy(EvictionPolicyName(policy)).value(), policy);
  const auto other = ParseEvictionPolicy("fifo");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.status().message(), HasSubstr("\"fifo\" is none of lru, s3fifo"));
}

TEST(EvictionOrder, PeeksAtWhatGoesNext) {
  for (EvictionPolicy policy : {EvictionPolicy::kLru, EvictionPolicy::kS3Fifo}) {
    Pages pages(policy);
    EXPECT_THAT(pages.Peek(3), ElementsAre());
    for (uint64_t i = 1; i <= 20; ++i) {
      pages.Set(i);
      if (i % 3 == 0) pages.Use(i - i % 2);
      if (i % 7 == 0) (void)pages.Evict(1);
    }
    (void)pages.order().Next();
    EXPECT_THAT(pages.Peek(0), ElementsAre());
    const auto next = pages.Peek(5);
    EXPECT_EQ(next.size(), 5u);
    EXPECT_EQ(pages.Peek(5), next) << "looking changes nothing";
    EXPECT_EQ(pages.Evict(5), next) << EvictionPolicyName(policy);
  }
}

TEST(EvictionOrder, PeeksPastWhatStaysButNotForEver) {
  for (EvictionPolicy policy : {EvictionPolicy::kLru, EvictionPolicy::kS3Fifo}) {
    Pages pages(policy);
    for (uint64_t i = 1; i <= 20; ++i) pages.Set(i);
    for (uint64_t i = 1; i <= 10; ++i) pages.At(i).pins = 1;
    EXPECT_THAT(pages.Peek(2), ElementsAre(11, 12)) << EvictionPolicyName(policy);
    EXPECT_THAT(pages.Peek(1), ElementsAre()) << EvictionPolicyName(policy);
    for (uint64_t i = 1; i <= 20; ++i) pages.At(i).pins = 1;
    EXPECT_THAT(pages.Peek(20), ElementsAre()) << EvictionPolicyName(policy);
  }
}

TEST(LruOrder, TheLongestUnusedGoesFirst) {
  Pages pages(EvictionPolicy::kLru);
  EXPECT_EQ(pages.order().Next(), nullptr);
  EXPECT_EQ(pages.order().Age(), UINT64_MAX);
  for (uint64_t i = 1; i <= 5; ++i) pages.Set(i);
  pages.Use(1);
  pages.Use(3);
  EXPECT_EQ(pages.order().Age(), pages.At(2).last_use);
  EXPECT_THAT(pages.Evict(9), ElementsAre(2, 4, 5, 1, 3));
}

class AnyOrder : public ::testing::TestWithParam<EvictionPolicy> {};

TEST_P(AnyOrder, PinnedPagesArePassedOver) {
  Pages pages(GetParam());
  for (uint64_t i = 1; i <= 6; ++i) pages.Set(i);
  for (uint64_t i : {1, 3}) pages.At(i).pins = 1;
  EXPECT_THAT(pages.Evict(9), ElementsAre(2, 4, 5, 6));
  EXPECT_EQ(pages.order().Next(), nullptr);
  pages.At(1).pins = 0;
  EXPECT_THAT(pages.Evict(9), ElementsAre(1));
  pages.At(3).pins = 0;
  EXPECT_THAT(pages.Evict(9), ElementsAre(3));
}

TEST_P(AnyOrder, APageCanLeaveFromAnyPlace) {
  Pages pages(GetParam());
  for (uint64_t i = 1; i <= 6; ++i) pages.Set(i);
  for (uint64_t i : {1, 4, 6}) pages.order().Remove(&pages.At(i), false);
  EXPECT_THAT(pages.Evict(9), ElementsAre(2, 3, 5));
}

INSTANTIATE_TEST_SUITE_P(Policies, AnyOrder,
                         ::testing::Values(EvictionPolicy::kLru, EvictionPolicy::kS3Fifo));

// Pages that are in main from the start, as their keys are remembered.
struct ProvenPages {
  explicit ProvenPages(size_t count) : ghost(count) {
    for (uint64_t i = 0; i < count; ++i) {
      Slot& slot = slots.emplace_back();
      slot.key = KeyOf(i);
      ghost.Add(slot.key);
      order.Insert(&slot);
    }
    EXPECT_EQ(order.main(), count);
  }
  size_t uses() const {
    size_t sum = 0;
    for (const Slot& slot : slots) sum += slot.uses;
    return sum;
  }
  Ghost ghost;
  std::deque<Slot> slots;
  S3FifoOrder order{&ghost};
};

// Next() is called with the pool's mutex held. How far it has looked is seen by what it changes.
TEST(S3FifoOrder, ACallLooksAtSomePagesOfMainAndTheNextGoesOn) {
  constexpr size_t kMost = S3FifoOrder::kMostLooks, kPages = 5 * kMost;
  ProvenPages used(kPages);
  for (Slot& slot : used.slots) used.order.Use(&slot);
  EXPECT_EQ(used.order.Next(), &used.slots[kMost]) << "one goes although all are used";
  EXPECT_EQ(used.uses(), kPages - kMost);

  ProvenPages pinned(kPages);
  for (Slot& slot : pinned.slots) slot.pins = 1;
  pinned.slots.back().pins = 0;
  size_t calls = 1;
  Slot* found = nullptr;
  while ((found = pinned.order.Next()) == nullptr && calls < kPages) ++calls;
  EXPECT_EQ(found, &pinned.slots.back());
  // Twice as many in one call: for an unused page, and then for any that is not pinned.
  EXPECT_EQ(calls, (kPages + 2 * kMost - 1) / (2 * kMost));
}

TEST(S3FifoOrder, UnusedPagesGoInOrderOfArrival) {
  Pages pages(EvictionPolicy::kS3Fifo);
  for (uint64_t i = 1; i <= 6; ++i) pages.Set(i);
  pages.Use(2);
  EXPECT_THAT(pages.Evict(9), ElementsAre(1, 3, 4, 5, 6, 2));
}

TEST(S3FifoOrder, ProvenPagesOutliveAnyNumberOfNewOnes) {
  Pages pages(EvictionPolicy::kS3Fifo);
  for (uint64_t i = 1; i <= 20; ++i) pages.Set(i);
  for (uint64_t i = 1; i <= 10; ++i) pages.Use(i);
  EXPECT_EQ(pages.Evict(1), std::vector<uint64_t>{11});  // 1 to 10 have moved to main meanwhile
  pages.Set(100);
  for (uint64_t i = 101; i < 300; ++i) {
    pages.Set(i);
    for (uint64_t gone : pages.Evict(1)) ASSERT_GT(gone, 10u);
  }
  // When new ones are less than their share the proven ones give, oldest first.
  std::vector<uint64_t> gone = pages.Evict(99);
  ASSERT_EQ(gone.size(), 20u);
  std::erase_if(gone, [](uint64_t number) { return number > 10; });
  EXPECT_THAT(gone, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST(S3FifoOrder, EveryUseIsWorthARoundInMain) {
  Pages pages(EvictionPolicy::kS3Fifo);
  for (uint64_t i = 1; i <= 3; ++i) pages.Set(i);
  for (uint64_t i = 1; i <= 3; ++i) pages.Use(i);
  EXPECT_EQ(pages.Evict(1), std::vector<uint64_t>{1});  // all moved, their counts at zero
  pages.Use(2, 100);                                    // counts as three
  EXPECT_EQ(pages.Evict(1), std::vector<uint64_t>{3});
  for (uint64_t i = 4; i <= 6; ++i) pages.Set(i);
  for (uint64_t i = 4; i <= 6; ++i) pages.Use(i);
  EXPECT_THAT(pages.Evict(9), ElementsAre(4, 5, 6, 2));
}

TEST(S3FifoOrder, APageThatComesBackSoonStartsInMain) {
  Pages pages(EvictionPolicy::kS3Fifo);
  for (uint64_t i = 1; i <= 3; ++i) pages.Set(i);
  EXPECT_THAT(pages.Evict(2), ElementsAre(1, 2));
  auto& order = static_cast<S3FifoOrder&>(pages.order());
  pages.Set(1);  // remembered: starts in main
  EXPECT_EQ(order.main(), 1u);
  EXPECT_EQ(order.small(), 1u);
  pages.order().Remove(&pages.At(1), true);  // from main: not remembered
  pages.Set(1);
  EXPECT_EQ(order.main(), 0u);
  pages.order().Remove(&pages.At(1), false);  // cleared: not remembered
  pages.Set(1);
  EXPECT_EQ(order.main(), 0u);
}

TEST(S3FifoOrder, ProvenPagesSpeakForTheirClass) {
  Pages pages(EvictionPolicy::kS3Fifo);
  EXPECT_EQ(pages.order().Age(), UINT64_MAX);
  for (uint64_t i = 1; i <= 4; ++i) pages.Set(i);
  EXPECT_EQ(pages.order().Age(), pages.At(1).last_use);
  pages.Use(1);
  ASSERT_NE(pages.order().Next(), nullptr);  // moves 1 to main
  pages.Use(1);
  EXPECT_EQ(pages.order().Age(), pages.At(1).last_use);
}

TEST(Ghost, RemembersTheLatestUpToItsWindow) {
  Ghost ghost(64);
  for (uint64_t i = 0; i < 1000; ++i) ghost.Add(KeyOf(i));
  for (uint64_t i = 0; i < 900; ++i) EXPECT_FALSE(ghost.Take(KeyOf(i))) << i;
  ghost.SetWindow(10);
  for (uint64_t i = 900; i < 990; ++i) EXPECT_FALSE(ghost.Take(KeyOf(i))) << i;
  for (uint64_t i = 990; i < 1000; ++i) EXPECT_TRUE(ghost.Take(KeyOf(i))) << i;
  for (uint64_t i = 990; i < 1000; ++i) EXPECT_FALSE(ghost.Take(KeyOf(i))) << "only once";
}

TEST(Ghost, KnowsNearlyAllOfAFullWindow) {
  Ghost ghost(10000);
  for (uint64_t i = 0; i < 30000; ++i) ghost.Add(KeyOf(i));
  size_t known = 0, foreign = 0;
  for (uint64_t i = 20000; i < 30000; ++i) known += ghost.Take(KeyOf(i));
  for (uint64_t i = 0; i < 20000; ++i) foreign += ghost.Take(KeyOf(i));
  EXPECT_GT(known, 9000u);  // full buckets forget early
  EXPECT_EQ(foreign, 0u);
}

TEST(Ghost, AnEmptyOneKnowsNothing) {
  Ghost ghost(1);
  EXPECT_FALSE(ghost.Take(Key{}));  // whose fingerprint is that of an empty entry
  ghost.Add(Key{});
  EXPECT_TRUE(ghost.Take(Key{}));
}

TEST(Ghost, GrowsWithItsWindow) {
  Ghost ghost(1);
  ghost.SetWindow(1000);
  for (uint64_t i = 0; i < 1000; ++i) ghost.Add(KeyOf(i));
  ghost.SetWindow(1100);  // fits the same table
  size_t known = 0;
  for (uint64_t i = 0; i < 1000; ++i) known += ghost.Take(KeyOf(i));
  EXPECT_GT(known, 900u);
}

}  // namespace
}  // namespace peercache
