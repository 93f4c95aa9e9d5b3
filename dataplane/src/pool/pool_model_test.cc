// The pool against a model of it: long random sequences of calls, after each of which the model
// says what the pool must have answered. A failure prints the seed and the step.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <ostream>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/seeded_hash.h"
#include "pool/pool_testing.h"
#include "pool/size_class.h"

namespace peercache {
namespace {

struct Page {
  uint64_t number = 0, offset = 0, generation = 0, tag = 0;
  size_t length = 0;
  PublishedTo published_to;
  std::vector<PagePin> pins;
};

class Model {
 public:
  Model(uint64_t seed, EvictionPolicy eviction)
      : random_(seed), pool_(MakePool(24 * kMiB, 64 * kMiB, eviction)) {}

  void Step() {
    const uint64_t dice = random_() % 1000;
    if (dice < 280) return Commit();
    if (dice < 300) return Abort();
    if (dice < 470) return Find();
    if (dice < 480) return FindMany();
    if (dice < 600) return FindAt();
    if (dice < 720) return Unpin();
    if (dice < 800) return Publish();
    if (dice < 840) return Evict();
    if (dice < 842) return Clear();
    if (dice < 920) return QuarantineOne();
    if (dice < 990) return Reclaim();
    CheckWhole();
  }
  void CheckWhole() {
    size_t payload = 0, used = 0, waiting = 0;
    for (const auto& [_, page] : ready_) {
      payload += page.length;
      used += Size(page.length);
    }
    for (const Victim& victim : withdrawn_) used += Size(victim.length);
    for (const auto& [_, victim] : quarantined_) waiting += Size(victim.length);
    const PoolStats stats = pool_->stats();
    ASSERT_EQ(stats.pages, ready_.size());
    ASSERT_EQ(stats.payload_bytes, payload);
    ASSERT_EQ(stats.used_bytes, used);
    ASSERT_EQ(stats.quarantined_bytes, waiting);
    ASSERT_LE(stats.used_bytes + stats.quarantined_bytes + stats.free_bytes, stats.capacity_bytes);
    size_t seen = 0;
    pool_->ForEachReady([&](const PageInfo& info) {
      ++seen;
      const auto found = by_key_.find(info.key);
      ASSERT_TRUE(found != by_key_.end());
      const Page& page = ready_.at(found->second);
      ASSERT_EQ(info.offset, page.offset);
      ASSERT_EQ(info.generation, page.generation);
      ASSERT_EQ(info.length, page.length);
      ASSERT_EQ(info.published_to.count, page.published_to.count);
    });
    ASSERT_EQ(seen, ready_.size());
  }
  uint64_t commits = 0, evictions = 0, refusals = 0;

 private:
  static size_t Size(size_t length) { return SlotBytes(SizeClassOf(length)); }
  size_t Length() {
    static constexpr size_t kTypical[] = {100, 4096, 20000, 64 * kKiB, 300 * kKiB, 3 * kMiB};
    const uint64_t dice = random_() % 100;
    return dice < 10 ? 1 + random_() % (100 * kKiB) : kTypical[dice < 20 ? 5 : dice % 5];
  }
  uint64_t Number() { return random_() % 400; }
  template <typename Map>
  auto Any(Map& map) {
    return std::next(map.begin(), static_cast<ptrdiff_t>(random_() % map.size()));
  }

  // A slot that the pool hands out overlaps none that is in use.
  void Claim(uint64_t offset, size_t length) {
    ASSERT_EQ((offset + sizeof(SlotHeader)) % kPageAlignment, 0u);
    ASSERT_LE(offset - kSlotLead + Size(length), pool_->size());
    const auto next = claimed_.lower_bound(offset);
    if (next != claimed_.end()) {
      ASSERT_GE(next->first, offset + Size(length));
    }
    if (next != claimed_.begin()) {
      ASSERT_LE(std::prev(next)->second, offset);
    }
    claimed_[offset] = offset + Size(length);
  }
  uint64_t OffsetOf(const Reservation& reservation) const {
    return static_cast<uint64_t>(reservation.payload().data() - pool_->base()) - sizeof(SlotHeader);
  }
  bool Reserve(size_t length, Reservation* reservation) {
    const size_t promised = pool_->FreeBytes(length);
    auto result = pool_->Reserve(length);
    EXPECT_TRUE(result.ok() || promised < Size(length) || !quarantined_.empty())
        << "promised " << promised;
    if (!result.ok()) {
      EXPECT_EQ(result.status().code(), Code::kResourceExhausted);
      ++refusals;
      return false;
    }
    *reservation = std::move(result).value();
    EXPECT_GT(reservation->generation(), last_generation_);
    last_generation_ = reservation->generation();
    EXPECT_EQ(reservation->payload().size(), length);
    Claim(OffsetOf(*reservation), length);
    return true;
  }

  void Commit() {
    Page page;
    page.number = Number();
    page.length = Length();
    page.tag = random_() % 4;
    Reservation reservation;
    if (!Reserve(page.length, &reservation)) return;
    page.offset = OffsetOf(reservation);
    page.generation = reservation.generation();
    const Key key = KeyOf(page.number);
    Fill(reservation.payload(), key);
    bool duplicate = false;
    PagePin pin = pool_->Commit(std::move(reservation), key, page.tag, 5, &duplicate);
    ASSERT_TRUE(IsPageOf(pin, key));
    const auto found = by_key_.find(key);
    ASSERT_EQ(duplicate, found != by_key_.end());
    ++commits;
    if (duplicate) {
      claimed_.erase(page.offset);
      ASSERT_EQ(pin.offset(), found->second);
    } else {
      ASSERT_EQ(pin.offset(), page.offset);
      by_key_[key] = page.offset;
      ready_[page.offset] = std::move(page);
    }
    if (random_() % 8 == 0) ready_.at(pin.offset()).pins.push_back(std::move(pin));
  }
  void Abort() {
    Reservation reservation;
    if (Reserve(Length(), &reservation)) claimed_.erase(OffsetOf(reservation));
  }
  void CheckFound(PagePin pin, const Key& key) {
    const auto found = by_key_.find(key);
    ASSERT_EQ(static_cast<bool>(pin), found != by_key_.end());
    if (!pin) return;
    Page& page = ready_.at(found->second);
    ASSERT_EQ(pin.offset(), page.offset);
    ASSERT_EQ(pin.header().generation, page.generation);
    ASSERT_EQ(pin.header().tag, page.tag);
    ASSERT_TRUE(IsPageOf(pin, key));
    if (random_() % 8 == 0) page.pins.push_back(std::move(pin));
  }
  void Find() {
    const Key key = KeyOf(Number());
    ASSERT_EQ(pool_->Contains(key), by_key_.contains(key));
    CheckFound(pool_->Find(key), key);
  }
  void FindMany() {
    std::vector<Key> keys(random_() % 20);
    for (Key& key : keys) key = KeyOf(Number());
    std::vector<PagePin> pins(keys.size());
    pool_->FindMany(keys, pins);
    for (size_t i = 0; i < keys.size(); ++i) CheckFound(std::move(pins[i]), keys[i]);
  }
  void FindAt() {
    if (past_.empty() || random_() % 2 == 0) {
      if (ready_.empty()) return;
      const Page& page = Any(ready_)->second;
      const Key key = KeyOf(page.number);
      CheckFound(pool_->FindAt(page.offset, page.generation, key), key);
      CheckFound(pool_->HoldAt(page.offset, page.generation), key);
      ASSERT_FALSE(pool_->HoldAt(page.offset, page.generation + 1));
      ASSERT_FALSE(pool_->FindAt(page.offset + 64, page.generation, key));
      ASSERT_FALSE(pool_->FindAt(page.offset, page.generation, KeyOf(page.number + 1000)));
      past_.push_back({page.offset, page.generation, page.number});
      return;
    }
    // A record from any time: good exactly while its page is.
    const auto [offset, generation, number] = past_[random_() % past_.size()];
    const auto found = ready_.find(offset);
    const bool good = found != ready_.end() && found->second.generation == generation;
    ASSERT_EQ(static_cast<bool>(pool_->FindAt(offset, generation, KeyOf(number))), good);
  }
  void Unpin() {
    if (ready_.empty()) return;
    Page& page = Any(ready_)->second;
    if (!page.pins.empty()) page.pins.pop_back();
  }
  void Publish() {
    if (ready_.empty()) return;
    Page& page = Any(ready_)->second;
    const auto peer = static_cast<uint16_t>(random_() % 6);
    if (random_() % 2 == 0) {
      ASSERT_TRUE(pool_->AddPublishedTo(page.offset, page.generation, peer));
      page.published_to.Add(peer);
    } else {
      const auto pins = static_cast<uint32_t>(page.pins.size());
      if (pins > 0) {
        ASSERT_FALSE(pool_->RemovePublishedTo(page.offset, page.generation, peer, pins - 1));
      }
      ASSERT_TRUE(pool_->RemovePublishedTo(page.offset, page.generation, peer, pins));
      page.published_to.Remove(peer);
    }
    ASSERT_FALSE(pool_->AddPublishedTo(page.offset, page.generation + 1, peer));
  }
  void TookOut(const Victim& victim) {
    const auto found = ready_.find(victim.offset);
    ASSERT_TRUE(found != ready_.end()) << "taken twice, or never ready";
    const Page& page = found->second;
    ASSERT_TRUE(page.pins.empty()) << "a pinned page was taken";
    ASSERT_EQ(victim.key, KeyOf(page.number));
    ASSERT_EQ(victim.generation, page.generation);
    ASSERT_EQ(victim.length, page.length);
    ASSERT_EQ(victim.published_to.count, page.published_to.count);
    by_key_.erase(victim.key);
    ready_.erase(found);
    withdrawn_.push_back(victim);
  }
  void Evict() {
    const size_t length = Length(), bytes = random_() % (2 * kMiB);
    bool own = false;  // whether some page of that size could go
    for (const auto& [_, page] : ready_)
      own |= page.pins.empty() && SizeClassOf(page.length) == SizeClassOf(length);
    const auto victims = pool_->TakeVictims(bytes, length);
    ASSERT_TRUE(!victims.empty() || bytes == 0 || !own);
    for (const Victim& victim : victims) TookOut(victim);
    evictions += victims.size();
  }
  void Clear() {
    const uint64_t tag = random_() % 4;
    size_t pinned = 0, free = 0, busy = 0;
    for (const auto& [_, page] : ready_)
      if (page.tag == tag) ++(page.pins.empty() ? free : pinned);
    const auto victims = pool_->TakeTagged(tag, &busy);
    ASSERT_EQ(busy, pinned);
    ASSERT_EQ(victims.size(), free);
    for (const Victim& victim : victims) {
      cleared_.insert(victim.generation);
      TookOut(victim);
    }
  }
  void QuarantineOne() {
    for (size_t n = 1 + random_() % 4; n > 0 && !withdrawn_.empty(); --n) {
      std::swap(withdrawn_[random_() % withdrawn_.size()], withdrawn_.back());
      const TimePoint until = now_ + milliseconds(random_() % 50);
      pool_->Quarantine(withdrawn_.back(), until);
      quarantined_.emplace(until, withdrawn_.back());
      withdrawn_.pop_back();
    }
  }
  void Reclaim() {
    now_ += milliseconds(random_() % 10);
    // Whatever is not free still has the bytes that readers may be fetching.
    for (const Victim& victim : withdrawn_) CheckUntouched(victim);
    size_t due = 0;
    for (auto it = quarantined_.begin(); it != quarantined_.end() && it->first < now_;) {
      CheckUntouched(it->second);
      due += Size(it->second.length);
      claimed_.erase(it->second.offset);
      it = quarantined_.erase(it);
    }
    ASSERT_EQ(pool_->Reclaim(now_), due);
  }
  void CheckUntouched(const Victim& victim) {
    const auto* header = reinterpret_cast<const SlotHeader*>(pool_->base() + victim.offset);
    // Of a cleared page the header says at once that there is none; the bytes stay.
    ASSERT_EQ(header->generation, cleared_.contains(victim.generation) ? 0 : victim.generation);
    ASSERT_EQ(header->key, victim.key);
    const size_t some = std::min<size_t>(victim.length, 256);
    ASSERT_TRUE(IsPageOf({pool_->base() + victim.offset + sizeof(SlotHeader), some}, victim.key));
  }

  struct Record {
    uint64_t offset, generation, number;
  };
  std::mt19937_64 random_;
  std::unique_ptr<Pool> pool_;
  TimePoint now_ = Clock::now();
  uint64_t last_generation_ = 0;
  std::map<uint64_t, Page> ready_;  // by offset
  std::unordered_map<Key, uint64_t, SeededHash> by_key_;
  std::vector<Victim> withdrawn_;
  std::set<uint64_t> cleared_;  // generations
  std::multimap<TimePoint, Victim> quarantined_;
  std::map<uint64_t, uint64_t> claimed_;  // all slots that are not free: begin, end
  std::vector<Record> past_;
};

struct Run {
  uint64_t seed;
  EvictionPolicy eviction;
};
void PrintTo(const Run& run, std::ostream* out) {
  *out << EvictionPolicyName(run.eviction) << " seed " << run.seed;
}

std::vector<Run> Runs() {
  std::vector<Run> runs;
  for (uint64_t seed = 1; seed <= 6; ++seed)
    for (EvictionPolicy eviction : {EvictionPolicy::kLru, EvictionPolicy::kS3Fifo})
      runs.push_back({seed, eviction});
  return runs;
}

class PoolModel : public ::testing::TestWithParam<Run> {};

TEST_P(PoolModel, AgreesOverARandomSequence) {
  const auto [seed, eviction] = GetParam();
  Model model(seed, eviction);
  for (int step = 0; step < 10000; ++step) {
    model.Step();
    ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step;
  }
  model.CheckWhole();
  std::cout << "seed " << seed << ": " << model.commits << " commits, " << model.evictions
            << " evictions, " << model.refusals << " refusals\n";
  // The sequence reaches the interesting states.
  EXPECT_GT(model.commits, 1000u);
  EXPECT_GT(model.evictions, 100u);
  EXPECT_GT(model.refusals, 10u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PoolModel, ::testing::ValuesIn(Runs()));

}  // namespace
}  // namespace peercache
