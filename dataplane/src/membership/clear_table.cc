#include "membership/clear_table.h"

#include <xxhash.h>

#include <algorithm>
#include <set>

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

// The digest of what is forgotten of the group, if that were all up to `epoch`.
uint64_t DigestUpTo(const ClearState& state, uint64_t group, uint64_t epoch) {
  uint64_t sum = ForgottenIn(state, group).digest;
  for (const ClearEntry& entry : state.entries)
    if (GroupOf(entry.tag) == group && entry.epoch <= epoch) sum += HashOf(entry.tag, entry.epoch);
  return sum;
}

}  // namespace

bool Plausible(const ClearState& state, uint64_t wall) {
  const uint64_t most = std::min(std::max(wall, kEarliest), kMaxClearEpoch / 2) + kMostLead;
  const auto can_be = [most](uint64_t epoch) { return epoch <= most; };
  return std::ranges::all_of(state.forgotten, can_be, &ForgottenClears::epoch) &&
         std::ranges::all_of(state.entries, can_be, &ClearEntry::epoch);
}

ClearState KnownToBoth(const ClearState& a, const ClearState& b) {
  ClearState both;
  std::set<uint64_t> groups, different;
  for (const ClearState* state : {&a, &b})
    for (const ForgottenClears& forgotten : state->forgotten) groups.insert(forgotten.group);
  for (const uint64_t group : groups) {
    const bool a_is_low = ForgottenIn(a, group).epoch < ForgottenIn(b, group).epoch;
    const ClearState& low = a_is_low ? a : b;
    const ForgottenClears high = ForgottenIn(a_is_low ? b : a, group);
    if (high.digest != 0 && DigestUpTo(low, group, high.epoch) != high.digest)
      different.insert(group);
    else if (ForgottenIn(low, group).epoch != 0)
      both.forgotten.push_back(ForgottenIn(low, group));
  }
  const auto take = [&](const ClearEntry& entry) {
    if (different.contains(GroupOf(entry.tag))) return;
    const uint64_t epoch = std::min(EpochIn(a, entry.tag), EpochIn(b, entry.tag));
    if (EpochIn(both, entry.tag) < epoch) both.entries.push_back({entry.tag, epoch});
  };
  std::ranges::for_each(a.entries, take);
  std::ranges::for_each(b.entries, take);
  return both;
}

ClearTable::News ClearTable::Missing(const ClearState& heard) const {
  News news;
  for (const ForgottenClears& theirs : heard.forgotten)
    if (Missed(theirs)) news.groups.push_back(theirs.group);
  for (const ClearEntry& entry : heard.entries)
    if (entry.epoch > EpochOf(entry.tag)) news.tags.push_back(entry.tag);
  return news;
}

bool ClearTable::Missed(const ForgottenClears& theirs) const {
  const ForgottenClears ours = Forgotten(theirs.group);
  // A floor below this one's is that of a member that has missed something itself.
  if (theirs.epoch < ours.epoch || theirs.digest == 0) return theirs.epoch > ours.epoch;
  uint64_t sum = ours.digest;
  const TagRange tags = TagRange::OfGroup(theirs.group);
  for (auto it = epochs_.lower_bound(tags.first); it != epochs_.end() && tags.Has(it->first); ++it)
    if (it->second <= theirs.epoch) sum += HashOf(it->first, it->second);
  const auto group = groups_.find(theirs.group);
  return group == groups_.end() ? sum != theirs.digest
                                : !group->second.Explains(sum, theirs.digest);
}

void ClearTable::Take(const ClearState& heard) {
  for (const ForgottenClears& theirs : heard.forgotten) {
    ForgottenClears& ours = GroupAt(theirs.group).forgotten;
    if (theirs.epoch > ours.epoch) ours = theirs;
    // Either, but all the same one.
    if (theirs.epoch == ours.epoch) ours.digest = std::max(ours.digest, theirs.digest);
  }
  for (const ClearEntry& entry : heard.entries) {
    if (entry.epoch <= Forgotten(GroupOf(entry.tag)).epoch) continue;
    uint64_t& epoch = epochs_[entry.tag];
    if (epoch >= entry.epoch) continue;
    if (epoch != 0) GroupAt(GroupOf(entry.tag)).Retire(HashOf(entry.tag, epoch));
    epoch = entry.epoch;
  }
  for (const ForgottenClears& theirs : heard.forgotten)
    Forget(&GroupAt(theirs.group), false);  // they are in the sum that was heard
  while (epochs_.size() > kMostClears) ForgetOldest();
}

ClearTable::Group& ClearTable::GroupAt(uint64_t group) {
  return groups_.try_emplace(group, Group{.forgotten = {group}}).first->second;
}

void ClearTable::Forget(Group* group, bool sum) {
  ForgottenClears& forgotten = group->forgotten;
  const TagRange tags = TagRange::OfGroup(forgotten.group);
  for (auto it = epochs_.lower_bound(tags.first); it != epochs_.end() && tags.Has(it->first);) {
    if (it->second > forgotten.epoch) {
      ++it;
      continue;
    }
    const uint64_t hash = HashOf(it->first, it->second);
    if (sum) forgotten.digest += hash;
    group->Retire(hash);
    it = epochs_.erase(it);
  }
}

void ClearTable::ForgetOldest() {
  std::map<uint64_t, size_t> sizes;
  for (const auto& [tag, epoch] : epochs_) ++sizes[GroupOf(tag)];
  const uint64_t largest =
      std::ranges::max_element(sizes, {}, [](const auto& item) { return item.second; })->first;
  uint64_t oldest = UINT64_MAX;
  for (const auto& [tag, epoch] : epochs_)
    if (GroupOf(tag) == largest) oldest = std::min(oldest, epoch);
  Group& group = GroupAt(largest);
  group.forgotten.epoch = oldest;
  Forget(&group, true);
}

bool ClearTable::Group::Explains(uint64_t ours, uint64_t theirs) const {
  if (ours == theirs) return true;
  std::vector<uint64_t> steps{0};
  for (const uint64_t hash : retired) {
    steps.push_back(hash);
    steps.push_back(0 - hash);
  }
  std::ranges::sort(steps);
  return std::ranges::any_of(steps, [&](uint64_t step) {
    return std::ranges::binary_search(steps, theirs - ours - step);
  });
}

void ClearTable::Group::Retire(uint64_t hash) {
  if (retired.size() < kMostClears) {
    retired.push_back(hash);
  } else {
    retired[next_retired] = hash;
    next_retired = (next_retired + 1) % kMostClears;
  }
}

uint64_t ClearTable::NextEpoch(uint64_t wall) const {
  uint64_t highest = 0;
  for (const auto& [_, group] : groups_) highest = std::max(highest, group.forgotten.epoch);
  for (const auto& [tag, epoch] : epochs_) highest = std::max(highest, epoch);
  // Whatever a clock says, there is room to count on from it.
  return std::min(std::max(highest + 1, std::min(wall, kMaxClearEpoch / 2)), kMaxClearEpoch);
}

uint64_t ClearTable::EpochOf(uint64_t tag) const {
  const auto it = epochs_.find(tag);
  return it == epochs_.end() ? Forgotten(GroupOf(tag)).epoch : it->second;
}

ForgottenClears ClearTable::Forgotten(uint64_t group) const {
  const auto it = groups_.find(group);
  return it == groups_.end() ? ForgottenClears{group} : it->second.forgotten;
}

std::vector<ForgottenClears> ClearTable::forgotten() const {
  std::vector<ForgottenClears> all;
  for (const auto& [_, group] : groups_)
    if (group.forgotten.epoch != 0) all.push_back(group.forgotten);
  return all;
}

ClearState ClearTable::state() const {
  ClearState state{forgotten(), {}};
  for (const auto& [tag, epoch] : epochs_) state.entries.push_back({tag, epoch});
  return state;
}

uint64_t ClearTable::digest() const {
  const ClearState all = state();
  if (all == ClearState{}) return 0;
  uint64_t seed = 0;
  if (!all.forgotten.empty())
    seed = XXH3_64bits(all.forgotten.data(), all.forgotten.size() * sizeof(ForgottenClears));
  const auto bytes = all.entries.size() * sizeof(ClearEntry);
  return XXH3_64bits_withSeed(all.entries.data(), bytes, seed) | 1;
}

}  // namespace peercache
