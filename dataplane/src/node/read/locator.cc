#include "node/read/locator.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "directory/lease.h"
#include "directory/preference.h"

namespace peercache {
namespace {

constexpr int kLookShare = 2;

}  // namespace

Locator::Locator(LocatorOptions options, Shard* shard, Peers* peers, Fabric* fabric,
                 OneSidedLookups* one_sided, Counters* counters)
    : options_(options),
      shard_(shard),
      peers_(peers),
      fabric_(fabric),
      one_sided_(one_sided),
      counters_(counters),
      cache_(options.cache_ttl > Duration::zero() ? options.cache_entries : 0) {}

size_t Locator::Recall(std::span<const Key> keys, std::span<Record> records,
                       std::span<TimePoint> until, TimePoint now) {
  size_t found = cache_.Find(keys, records, until, now);
  if (options_.cache_ttl < options_.lease) {
    // It is remembered for the one, and may be read for the other: a slow READ is not in vain.
    for (size_t i = 0; i < keys.size(); ++i)
      if (records[i].node != 0)
        until[i] += Lease(options_.lease, records[i]).length() -
                    Lease(options_.cache_ttl, records[i]).length();
  }
  if (found == 0 || peers_->AllVouched()) return Recalled(found);
  const auto avoid = peers_->ToAvoid(now);
  for (Record& record : records) {
    if (record.node == 0 || std::ranges::find(avoid, record.node) == avoid.end()) continue;
    record.node = 0;
    --found;
  }
  return Recalled(found);
}

size_t Locator::Recalled(size_t found) {
  counters_->locations_recalled.Add(found);
  return found;
}

std::vector<size_t> Locator::Lookup(const View& view, std::span<const Key> keys,
                                    std::span<Record> records, TimePoint deadline,
                                    std::span<const uint64_t> failed, bool hurried) {
  const TimePoint asked_at = Clock::now();  // model: lease_from_ask
  const uint64_t era = cache_.era();
  LookupFound found{records, {}, {}};
  Search(view, keys, HoldersNamed::kReadable, failed, deadline, hurried, &found);
  ChooseNearest(keys, &found);
  cache_.Put(keys, records, asked_at, std::min(options_.cache_ttl, options_.lease), era);
  auto unanswered = std::move(found.unanswered);
  std::erase_if(unanswered, [&](size_t i) { return records[i].node != 0; });
  std::ranges::sort(unanswered);
  unanswered.erase(std::unique(unanswered.begin(), unanswered.end()), unanswered.end());
  return unanswered;
}

std::vector<size_t> Locator::LeftOut(const View& view, std::span<const Key> keys,
                                     TimePoint deadline) {
  const auto avoid = peers_->ToAvoid(Clock::now());
  if (avoid.empty() || keys.empty()) return {};
  std::vector<Record> records(keys.size());
  LookupFound found{records, {}, {}};
  Search(view, keys, HoldersNamed::kAll, {}, deadline, false, &found);
  std::vector<size_t> left_out;
  for (size_t i = 0; i < records.size(); ++i)
    if (std::ranges::find(avoid, records[i].node) != avoid.end()) left_out.push_back(i);
  return left_out;
}

void Locator::Search(const View& view, std::span<const Key> keys, HoldersNamed holders,
                     std::span<const uint64_t> failed, TimePoint deadline, bool hurried,
                     LookupFound* found) {
  const auto records = found->records;
  std::fill(records.begin(), records.end(), Record{});
  std::vector<size_t> missing(keys.size());
  for (size_t i = 0; i < missing.size(); ++i) missing[i] = i;
  // The owners in `current`, then for what is missing those in `next` and `previous` (view.h).
  const Ring* asked[3] = {};
  int rounds = 0;
  for (const Ring* ring : {&view.current, &view.next, &view.previous}) {
    LookupRound round({shard_, peers_, one_sided_, counters_, options_.stall, hurried}, keys,
                      holders, failed, deadline, found);
    NodeGroups looks;
    // Only keys whose owner in this ring has not been asked in an earlier round.
    for (size_t i : missing) {
      const uint64_t owner = ring->OwnerOf(keys[i]);
      const bool repeated = std::any_of(asked, asked + rounds, [&](const Ring* before) {
        return before->OwnerOf(keys[i]) == owner;
      });
      if (owner == 0 || repeated) continue;
      if (one_sided_ != nullptr) {
        looks.Add(owner, i);
      } else {
        round.Add(owner, i);
      }
    }
    asked[rounds++] = ring;
    if (!looks.empty()) LookAt(&looks, keys, found, deadline, &round);
    round.Finish();
    std::erase_if(missing, [&](size_t i) { return records[i].node != 0; });
    if (missing.empty() || Clock::now() >= deadline) break;
  }
}

void Locator::LookAt(NodeGroups* groups, std::span<const Key> keys, LookupFound* found,
                     TimePoint deadline, LookupRound* round) {
  const TimePoint now = Clock::now();
  // READs may take longer than the wait for a silent queue (FabricOptions::queue_stall), so that
  // other queues can take over. The rest of the time is for asking the shards by request.
  const TimePoint limit = now + std::min(options_.stall, deadline - now) / kLookShare;
  std::vector<OneSidedLookups::Look> looks;
  groups->ForEach([&](uint64_t owner, std::span<const NodeGroups::Item> items) {
    const PeerRef peer = peers_->Find(owner);
    bool renew = false;
    const auto grant = peer == nullptr ? nullptr : one_sided_->Use(*peer, now, &renew);
    if (renew) round->Renew(peer);
    const bool look = grant && !renew && peer->health().Allows(now) && peers_->Vouched(*peer);
    for (const auto& item : items) {
      if (look) {
        looks.push_back({item.index, owner, grant});
      } else {
        round->Add(owner, item.index);
      }
    }
  });
  for (const auto& look : one_sided_->LookUp(looks, keys, found->records, &found->others,
                                             round->exclude(), now, limit))
    round->Add(look.node, look.index);
}

void Locator::ChooseNearest(std::span<const Key> keys, LookupFound* found) const {
  auto& others = found->others;
  if (others.empty()) return;
  std::sort(others.begin(), others.end(),
            [](const OtherRecord& a, const OtherRecord& b) { return a.index < b.index; });
  const TimePoint now = Clock::now();
  std::vector<std::pair<uint64_t, Way>> known;  // a few nodes hold what many read
  const auto way_to = [&](const Record& record, const Key& key) {
    auto at = std::ranges::find(known, record.node, &std::pair<uint64_t, Way>::first);
    if (at == known.end()) at = known.insert(at, {record.node, WayTo(record.node, now)});
    Way way = at->second;
    way.disk = record.tier == Tier::kDisk;
    way.preference = Preference(peers_->self(), record.node, key);
    return way;
  };
  std::array<Way, kMostWays> ways;
  for (size_t begin = 0, end = 0; begin < others.size(); begin = end) {
    const uint32_t index = others[begin].index;
    while (end < others.size() && others[end].index == index) ++end;
    const size_t count = std::min(1 + end - begin, ways.size());
    Record& record = found->records[index];
    ways[0] = way_to(record, keys[index]);
    for (size_t i = 1; i < count; ++i) ways[i] = way_to(others[begin + i - 1].record, keys[index]);
    const size_t nearest = Nearest(std::span(ways).first(count));
    if (nearest > 0) record = others[begin + nearest - 1].record;
  }
}

Way Locator::WayTo(uint64_t node, TimePoint now) const {
  Way way;
  if (const PeerRef peer = peers_->Find(node)) way = peer->way(peers_->machine());
  way.rdma = fabric_ != nullptr && fabric_->Reaches(node, now);
  return way;
}

}  // namespace peercache
