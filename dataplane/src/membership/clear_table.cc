#include "membership/clear_table.h"

#include <xxhash.h>

#include <algorithm>

namespace peercache {

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
