// What choosing victims costs.
#include "pool/victims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "pool/pool_testing.h"

namespace peercache {
namespace {

constexpr size_t kChunk = 64 * kMiB, kPool = 64 * kChunk;
constexpr size_t kTaken = 256;

// A table without memory: `small` pages of 16 KiB that were used last, and `large` of 32 KiB,
// older.
class Victims {
 public:
  explicit Victims(size_t small, size_t large) {
    for (size_t i = 0; i < large; ++i) Add(kLarge, order_.get());
    for (size_t i = 0; i < small; ++i) Add(kSmall, others_.get());
  }

  // Takes large pages, a few times; the most slots that were looked at for it.
  size_t Take() {
    size_t most = 0;
    for (int round = 0; round < 5; ++round) {
      std::vector<Slot*> taken;
      VictimSearch search;
      const size_t gained = TakeVictims(table_, {}, order_.get(), SlotBytes(kLarge) * kTaken,
                                        kTaken, kLarge, &search, [&](Slot* slot) {
                                          order_->Remove(slot, true);
                                          taken.push_back(slot);
                                        });
      most = std::max(most, search.looks);
      EXPECT_EQ(gained, SlotBytes(kLarge) * kTaken);
      EXPECT_EQ(taken.size(), kTaken);
      for (const Slot* slot : taken) EXPECT_EQ(slot->span->size_class, kLarge);
    }
    return most;
  }
  static size_t SmallOfChunk() { return kChunk / SlotBytes(kSmall); }
  // Pins the last page of each chunk but, unless `all`, the youngest.
  void PinOneOfEach(bool all) {
    for (size_t chunk = 0; chunk < table_.chunk_count(); ++chunk) {
      const Span* span = table_.SpanOf(chunk);
      if (span == nullptr) continue;
      span->slots[span->slot_count - 1].pins = all || span->newest_use != uses_ ? 1 : 0;
    }
  }
  // For one large page; returns the pages taken.
  std::vector<Slot*> Step(VictimSearch* search) {
    std::vector<Slot*> taken;
    TakeVictims(table_, {}, order_.get(), SlotBytes(kLarge), kTaken, kLarge, search,
                [&](Slot* slot) { taken.push_back(slot); });
    return taken;
  }

 private:
  static inline const SizeClass kSmall = SizeClassOf(15 * kKiB), kLarge = SizeClassOf(30 * kKiB);

  void Add(SizeClass size_class, EvictionOrder* order) {
    Slot* slot = table_.Allocate(size_class);
    ASSERT_NE(slot, nullptr);
    slot->last_use = slot->span->newest_use = ++uses_;
    table_.SetState(slot, SlotState::kReady);
    order->Insert(slot);
  }

  SlotTable table_{kPool, kChunk, SizeClassOf(kMiB)};
  std::unique_ptr<EvictionOrder> order_ = MakeEvictionOrder(EvictionPolicy::kLru, nullptr),
                                 others_ = MakeEvictionOrder(EvictionPolicy::kLru, nullptr);
  uint64_t uses_ = 0;
};

// With pages of another size in the pool, each step compares with the oldest of their chunks. That
// must not look at all pages of the chunk again for every page that is taken.
TEST(VictimsTest, PagesOfOtherSizesCostOneLookEach) {
  EXPECT_EQ(Victims(0, 5 * kTaken).Take(), 0u);
  EXPECT_LE(Victims(8 * kChunk / (16 * kKiB), 5 * kTaken).Take(), Victims::SmallOfChunk());
}

// A pinned page in each window would make one search look at all pages of the pool, with the mutex
// held. It looks at some, and the next call at others.
TEST(VictimsTest, ACallLooksAtSomePagesAndTheNextGoesOn) {
  constexpr size_t kChunks = 60;
  const size_t of_chunk = Victims::SmallOfChunk();
  Victims victims(kChunks * of_chunk, 0);
  for (const bool there : {true, false}) {
    SCOPED_TRACE(there ? "one window can go" : "all windows have to stay");
    victims.PinOneOfEach(/*all=*/!there);
    VictimSearch search;
    std::vector<Slot*> taken;
    size_t looks = 0, calls = 0;
    do {
      taken = victims.Step(&search);
      looks += search.looks;
      ++calls;
      EXPECT_LE(search.looks, VictimSearch::kMostLooks + of_chunk);
    } while (taken.empty() && search.unfinished && calls < 1000);
    EXPECT_EQ(taken.size(), there ? of_chunk : 0);
    EXPECT_EQ(looks, kChunks * of_chunk) << "each is looked at once";
    EXPECT_GE(calls, looks / (VictimSearch::kMostLooks + of_chunk));
  }
}

}  // namespace
}  // namespace peercache
