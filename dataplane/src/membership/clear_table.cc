#include "membership/clear_table.h"

#include <xxhash.h>

#include <algorithm>

namespace peercache {
namespace {

constexpr uint64_t kYear = uint64_t{365} * 24 * 3600 * 1'000'000'000;
// Whatever a clock says, it is 2026 at least.
constexpr uint64_t kEarliest = 56 * kYear;
// How far a clock may be ahead of this one.
constexpr uint64_t kMostLead = 10 * kYear;

uint64_t HashOf(uint64_t tag, uint64_t epoch) {
  const ClearEntry entry{tag, epoch};
  return XXH3_64bits(&entry, sizeof(entry));
}

uint64_t ForgottenIn(const ClearState& state, uint64_t floor) {
  uint64_t sum = state.forgotten;
  for (const ClearEntry& entry : state.entries)
    if (entry.epoch <= floor) sum += HashOf(entry.tag, entry.epoch);
  return sum;
}

}  // namespace

bool Plausible(const ClearState& state, uint64_t wall) {
  const uint64_t most = std::min(std::max(wall, kEarliest), kMaxClearEpoch / 2) + kMostLead;
  return state.floor <= most && std::ranges::all_of(state.entries, [most](const ClearEntry& entry) {
           return entry.epoch <= most;
         });
}

ClearState KnownToBoth(const ClearState& a, const ClearState& b) {
  const ClearState& low = a.floor < b.floor ? a : b;
  const ClearState& high = a.floor < b.floor ? b : a;
  if (high.forgotten != 0 && ForgottenIn(low, high.floor) != high.forgotten) return {};
  ClearState both{low.floor, {}, low.forgotten};
  const auto take = [&](const ClearEntry& entry) {
    const uint64_t epoch = std::min(EpochIn(a, entry.tag), EpochIn(b, entry.tag));
    if (epoch > both.floor && EpochIn(both, entry.tag) < epoch)
      both.entries.push_back({entry.tag, epoch});
  };
  std::ranges::for_each(a.entries, take);
  std::ranges::for_each(b.entries, take);
  return both;
}

ClearTable::News ClearTable::Missing(const ClearState& heard) const {
  News news;
  // A floor below this one's is that of a member that has missed something itself.
  if (heard.floor >= floor_ && heard.forgotten != 0)
    news.all = !Explains(ForgottenUpTo(heard.floor), heard.forgotten);
  else
    news.all = heard.floor > floor_;
  for (const ClearEntry& entry : heard.entries)
    if (entry.epoch > EpochOf(entry.tag)) news.tags.push_back(entry.tag);
  return news;
}

void ClearTable::Take(const ClearState& heard) {
  if (heard.floor > floor_) {
    floor_ = heard.floor;
    forgotten_ = heard.forgotten;
  } else if (heard.floor == floor_) {
    forgotten_ = std::max(forgotten_, heard.forgotten);  // either, but all the same one
  }
  for (const ClearEntry& entry : heard.entries) {
    if (entry.epoch <= floor_) continue;
    uint64_t& epoch = epochs_[entry.tag];
    if (epoch >= entry.epoch) continue;
    if (epoch != 0) Retire(HashOf(entry.tag, epoch));
    epoch = entry.epoch;
  }
  const auto forget = [this](bool sum) {
    std::erase_if(epochs_, [&](const auto& item) {
      if (item.second > floor_) return false;
      const uint64_t hash = HashOf(item.first, item.second);
      if (sum) forgotten_ += hash;
      Retire(hash);
      return true;
    });
  };
  forget(false);  // they are in the sum that was heard
  while (epochs_.size() > kMostClears) {
    floor_ =
        std::ranges::min_element(epochs_, {}, [](const auto& item) { return item.second; })->second;
    forget(true);
  }
}

uint64_t ClearTable::ForgottenUpTo(uint64_t floor) const {
  uint64_t sum = forgotten_;
  for (const auto& [tag, epoch] : epochs_)
    if (epoch <= floor) sum += HashOf(tag, epoch);
  return sum;
}

bool ClearTable::Explains(uint64_t ours, uint64_t theirs) const {
  if (ours == theirs) return true;
  std::vector<uint64_t> steps{0};
  for (const uint64_t hash : retired_) {
    steps.push_back(hash);
    steps.push_back(0 - hash);
  }
  std::ranges::sort(steps);
  return std::ranges::any_of(steps, [&](uint64_t step) {
    return std::ranges::binary_search(steps, theirs - ours - step);
  });
}

void ClearTable::Retire(uint64_t hash) {
  if (retired_.size() < kMostClears) {
    retired_.push_back(hash);
  } else {
    retired_[next_retired_] = hash;
    next_retired_ = (next_retired_ + 1) % kMostClears;
  }
}

uint64_t ClearTable::NextEpoch(uint64_t wall) const {
  uint64_t highest = floor_;
  for (const auto& [tag, epoch] : epochs_) highest = std::max(highest, epoch);
  // Whatever a clock says, there is room to count on from it.
  return std::min(std::max(highest + 1, std::min(wall, kMaxClearEpoch / 2)), kMaxClearEpoch);
}

uint64_t ClearTable::EpochOf(uint64_t tag) const {
  const auto it = epochs_.find(tag);
  return it == epochs_.end() ? floor_ : it->second;
}

ClearState ClearTable::state() const {
  ClearState state{floor_, {}, forgotten_};
  for (const auto& [tag, epoch] : epochs_) state.entries.push_back({tag, epoch});
  return state;
}

uint64_t ClearTable::digest() const {
  if (floor_ == 0 && epochs_.empty()) return 0;
  const ClearState all = state();
  const auto bytes = all.entries.size() * sizeof(ClearEntry);
  return XXH3_64bits_withSeed(all.entries.data(), bytes, all.floor ^ all.forgotten) | 1;
}

}  // namespace peercache
