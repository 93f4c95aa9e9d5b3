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

}  // namespace

bool Plausible(const ClearState& state, uint64_t wall) {
  const uint64_t most = std::min(std::max(wall, kEarliest), kMaxClearEpoch / 2) + kMostLead;
  return state.floor <= most && std::ranges::all_of(state.entries, [most](const ClearEntry& entry) {
           return entry.epoch <= most;
         });
}

ClearState KnownToBoth(const ClearState& a, const ClearState& b) {
  ClearState both{std::min(a.floor, b.floor), {}};
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
  news.all = heard.floor > floor_;
  for (const ClearEntry& entry : heard.entries)
    if (entry.epoch > EpochOf(entry.tag)) news.tags.push_back(entry.tag);
  return news;
}

void ClearTable::Take(const ClearState& heard) {
  floor_ = std::max(floor_, heard.floor);
  for (const ClearEntry& entry : heard.entries) {
    uint64_t& epoch = epochs_[entry.tag];
    epoch = std::max(epoch, entry.epoch);
  }
  const auto forget = [this] {
    std::erase_if(epochs_, [this](const auto& item) { return item.second <= floor_; });
  };
  forget();
  while (epochs_.size() > kMostClears) {
    floor_ =
        std::ranges::min_element(epochs_, {}, [](const auto& item) { return item.second; })->second;
    forget();
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
  ClearState state{floor_, {}};
  for (const auto& [tag, epoch] : epochs_) state.entries.push_back({tag, epoch});
  return state;
}

uint64_t ClearTable::digest() const {
  if (floor_ == 0 && epochs_.empty()) return 0;
  const ClearState all = state();
  const auto bytes = all.entries.size() * sizeof(ClearEntry);
  return XXH3_64bits_withSeed(all.entries.data(), bytes, all.floor) | 1;
}

}  // namespace peercache
